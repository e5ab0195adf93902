import type { AddressInfo } from "node:net";
import type { SecureContextOptions } from "node:tls";
import { Worker } from "node:worker_threads";
import type { Account, Accounts } from "../auth/accounts.ts";
import type { Service } from "../auth/caller.ts";
import { ClientGone } from "./body.ts";
import { packed, type Served } from "./exchange.ts";
import {
  type Asked,
  type FromFront,
  type FrontSums,
  foreseenSums,
  Outbox,
  owned,
  Rooms,
  type ToFront,
  WINDOW,
  type WillSum,
} from "./messages.ts";
import type { RequestBody } from "./operation.ts";
import { headText, parseHead, reasonOf } from "./wire.ts";

/** A port on which requests come in. */
export type HttpPort = {
  readonly address: AddressInfo;
  setCertificate(tls: SecureContextOptions): void;
  /** Takes no new connection, lets running requests finish for some seconds, then ends what is left. */
  drained(): Promise<void>;
};

export type PortOptions = {
  readonly service: Service;
  readonly serve: (served: Served) => void;
  readonly host: string;
  readonly port: number;
  readonly tls: SecureContextOptions | undefined;
};

/** A port could not be opened; `code` is the system's. */
export class PortError extends Error {
  readonly code: string;

  constructor(code: string, why: string) {
    super(why);
    this.code = code;
  }
}

/**
 * The threads that speak HTTP. Reading, writing and verifying are half of the work of a small request, and need
 * nothing that the main thread has (decision 11).
 */
export class Fronts {
  readonly #fronts: readonly Front[];
  readonly #ports: Pick<PortOptions, "service" | "serve">[] = [];
  readonly #accounts: () => Accounts;
  #told: Accounts | undefined;
  #generation = 0;

  constructor(
    count: number,
    { accounts, onFatal }: { accounts: () => Accounts; onFatal: (error: unknown) => void },
  ) {
    this.#accounts = accounts;
    this.#fronts = Array.from({ length: count }, () => new Front(this, onFatal));
    this.#tellAccounts();
  }

