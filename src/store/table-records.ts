import { type Tick, tickText } from "../base/time.ts";
import { type AccessPolicy, containerIdRecord, json } from "./records.ts";
import type { Codec } from "./subspace.ts";

export type TableRecord = {
  /** Its entities' keys begin with this number, so that a table of a deleted one's name begins empty. */
  readonly id: string;
  /** The name as it was given when the table was made. */
  readonly name: string;
  readonly policies: readonly AccessPolicy[];
};

export const tableRecord = json<TableRecord>();

/** The number of a table, alone: entities are found by it without reading the table's record. */
export const tableIdRecord: Codec<bigint> = containerIdRecord;

/**
 * An entity as the JSON object that most replies are made of, so that a reply copies it and nothing is parsed:
 * keys, Timestamp, then the properties with their types where JSON does not tell them. Before it stand a version,
 * whether any type is annotated, and where the text of the Timestamp begins.
 */
export type EntityRecord = {
  readonly json: Buffer;
  readonly isAnnotated: boolean;
  readonly stampAt: number;
};

const VERSION = 1;
const HEAD_SIZE = 4;
const STAMP_SIZE = 28;

export const entityRecord: Codec<EntityRecord> = {
  encode({ json: text, isAnnotated, stampAt }) {
    const bytes = Buffer.allocUnsafe(HEAD_SIZE + text.length);
    bytes[0] = VERSION;
    bytes[1] = isAnnotated ? 1 : 0;
    bytes.writeUInt16BE(stampAt, 2);
    text.copy(bytes, HEAD_SIZE);
    return bytes;
  },
  decode(value) {
    if (value[0] !== VERSION) throw new Error(`an entity has the unknown version ${value[0]}`);
    const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
    return {
      json: bytes.subarray(HEAD_SIZE),
      isAnnotated: bytes[1] === 1,
      stampAt: bytes.readUInt16BE(2),
    };
  },
};

/** What an entity's record is made of. */
export type EntityParts = {
  /** Its keys as members of a JSON object: `"PartitionKey":…,"RowKey":…`. */
  readonly keysJson: string;
  readonly tick: Tick;
  /** Its properties as members, each with a comma before it. */
  readonly propertiesJson: string;
};

/** An entity's record with a new Timestamp. */
export function entityOf({ keysJson, tick, propertiesJson }: EntityParts): EntityRecord {
  const head = `{${keysJson},"Timestamp":"`;
  const bytes = Buffer.from(`${head}${tickText(tick)}"${propertiesJson}}`, "utf8");
  return {
    json: bytes,
    isAnnotated: propertiesJson.includes('@odata.type":'),
    stampAt: Buffer.byteLength(head, "utf8"),
  };
}

/** The Timestamp's text; the ETag holds the same one. */
export const stampOf = ({ json: text, stampAt }: EntityRecord): string =>
  text.toString("latin1", stampAt, stampAt + STAMP_SIZE);

/** Where the members behind the Timestamp begin, with their comma, or the closing brace. */
export const propertiesAt = ({ stampAt }: EntityRecord): number => stampAt + STAMP_SIZE + 1;
