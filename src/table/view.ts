import { parseFlatJson } from "../base/flat-json.ts";
import { type EdmValue, parseDateTime, valueOfJson } from "../rules/edm.ts";
import { type Property, propertiesJson, storedProperties } from "../rules/entity.ts";
import { type EntityRecord, propertiesAt, stampOf } from "../store/table-records.ts";
import { type MetadataLevel, quotedInUrl, type TableRequest } from "./format.ts";

/** An entity's ETag: its Timestamp, in the form of a weak tag. */
export const etagOf = (record: EntityRecord): string =>
  `W/"datetime'${stampOf(record).replaceAll(":", "%3A")}'"`;

/** Which way entities are shown: the level, the table they are in, and what is wanted of them. */
export type View = {
  readonly level: MetadataLevel;
  readonly account: string;
  /** The base of URLs, with a slash at the end. */
  readonly endpoint: string;
  readonly table: string;
  /** Names in the order they were asked for; undefined for all. */
  readonly select: readonly string[] | undefined;
};

export const viewOf = (
  { account, endpoint, names: [table = ""] }: TableRequest,
  level: MetadataLevel,
  select?: readonly string[],
): View => ({ level, account, endpoint, table, select });

/** The path of an entity below the endpoint. */
export const entityPath = (table: string, partitionKey: string, rowKey: string): string =>
  `${table}(PartitionKey='${quotedInUrl(partitionKey)}',RowKey='${quotedInUrl(rowKey)}')`;

/** An entity that is a reply of its own. */
export function entityBytes(record: EntityRecord, view: View): Uint8Array[] {
  if (view.level === "nometadata") return memberBytes(record, view);
  const context = JSON.stringify(`${view.endpoint}$metadata#${view.table}/@Element`);
  return memberBytes(record, view, `"odata.metadata":${context},`);
}

/** An entity as an object with `before` its first members; most are copied as they are stored. */
export function memberBytes(record: EntityRecord, view: View, before = ""): Uint8Array[] {
  const { level, select } = view;
  if (select !== undefined) return [Buffer.from(selectedJson(record, view, select, before))];
  if (level === "nometadata") {
    return [record.isAnnotated ? Buffer.from(bareJson(record)) : record.json];
  }
  const head = `{${before}${annotations(record, view)}`;
  if (level === "minimalmetadata") return [Buffer.from(head), record.json.subarray(1)];
  const stampNameAt = record.stampAt - '"Timestamp":"'.length;
  return [
    Buffer.from(head),
    record.json.subarray(1, stampNameAt),
    Buffer.from('"Timestamp@odata.type":"Edm.DateTime",'),
    record.json.subarray(stampNameAt),
  ];
}

/** What replies say of an entity beside its properties. */
function annotations(record: EntityRecord, { level, account, endpoint, table }: View): string {
  if (level === "nometadata") return "";
  const etag = `"odata.etag":${JSON.stringify(etagOf(record))},`;
  if (level === "minimalmetadata") return etag;
  const [partitionKey = "", rowKey = ""] = keysOf(record);
  const path = entityPath(table, partitionKey, rowKey);
  const id = JSON.stringify(`${endpoint}${path}`);
  return `"odata.type":"${account}.${table}","odata.id":${id},${etag}"odata.editLink":${JSON.stringify(path)},`;
}

const keysOf = (record: EntityRecord): string[] =>
  membersOfRecord(record)
    .slice(0, 2)
    .map(({ json }) => JSON.parse(json) as string);

const membersOfRecord = ({ json }: EntityRecord) => parseFlatJson(json.toString("utf8"));

/** The properties of an entity that are its own, without keys and Timestamp. */
export function ownProperties(record: EntityRecord): Property[] {
  const rest = record.json.toString("utf8", propertiesAt(record));
  return rest === "}" ? [] : storedProperties(parseFlatJson(`{${rest.slice(1)}`));
}

function bareJson(record: EntityRecord): string {
  const members = membersOfRecord(record).filter(({ name }) => !name.includes("@"));
  return `{${members.map(({ name, json }) => `"${name}":${json}`).join(",")}}`;
}

/** Only what was asked for; a property that is not there is null ("Query Entities", remarks). */
function selectedJson(
  record: EntityRecord,
  view: View,
  select: readonly string[],
  before: string,
): string {
  const all = new Map(storedProperties(membersOfRecord(record)).map((each) => [each.name, each]));
  let text = before + annotations(record, view);
  for (const name of select) {
    const property = all.get(name);
    if (property === undefined) text += `"${name}":null,`;
    else if (view.level === "nometadata") text += `"${name}":${property.json},`;
    else {
      if (name === "Timestamp" && view.level === "fullmetadata") {
        text += '"Timestamp@odata.type":"Edm.DateTime",';
      }
      text += `${propertiesJson([property]).slice(1)},`;
    }
  }
  return `{${text.slice(0, -1)}}`;
}

/** Gives an entity's values by name, with their types; nothing is read before it is asked for. */
export function valuesOf(record: EntityRecord): (name: string) => EdmValue | undefined {
  let properties: readonly Property[] | undefined;
  return (name) => {
    if (name === "Timestamp") {
      return { type: "DateTime", value: parseDateTime(stampOf(record)) ?? 0n };
    }
    properties ??= storedProperties(membersOfRecord(record));
    for (const property of properties) {
      if (property.name === name) {
        return { type: property.type, value: valueOfJson(property.type, property.json) };
      }
    }
    return undefined;
  };
}
