import { type Allow, isInRange, keysOf } from "../auth/may-do.ts";
import type { WriteTx } from "../engine/engine.ts";
import type { HeaderValue, Reply } from "../http/operation.ts";
import {
  badEntity,
  merged,
  type Property,
  parseEntity,
  propertiesJson,
  refuseKey,
} from "../rules/entity.ts";
import { explained, refuse, StorageError } from "../rules/errors.ts";
import { entities } from "../store/keys.ts";
import { type EntityRecord, entityOf } from "../store/table-records.ts";
import {
  jsonReply,
  jsonText,
  type MetadataLevel,
  metadataLevel,
  odataHeaders,
  type Preference,
  preferenceOf,
  refuseOptions,
  refuseVersions,
  type TableRequest,
} from "./format.ts";
import { entityBytes, entityPath, etagOf, ownProperties, viewOf } from "./view.ts";

/** One change of one entity, as a request or a part of a batch asks for it. */
export type Change = {
  readonly action: "insert" | "replace" | "merge" | "delete";
  readonly partitionKey: string;
  readonly rowKey: string;
  /** The keys as the record has them. */
  readonly keysJson: string;
  /** The ETag that the entity must have, `*` for any; undefined where it need not even be there. */
  readonly ifMatch: string | undefined;
  readonly properties: readonly Property[];
  readonly preference: Preference;
  readonly level: MetadataLevel;
};

/** What callers with a signature need for each kind of change: an upsert may add, and may update. */
export const allowed = {
  insert: { sas: "a", resource: "o" },
  update: { sas: "u", resource: "o" },
  upsert: { sas: "au", every: true, resource: "o" },
  delete: { sas: "d", resource: "o" },
  query: { sas: "r", resource: "o" },
} as const satisfies Record<string, Allow>;

export function allowOf({ action, ifMatch }: Change): Allow {
  if (action === "insert" || action === "delete") return allowed[action];
  return ifMatch === undefined ? allowed.upsert : allowed.update;
}

const ACTIONS: Readonly<Record<string, Change["action"]>> = {
  POST: "insert",
  PUT: "replace",
  MERGE: "merge",
  PATCH: "merge",
  DELETE: "delete",
};

/** What a request wants of an entity; all that can be refused without looking at the entity is refused here. */
export function changeOf(request: TableRequest, body: Buffer): Change {
  const { method, names } = request;
  const action = ACTIONS[method];
  if (action === undefined || (action === "insert") !== (request.level === "entities")) {
    throw new StorageError("MethodNotAllowed");
  }
  refuseVersions(request);
  refuseOptions(request, "write");
  const ifMatch = ifMatchOf(request, action);
  const level = metadataLevel(request);
  if (action === "delete") {
    const [, partitionKey = "", rowKey = ""] = names;
    const change = { ...keyed(partitionKey, rowKey), properties: [], preference: undefined };
    return { action, ifMatch, level, ...change };
  }
  const entity = parseEntity(jsonText(request, body));
  const { properties } = entity;
  const [, partitionKey = entity.partitionKey, rowKey = entity.rowKey] = names;
  if (partitionKey === undefined || rowKey === undefined) {
    throw new StorageError("PropertiesNeedValue");
  }
  // The keys of a body are those of the URL, where it names them at all.
  if ((entity.partitionKey ?? partitionKey) !== partitionKey)
    throw new StorageError("InvalidInput");
  if ((entity.rowKey ?? rowKey) !== rowKey) throw new StorageError("InvalidInput");
  const keys = keyed(partitionKey, rowKey);
  const range = keysOf(request.caller);
  if (range !== undefined && !isInRange(range, partitionKey, rowKey)) {
    throw new StorageError("AuthorizationFailure");
  }
  refuse(badEntity(partitionKey, rowKey, properties));
  const preference = action === "insert" ? preferenceOf(request) : undefined;
  return { action, ifMatch, level, ...keys, properties, preference };
}