  /** Opens a port on every thread; the system shares its connections out among them. */
  async open({ service, serve, host, port, tls }: PortOptions): Promise<HttpPort> {
    const number = this.#ports.push({ service, serve }) - 1;
    const open = (front: Front, at: number, reusePort: boolean) =>
      front.open({
        kind: "open",
        port: number,
        service,
        tls,
        listen: { port: at, host, reusePort },
      });
    const [first, ...others] = this.#fronts as [Front, ...Front[]];
    // The first alone, so that a port which another process has is noticed.
    let address = await open(first, port, false);
    if (others.length > 0) {
      await first.drain(number);
      address = await open(first, address.port, true);
      for (const other of others) await open(other, address.port, true);
    }
    return {
      address,
      setCertificate: (changed) => {
        const message = { kind: "certificate", port: number, tls: changed } as const;
        for (const front of this.#fronts) front.out.add(message);
      },
      drained: async () => {
        await Promise.all(this.#fronts.map((front) => front.drain(number)));
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#fronts.map((front) => front.close()));
  }

  serve(asked: Asked, front: Front): void {
    this.#tellAccounts();
    const { generation, signer } = asked;
    const port = this.#ports[asked.port] as Pick<PortOptions, "service" | "serve">;
    const isNow = signer !== undefined && generation === this.#generation;
    const account = isNow ? this.#told?.get(signer) : undefined;
    const served = new Exchanged(front, asked, port.service, account);
    front.known.set(asked.id, served);
    port.serve(served);
  }

  /** Accounts may change at any time; what was signed by those before is verified anew. */
  #tellAccounts(): void {
    const now = this.#accounts();
    if (now === this.#told) return;
    this.#told = now;
    this.#generation++;
    const keys = new Map([...now].map(([name, account]) => [name, account.keys]));
    for (const { out } of this.#fronts) {
      out.add({ kind: "accounts", generation: this.#generation, keys });
    }
  }
}

/** One thread, as the main one sees it. */
class Front {
  readonly out: Outbox<ToFront>;
  readonly known = new Map<number, Exchanged>();
  readonly rooms = new Rooms();
  readonly #worker: Worker;
  readonly #fronts: Fronts;
  readonly #opening = new Map<number, (told: AddressInfo | PortError) => void>();
  readonly #draining = new Map<number, () => void>();

  constructor(fronts: Fronts, onFatal: (error: unknown) => void) {
    this.#fronts = fronts;
    const ending = import.meta.url.endsWith(".ts") ? "ts" : "js"; // from source, or from a build
    const script = new URL(`./front-thread.${ending}`, import.meta.url);
    this.#worker = new Worker(script, { resourceLimits: { maxYoungGenerationSizeMb: 8 } });
    this.out = new Outbox((list, transfer) => this.#worker.postMessage(list, transfer));
    this.#worker.unref(); // the main thread's own ports keep the process, and a start that fails ends
    this.#worker.on("error", onFatal);
    this.#worker.on("message", (list: readonly FromFront[]) => {
      for (const message of list) this.#hear(message);
    });
  }

  async open(message: Extract<ToFront, { kind: "open" }>): Promise<AddressInfo> {
    const told = await new Promise<AddressInfo | PortError>((resolve) => {
      this.#opening.set(message.port, resolve);
      this.out.add(message);
    });
    if (told instanceof PortError) throw told;
    return told;
  }

  drain(port: number): Promise<void> {
    return new Promise((resolve) => {
      this.#draining.set(port, resolve);
      this.out.add({ kind: "drain", port });
    });
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }

  #hear(message: FromFront): void {
    if (message.kind === "asked") this.#fronts.serve(message, this);
    else if (message.kind === "opened") this.#opening.get(message.port)?.(message.address);
    else if (message.kind === "failed") {
      this.#opening.get(message.port)?.(new PortError(message.code, message.why));
    } else if (message.kind === "drained") this.#draining.get(message.port)?.();
    else {
      if (message.kind === "taken") this.rooms.take(message.room);
      this.known.get(message.id)?.hear(message);
    }
  }
}

/** One request and its reply, on a connection that another thread has. */
class Exchanged implements Served {
  readonly head: Served["head"];
  readonly body: DistantBody;
  readonly client: string | undefined;
  readonly signer: Account | undefined;
  status = 0;
  isGone = false;
  isAwaited: boolean;
  readonly #front: Front;
  readonly #id: number;
  #ahead = 0;
  #goOn: (() => void) | undefined;
  #isOver = false;

  constructor(front: Front, asked: Asked, service: Service, signer: Account | undefined) {
    this.#front = front;
    this.#id = asked.id;
    this.head = parseHead(asked.head);
    this.client = asked.client;
    this.signer = signer;
    this.isAwaited = asked.isAwaited;
    this.body = new DistantBody(front, asked, foreseenSums(service, this.head));
  }

  get isBegun(): boolean {
    return this.status !== 0;
  }

  proceed(): void {
    if (!this.isAwaited) return;
    this.isAwaited = false;
    this.#tell("proceed");
  }

  reply(
    status: number,
    list: readonly string[],
    body?: string | Uint8Array,
    reason: string = reasonOf(status),
  ): void {
    const head = headText(status, reason, list);
    this.status = status;
    const message = { kind: "reply", id: this.#id, status, head } as const;
    const sent = body === undefined ? body : packed(body);
    if (sent === undefined || typeof sent === "string") {
      this.#front.out.add({ ...message, body: sent });
    } else {
      const bytes = owned(sent);
      this.#front.out.addWith({ ...message, body: bytes }, bytes);
    }
    this.#forget();
  }

  begin(status: number, list: readonly string[]): void {
    headText(status, "", list); // throws here if a value is unfit, not over there
    this.status = status;
    this.#front.out.add({ kind: "begin", id: this.#id, status, list: [...list] });
  }

  write(part: Uint8Array): Promise<void> | undefined {
    if (this.isGone || part.length === 0) return undefined;
    const bytes = this.#front.rooms.filled(part);
    this.#ahead += bytes.length;
    this.#front.out.addWith({ kind: "part", id: this.#id, bytes }, bytes);
    if (this.#ahead <= WINDOW) return undefined;
    return new Promise((resolve) => {
      this.#goOn = resolve;
    });
  }

  end(): void {
    this.#tell("end");
    this.#forget();
  }

  destroy(): void {
    this.#tell("destroy");
    this.isGone = true;
    this.#forget();
  }

  hear(message: FromFront): void {
    if (message.kind === "data") this.body.take(message.bytes);
    else if (message.kind === "over") this.body.over(message.sums);
    else if (message.kind === "taken") {
      this.#ahead -= message.size;
      if (this.#ahead <= WINDOW) this.#goOn?.();
    } else if (message.kind === "gone") {
      this.isGone = true;
      this.body.lose();
      this.#goOn?.();
      this.#forget();
    }
  }

  #tell(kind: "end" | "destroy" | "proceed"): void {
    if (!this.#isOver) this.#front.out.add({ kind, id: this.#id });
  }

  #forget(): void {
    this.#isOver = true;
    this.#front.known.delete(this.#id);
  }
}

/** A body on a connection that another thread has; it comes when it is asked for. */
class DistantBody implements RequestBody {
  readonly size: number | undefined;
  readonly willSum: WillSum;
  readonly sums: FrontSums | undefined;
  #later: FrontSums | undefined;
  readonly #front: Front;
  readonly #id: number;
  #whole: Uint8Array | string | undefined;
  #parts: Uint8Array[] = [];
  #isOver = false;
  #isGone = false;
  #tell: (() => void) | undefined;

  constructor(front: Front, { id, size, body, sums }: Asked, willSum: WillSum) {
    this.willSum = willSum;
    this.#front = front;
    this.#id = id;
    this.size = size;
    this.#whole = body;
    this.sums = sums;
  }

  async whole(): Promise<Buffer> {
    const whole = this.#whole;
    if (whole === undefined) {
      const parts: Uint8Array[] = [];
      for await (const part of this.stream()) parts.push(part);
      return Buffer.concat(parts);
    }
    if (typeof whole === "string") return Buffer.from(whole, "latin1");
    return Buffer.from(whole.buffer, whole.byteOffset, whole.byteLength);
  }

  async *stream(): AsyncGenerator<Uint8Array> {
    if (this.#whole !== undefined) {
      const bytes = await this.whole();
      if (bytes.length > 0) yield bytes;
      return;
    }
    this.#front.out.add({ kind: "want", id: this.#id });
    for (;;) {
      const part = this.#parts.shift();
      if (part !== undefined) {
        const { length: size } = part;
        yield part;
        this.#front.out.add({ kind: "used", id: this.#id, size });
      } else if (this.#isOver) return;
      else if (this.#isGone) throw new ClientGone();
      else await this.#news();
    }
  }

  /** Who reads as many bytes as there are need not have heard of the end. */
  async laterSums(): Promise<FrontSums> {
    while (this.#later === undefined) {
      if (this.#isGone) throw new ClientGone();
      await this.#news();
    }
    return this.#later;
  }

  take(bytes: Uint8Array): void {
    this.#parts.push(bytes);
    this.#tell?.();
  }

  over(sums: FrontSums): void {
    this.#later = sums;
    this.#isOver = true;
    this.#tell?.();
  }

  lose(): void {
    this.#isGone = true;
    this.#tell?.();
  }

  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#tell = () => {
        this.#tell = undefined;
        resolve();
      };
    });
  }
}
