import {
  avroBlock,
  avroBoolean,
  avroBytes,
  avroHead,
  avroLong,
  avroString,
} from "../../base/avro.ts";

const name = (record: string) => `com.microsoft.azure.storage.queryBlobContents.${record}`;
const record = (of: string, fields: Readonly<Record<string, string>>) => ({
  type: "record",
  name: name(of),
  fields: Object.entries(fields).map(([field, type]) => ({ name: field, type })),
});

/** The four records of a reply, in the order of the union ("Query Blob Contents", response body). */
const SCHEMA = [
  record("resultData", { data: "bytes" }),
  record("error", { fatal: "boolean", name: "string", description: "string", position: "long" }),
  record("progress", { bytesScanned: "long", totalBytes: "long" }),
  record("end", { totalBytes: "long" }),
];
const [DATA, ERROR, PROGRESS, END] = [0, 1, 2, 3] as const;

export type QueryError = {
  readonly fatal: boolean;
  readonly name: string;
  readonly description: string;
  /** Where the row begins, in bytes. */
  readonly position: number;
};

/** Writes the records of one reply, each in a block of its own. */
export class RecordWriter {
  readonly #sync: Uint8Array;

  constructor(sync: Uint8Array) {
    this.#sync = sync;
  }

  head(): Buffer {
    return avroHead(SCHEMA, this.#sync);
  }

  data(bytes: Uint8Array): Buffer {
    return this.#block(DATA, avroBytes(bytes));
  }

  error({ fatal, name, description, position }: QueryError): Buffer {
    const fields = [avroBoolean(fatal), avroString(name), avroString(description)];
    return this.#block(ERROR, ...fields, avroLong(position));
  }

  progress(bytesScanned: number, totalBytes: number): Buffer {
    return this.#block(PROGRESS, avroLong(bytesScanned), avroLong(totalBytes));
  }

  end(totalBytes: number): Buffer {
    return this.#block(END, avroLong(totalBytes));
  }

  #block(kind: number, ...fields: Buffer[]): Buffer {
    return avroBlock(1, Buffer.concat([avroLong(kind), ...fields]), this.#sync);
  }
}