function keyed(partitionKey: string, rowKey: string) {
  refuseKey("PartitionKey", partitionKey);
  refuseKey("RowKey", rowKey);
  const keysJson = `"PartitionKey":${JSON.stringify(partitionKey)},"RowKey":${JSON.stringify(rowKey)}`;
  return { partitionKey, rowKey, keysJson };
}

const ETAG_FORM = /^[wW]\/"[^"]*"$/;
const invalid = (message: string) => explained("InvalidInput", message);

/** The one conditional header that entities know; all others are refused. */
function ifMatchOf({ header }: TableRequest, action: Change["action"]): string | undefined {
  const ifMatch = header("if-match");
  const ifNoneMatch = header("if-none-match");
  if (header("if-modified-since") !== undefined || header("if-unmodified-since") !== undefined) {
    throw new StorageError("ConditionHeadersNotSupported");
  }
  if (ifMatch !== undefined && ifNoneMatch !== undefined) {
    throw invalid(
      "Both If-Match and If-None-Match HTTP headers cannot be specified at the same time. Please specify either one of the headers or none of them.",
    );
  }
  if (action === "insert") {
    if (ifMatch === undefined && ifNoneMatch === undefined) return undefined;
    throw invalid(
      "If-Match or If-None-Match headers cannot be specified if the target type does not have etag properties defined.",
    );
  }
  if (ifNoneMatch !== undefined) {
    const verb = action === "delete" ? "DELETE" : "PUT";
    throw invalid(`If-None-Match HTTP header cannot be specified for ${verb} operations.`);
  }
  if (ifMatch === undefined) {
    if (action !== "delete") return undefined;
    throw new StorageError("MissingRequiredHeader", { HeaderName: "If-Match" });
  }
  if (ifMatch !== "*" && !ETAG_FORM.test(ifMatch)) {
    throw invalid(
      `The etag value '${ifMatch}' specified in one of the request headers is not valid. Please make sure only one etag value is specified and is valid.`,
    );
  }
  return ifMatch;
}

/** Does a change and gives the entity after it, undefined if it is gone; throws if it may not be done. */
export async function applyChange(
  tx: WriteTx,
  table: bigint,
  change: Change,
): Promise<EntityRecord | undefined> {
  const { action, partitionKey, rowKey, keysJson, ifMatch } = change;
  const found = await entities.get(tx, table, partitionKey, rowKey);
  if (action === "insert" && found !== undefined) throw new StorageError("EntityAlreadyExists");
  if (ifMatch !== undefined) {
    if (found === undefined) throw new StorageError("ResourceNotFound");
    if (ifMatch !== "*" && ifMatch !== etagOf(found)) {
      throw new StorageError("UpdateConditionNotSatisfied");
    }
  }
  if (action === "delete") {
    entities.delete(tx, table, partitionKey, rowKey);
    return undefined;
  }
  let { properties } = change;
  if (action === "merge" && found !== undefined) {
    properties = merged(ownProperties(found), properties);
    refuse(badEntity(partitionKey, rowKey, properties));
  }
  const parts = { keysJson, tick: tx.tick(), propertiesJson: propertiesJson(properties) };
  const record = entityOf(parts);
  entities.put(tx, [table, partitionKey, rowKey], record);
  return record;
}

/** What is answered to a change that was done. */
export function changeReply(
  request: TableRequest,
  change: Change,
  record: EntityRecord | undefined,
): Reply {
  const headers: Record<string, HeaderValue> = {};
  if (record !== undefined) headers.ETag = etagOf(record);
  if (change.action !== "insert" || record === undefined) {
    return { status: 204, headers: { ...odataHeaders, ...headers } };
  }
  const {
    endpoint,
    names: [table = ""],
  } = request;
  const { preference } = change;
  const url = `${endpoint}${entityPath(table, change.partitionKey, change.rowKey)}`;
  headers.Location = url;
  headers["Preference-Applied"] = preference;
  if (preference === "return-no-content") {
    return { status: 204, headers: { ...odataHeaders, ...headers, DataServiceId: url } };
  }
  const { level } = change;
  return jsonReply(201, level, entityBytes(record, viewOf(request, level)), headers);
}
