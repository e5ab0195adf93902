import { setImmediate } from "node:timers/promises";
import type { ByteStream } from "../../base/bytes.ts";
import type { Instant } from "../../base/time.ts";
import { type BinaryText, binaryOf } from "./binary.ts";
import { Work } from "./evaluate.ts";
import type { QueryRequest } from "./format.ts";
import { type Scan, scanOf } from "./plan.ts";
import { RecordWriter } from "./records.ts";
import { QueryFault } from "./values.ts";

const WINDOW_SIZE = 64 * 1024;
const DATA_SIZE = 64 * 1024;
const PROGRESS_STEP = 4 * 1024 * 1024;
/** How much may be looked at before others get their turn: some ten milliseconds. */
const TURN_WORK = 2 * 1024 * 1024;

export type QueryRun = {
  readonly source: ByteStream;
  /** The blob's size: the last record tells it. */
  readonly size: number;
  readonly request: QueryRequest;
  readonly now: Instant;
  /** Sixteen bytes that end each block of the reply. */
  readonly sync: Uint8Array;
};

/**
 * The reply of Query Blob Contents: results as they are found, errors where they happen, progress, and the
 * end. A row that fails is told and left out; after a fatal error only the end comes, so that a client that
 * waits for it is not left waiting. Memory holds one row and one block, however large the blob is.
 */
export async function* queried(run: QueryRun): AsyncGenerator<Uint8Array> {
  const { source, size, request, now } = run;
  const records = new RecordWriter(run.sync);
  const results = new Results(records);
  const work = new Work();
  yield records.head();
  let scanned = 0;
  let told = 0;
  try {
    const scan = scanOf({ request, now, work, send: (row) => results.add(row) });
    for await (const { text, isLast } of windows(source)) {
      scan.feed(text, isLast);
      for (;;) {
        const failed = stepped(scan, work);
        if (failed === "no row yet") break;
        if (failed !== undefined) {
          yield* results.flush();
          yield records.error(failed);
          if (failed.fatal) throw new Stopped();
        }
        if (results.isFull) yield* results.flush();
        if (scan.isDone) throw new Stopped();
        if (work.total > TURN_WORK) {
          work.total = 0;
          await setImmediate();
        }
      }
      scanned += text.length;
      if (scanned - told >= PROGRESS_STEP) {
        told = scanned;
        yield records.progress(scanned, size);
      }
    }
    scan.finish();
  } catch (error) {
    if (error instanceof QueryFault) {
      yield records.error({ ...faultOf(error), position: 0 });
    } else if (!(error instanceof Stopped)) {
      throw error;
    }
  }
  yield* results.flush();
  yield records.progress(size, size);
  yield records.end(size);
}

/** The query needs no more of the blob. */
class Stopped extends Error {}

const faultOf = ({ isFatal, name, message }: QueryFault) => ({
  fatal: isFatal,
  name,
  description: message,
});

/** One step of the scan; gives what went wrong, if anything. */
function stepped(scan: Scan, work: Work) {
  work.beginRow();
  try {
    return scan.step() ? undefined : ("no row yet" as const);
  } catch (error) {
    if (!(error instanceof QueryFault)) throw error;
    return { ...faultOf(error), position: scan.position };
  }
}

/** Gathers rows of the result until there are enough for a block. */
class Results {
  readonly #records: RecordWriter;
  #text: BinaryText = "";

  constructor(records: RecordWriter) {
    this.#records = records;
  }

  add(row: BinaryText): void {
    this.#text += row;
  }

  get isFull(): boolean {
    return this.#text.length >= DATA_SIZE;
  }

  *flush(): Generator<Uint8Array> {
    if (this.#text === "") return;
    const bytes = Buffer.from(this.#text, "latin1");
    this.#text = "";
    yield this.#records.data(bytes);
  }
}

/**
 * The blob in parts of some size, however small or large its chunks are: a row is looked at a few times at most, and
 * no text is so long that only a collection of all memory would free it.
 */
async function* windows(source: ByteStream): AsyncGenerator<{ text: BinaryText; isLast: boolean }> {
  let parts: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of source) {
    for (let at = 0; at < bytes.length; at += WINDOW_SIZE) {
      const part = bytes.subarray(at, at + WINDOW_SIZE);
      parts.push(part);
      size += part.length;
      if (size < WINDOW_SIZE) continue;
      yield { text: binaryOf(parts), isLast: false };
      parts = [];
      size = 0;
    }
  }
  yield { text: binaryOf(parts), isLast: true };
}
