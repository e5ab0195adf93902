import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Beginning, Order, Word } from "./faulty-server.ts";
import { type Leaves, sendHttp, serviceNames } from "./http-line.ts";
import type { Answer, Sent } from "./traffic.ts";

const REQUESTS_MAX = 64;
/** The machine's clock is read at slightly different times by client and server. */
export const SLACK_MS = 100;

/** A process that serves a directory, and the clients' view of it. */
export class Served {
  readonly root = mkdtempSync(join(tmpdir(), "lazuli-proof-"));
  #child: ChildProcess | undefined;
  #agent = new http.Agent({ keepAlive: true });
  #ports: Readonly<Record<string, number>> = {};
  #directories = 0;
  #nextDirectory: string | undefined;
  #output = "";
  directory = "";
  /** What the server's clock may be ahead by: two values while it is being changed. */
  offsets = [0, 0];
  highest = 0;
  ready: Promise<void> = Promise.resolve();
  /** How many processes there have been. */
  lives = 0;
  readonly #seed: number;

  constructor(seed: number) {
    this.#seed = seed;
  }

  begin(cut?: Omit<NonNullable<Beginning["cut"]>, "image">): Promise<void> {
    this.ready = this.#begin(cut);
    return this.ready;
  }

  async #begin(cut?: Omit<NonNullable<Beginning["cut"]>, "image">): Promise<void> {
    if (this.directory === "") this.directory = this.#newDirectory();
    const { directory } = this;
    const image = this.#newDirectory();
    const beginning: Beginning = {
      ...{ directory, offsetMs: this.offsets[0] ?? 0, requestsMax: REQUESTS_MAX },
      // Every second process speaks HTTP by a thread of its own.
      threads: (this.#seed + this.lives) % 2,
      ...(cut === undefined ? {} : { cut: { ...cut, image } }),
    };
    const script = new URL("./faulty-server.ts", import.meta.url);
    const child = fork(script, [JSON.stringify(beginning)], {
      execArgv: [],
      silent: true,
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#output = `${this.#output}${text}`.slice(-4000);
    });
    child.stdout?.resume();
    this.#child = child;
    const ended = once(child, "exit").then(() => {
      throw new Error(`the server did not start: ${this.#output}`);
    });
    const [word] = (await Promise.race([once(child, "message"), ended])) as [Word];
    ended.catch(() => {});
    if ("ports" in word) this.#ports = word.ports;
    this.lives++;
    this.#agent.destroy();
    this.#agent = new http.Agent({ keepAlive: true });
    if (cut !== undefined) this.#nextDirectory = image;
  }

  #newDirectory(): string {
    return join(this.root, `data-${++this.#directories}`);
  }

  /** Resolves when the process has ended; after a power cut the image is the directory. */
  async ended(): Promise<void> {
    const child = this.#child;
    if (child !== undefined && child.exitCode === null && child.signalCode === null) {
      await once(child, "exit");
    }
    if (this.#nextDirectory !== undefined) {
      rmSync(this.directory, { recursive: true, force: true });
      this.directory = this.#nextDirectory;
      this.#nextDirectory = undefined;
    }
  }

  get isGone(): boolean {
    return this.#child?.exitCode !== null || this.#child.signalCode !== null;
  }

  async kill(): Promise<void> {
    this.#nextDirectory = undefined;
    this.#child?.kill("SIGKILL");
    await this.ended();
  }

  async order(order: Order): Promise<void> {
    const done = once(this.#child as ChildProcess, "message");
    this.#child?.send(order);
    await done;
  }

  async setOffset(offsetMs: number): Promise<void> {
    this.offsets = [...this.offsets, offsetMs];
    await this.order({ kind: "clock", offsetMs });
    this.seenClock();
    this.offsets = [offsetMs];
  }

  seenClock(): number {
    this.highest = Math.max(this.highest, Date.now() + Math.max(...this.offsets) + SLACK_MS);
    return this.highest;
  }

  send(sent: Sent, leaves?: Leaves): Promise<Answer> {
    return sendHttp(this.#ports, this.#agent, sent, leaves);
  }

  get smbPort(): number {
    return this.#ports.smb ?? 0;
  }

  async isHealthy(): Promise<boolean> {
    const replies = await Promise.all(
      serviceNames.map((name) => fetch(`http://127.0.0.1:${this.#ports[name]}/healthz`)),
    );
    return replies.every(({ status }) => status === 200);
  }

  async end(): Promise<void> {
    await this.kill();
    this.#agent.destroy();
    rmSync(this.root, { recursive: true, force: true });
  }
}
