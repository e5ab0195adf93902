import { avroLong, avroMap, avroOptional, avroString } from "../base/avro.ts";
import { type Tick, tickText } from "../base/time.ts";
import type { Changed, ChangeRecord } from "../store/change-records.ts";

const optional = (type: unknown) => ["null", type];
const strings = { type: "map", values: "string" };
const record = (name: string, fields: Readonly<Record<string, unknown>>) => ({
  type: "record",
  name,
  fields: Object.entries(fields).map(([field, type]) => ({ name: field, type })),
});

const SCHEMA_VERSION = 5;

/** The schema of events ("Change feed in Blob Storage", schema version 5). */
export const EVENT_SCHEMA = record("BlobChangeEvent", {
  schemaVersion: "int",
  topic: "string",
  subject: "string",
  eventType: "string",
  eventTime: "string",
  id: "string",
  data: record("BlobChangeEventData", {
    api: "string",
    clientRequestId: "string",
    requestId: "string",
    etag: "string",
    contentType: "string",
    contentLength: "long",
    blobType: "string",
    blobVersion: optional("string"),
    containerVersion: optional("string"),
    blobTier: optional("string"),
    url: "string",
    sequencer: "string",
    previousInfo: optional(strings),
    snapshot: optional("string"),
    blobPropertiesUpdated: optional({
      type: "map",
      values: record("BlobPropertyChange", { current: "string", previous: "string" }),
    }),
    asyncOperationInfo: optional(strings),
    blobTagsUpdated: optional(record("BlobTagsChange", { previous: strings, current: strings })),
    storageDiagnostics: optional(strings),
  }),
});

const TOPIC =
  "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/lazuli/providers/Microsoft.Storage/storageAccounts";

const stringMap = (values: Readonly<Record<string, string>>) => avroMap(values, avroString);

const change = ({ current, previous }: Changed) =>
  Buffer.concat([avroString(current), avroString(previous)]);

/** An event as the log has it, by that schema. */
export function encodedEvent(account: string, tick: Tick, event: ChangeRecord): Buffer {
  return Buffer.concat([
    avroLong(SCHEMA_VERSION),
    avroString(`${TOPIC}/${account}`),
    avroString(`/blobServices/default/containers/${event.container}/blobs/${event.blob}`),
    avroString(event.type),
    avroString(tickText(tick)),
    avroString(event.id),
    avroString(event.api),
    avroString(event.clientRequestId ?? ""),
    avroString(event.requestId),
    avroString(event.etag),
    avroString(event.contentType),
    avroLong(event.contentLength),
    avroString(event.blobType),
    avroOptional(event.version, avroString),
    avroOptional(undefined, avroString),
    avroOptional(event.tier, avroString),
    avroString(""), // Azure leaves the URL empty in its log
    avroString(tick.toString(16).padStart(48, "0")),
    avroOptional(event.previous, stringMap),
    avroOptional(event.snapshot, avroString),
    avroOptional(event.properties, (all) => avroMap(all, change)),
    avroOptional(event.asyncOperation, stringMap),
    avroOptional(event.tags, ({ previous, current }) =>
      Buffer.concat([stringMap(previous), stringMap(current)]),
    ),
    avroOptional(undefined, stringMap),
  ]);
}
