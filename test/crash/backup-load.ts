import assert from "node:assert/strict";
import { TableClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { ShareServiceClient } from "@azure/storage-file-share";
import { QueueServiceClient } from "@azure/storage-queue";
import type { TestServer } from "../acceptance/server.ts";

const KIB = 1024;
const SIZES = [1 * KIB, 70 * KIB, 300 * KIB];

/** One writer's things: all of them are written in turn, each with the number of the round. */
type Writer = { readonly name: string; readonly size: number; sent: number; done: number };

/** What a writer had been told before some moment, and what it had at most asked for at another. */
type Bounds = ReadonlyMap<string, { readonly least: number; readonly most: number }>;

const contentOf = ({ name, size }: Writer, round: number): Buffer =>
  Buffer.alloc(size, `${name} in round ${round};`);

/** Which round a content is of; fails unless it is one whole. */
function roundOf(writer: Writer, bytes: Buffer): number {
  const round = Number(/ in round (\d+);/.exec(bytes.toString("latin1", 0, 100))?.[1]);
  assert.ok(bytes.equals(contentOf(writer, round)), `${writer.name} is not whole`);
  return round;
}

function clientsOf({ connectionString }: TestServer) {
  const options = { retryOptions: { maxTries: 1 } };
  return {
    blobs: BlobServiceClient.fromConnectionString(connectionString, options).getContainerClient(
      "rounds",
    ),
    queue: QueueServiceClient.fromConnectionString(connectionString, options).getQueueClient(
      "rounds",
    ),
    share: ShareServiceClient.fromConnectionString(connectionString, options).getShareClient(
      "rounds",
    ),
    table: TableClient.fromConnectionString(connectionString, "Rounds", {
      allowInsecureConnection: true,
    }),
  };
}

/**
 * Writers that go round: a blob, then an entity, then a file, then a message, all with the round's number,
 * each after the one before was acknowledged. So every state shows numbers that fall by at most one from
 * each to the next.
 */
export class RoundLoad {
  readonly #writers: Writer[];
  #isEnded = false;

  constructor(count: number) {
    this.#writers = Array.from({ length: count }, (_, i) => ({
      ...{ name: `writer-${i}`, size: SIZES[i % SIZES.length] as number, sent: 0, done: 0 },
    }));
  }

  get rounds(): number {
    return this.#writers.reduce((sum, { done }) => sum + done, 0);
  }

  async prepare(server: TestServer): Promise<void> {
    const { blobs, queue, share, table } = clientsOf(server);
    await Promise.all([blobs.create(), queue.create(), share.create(), table.createTable()]);
    for (const writer of this.#writers) await this.#round(server, writer);
  }

  /** Goes on until `end`. */
  async run(server: TestServer): Promise<void> {
    this.#isEnded = false;
    await Promise.all(
      this.#writers.map(async (writer) => {
        while (!this.#isEnded) await this.#round(server, writer);
      }),
    );
  }

  end(): void {
    this.#isEnded = true;
  }

  async #round(server: TestServer, writer: Writer): Promise<void> {
    const { blobs, queue, share, table } = clientsOf(server);
    const round = ++writer.sent;
    const bytes = contentOf(writer, round);
    await blobs.getBlockBlobClient(writer.name).upload(bytes, bytes.length);
    await table.upsertEntity({ partitionKey: "p", rowKey: writer.name, round }, "Replace");
    const file = share.rootDirectoryClient.getFileClient(writer.name);
    await file.create(bytes.length);
    await file.uploadRange(bytes, 0, bytes.length);
    await queue.sendMessage(`${writer.name} ${round}`);
    writer.done = round;
  }

  /** What must be there of each writer, from now on. */
  least(): ReadonlyMap<string, number> {
    return new Map(this.#writers.map(({ name, done }) => [name, done]));
  }

  /** With what can be there at most, by now. */
  bounds(least: ReadonlyMap<string, number>): Bounds {
    return new Map(
      this.#writers.map(({ name, sent }) => [name, { least: least.get(name) ?? 0, most: sent }]),
    );
  }

  /** Compares what a server has with what it must and can have. */
  async verify(server: TestServer, bounds: Bounds): Promise<void> {
    const { blobs, queue, share, table } = clientsOf(server);
    const told = new Map<string, Set<number>>();
    for (;;) {
      const { receivedMessageItems: items } = await queue.receiveMessages({
        ...{ numberOfMessages: 32, visibilityTimeout: 600 },
      });
      for (const { messageText } of items) {
        const [name = "", round] = messageText.split(" ");
        told.set(name, (told.get(name) ?? new Set()).add(Number(round)));
      }
      if (items.length === 0) break;
    }
    for (const writer of this.#writers) {
      const { least, most } = bounds.get(writer.name) ?? { least: 0, most: 0 };
      const blob = await blobs.getBlockBlobClient(writer.name).downloadToBuffer();
      const file = await share.rootDirectoryClient.getFileClient(writer.name).downloadToBuffer();
      const entity = await table.getEntity<{ round: number }>("p", writer.name);
      const messages = told.get(writer.name) ?? new Set();
      const last = Math.max(0, ...messages);
      assert.equal(messages.size, last, "a message is missing between others");
      // A file is created first, full of zeros, and written then: that is a state as well.
      const isBlank = file.every((byte) => byte === 0);
      const inFile = isBlank ? entity.round : roundOf(writer, file);
      const rounds = [roundOf(writer, blob), entity.round, inFile, last];
      const what = `${writer.name}: ${rounds}, from ${least} to ${most}`;
      for (const [index, round] of rounds.entries()) {
        assert.ok(round >= least && round <= most, what);
        assert.ok(round <= (rounds[0] as number) && round >= (rounds[0] as number) - 1, what);
        assert.ok(round <= (rounds[index - 1] ?? round), what);
      }
    }
  }
}
