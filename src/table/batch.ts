import { isUtf8 } from "node:buffer";
import { refusalOf } from "../auth/caller.ts";
import { judge, mayDo, needsAccess } from "../auth/may-do.ts";
import type { WriteTx } from "../engine/engine.ts";
import {
  type Operation,
  Refused,
  type Reply,
  type Request,
  theService,
  writeOperation,
} from "../http/operation.ts";
import { decoded, parseQuery } from "../http/parse.ts";
import { errorText } from "../http/reply.ts";
import {
  errors,
  explained,
  invalidHeader,
  missingHeader,
  refuse,
  StorageError,
} from "../rules/errors.ts";
import { badTableName } from "../rules/table-names.ts";
import { tableIds } from "../store/keys.ts";
import { allowed, allowOf, applyChange, type Change, changeOf, changeReply } from "./change.ts";
import { errorJson, odataHeaders, type TableRequest } from "./format.ts";
import { boundaryOf, type MimePart, MultipartError, partOf, partsOf } from "./multipart.ts";
import { tablePlace, tableVerb } from "./place.ts";
import {
  answerPoint,
  answerQuery,
  type EntityQuery,
  type PointQuery,
  pointOf,
  queryOf,
} from "./query.ts";

const BODY_SIZE_MAX = 4 * 1024 * 1024;
const CHANGES_MAX = 100;
/** More parts than can be served, so that one too many is answered as such and not as a broken body. */
const PARTS_MAX = 101;

/** One request of a batch; `fault` is why it cannot be done, if that was seen before anything was read. */
type Part = {
  readonly request: TableRequest;
  readonly change: Change | undefined;
  readonly fault: StorageError | undefined;
};

/** A change set, or a query alone ("Performing Entity Group Transactions"). */
type Batch =
  | { readonly kind: "changes"; readonly parts: readonly Part[] }
  | {
      readonly kind: "query";
      readonly request: TableRequest;
      readonly query: PointQuery | EntityQuery;
    };

export const entityGroupTransaction: Operation = writeOperation({
  name: "Entity Group Transaction",
  match: { method: "POST", on: "batch" },
  allow: { sas: "raud", resource: "o" },
  body: { kind: "whole", sizeMax: BODY_SIZE_MAX },
  guard: { on: theService, conditions: "none", lease: "own" },
  input: (request, { bytes }): Batch => readBatch(request, bytes),
  async apply({ tx, request, input: batch, around }) {
    await permitParts(tx, request, batch);
    const ids = { batch: around.ids.guid(), changes: around.ids.guid() };
    if (batch.kind === "query") return batchReply(ids.batch, await queryPart(tx, request, batch));
    const replies: string[] = [];
    let table: bigint | undefined;
    for (const [index, part] of batch.parts.entries()) {
      try {
        const change = changeIn(batch.parts, index);
        table ??= await tableOf(tx, part.request);
        const record = await applyChange(tx, table, change);
        replies.push(partText(changeReply(part.request, change, record), contentId(part.request)));
      } catch (error) {
        if (!(error instanceof StorageError)) throw error;
        // One that fails undoes all, and is the only one to be answered, by its index.
        const text = errorPart(error, `${index}:`, request, tx.now, contentId(part.request));
        throw new Refused(changesReply(ids, [text]));
      }
    }
    return changesReply(ids, replies);
  },
});

/** Throws unless the caller may do each part: what a signature does not allow refuses the whole batch. */
async function permitParts(tx: WriteTx, outer: Request, batch: Batch): Promise<void> {
  const { caller } = outer;
  if (caller.kind === "owner") return;
  const parts =
    batch.kind === "query"
      ? [{ request: batch.request, allow: allowed.query }]
      : batch.parts.map(({ request, change }) => ({
          request,
          allow: change === undefined ? undefined : allowOf(change),
        }));
  const isForOne = caller.kind === "sas" && caller.sas.kind !== "account";
  for (const { request, allow } of parts) {
    if (allow === undefined) continue;
    const { account, header, names } = request;
    const isElsewhere = names[0]?.toLowerCase() !== outer.names[0]?.toLowerCase();
    if (isForOne && isElsewhere) throw new StorageError("AuthorizationFailure");
    const asked = { service: outer.service, account, header, names, query: outer.query };
    const code = mayDo(caller, allow, asked);
    if (code !== undefined) throw refusalOf(caller, code);
    if (needsAccess(caller)) await judge(tx, caller, allow, asked);
  }
}

/** The change of a part, if it can stand with those before it: one partition of one table, no entity twice. */
function changeIn(all: readonly Part[], index: number): Change {
  const first = all[0] as Part;
  const { request, change, fault } = all[index] as Part;
  if (fault !== undefined) throw fault;
  if (change === undefined) throw new StorageError("InvalidInput");
  const tableName = (each: TableRequest) => each.names[0]?.toLowerCase();
  if (tableName(request) !== tableName(first.request)) throw new StorageError("InvalidInput");
  if (change.partitionKey !== first.change?.partitionKey) {
    throw new StorageError("CommandsInBatchActOnDifferentPartitions");
  }
  for (let before = 0; before < index; before++) {
    if (all[before]?.change?.rowKey !== change.rowKey) continue;
    const message = `A command with RowKey '${change.rowKey}' is already present in the batch. An entity can appear only once in a batch.`;
    throw explained("InvalidDuplicateRow", message);
  }
  if (index < CHANGES_MAX) return change;
  const message = "The batch request operation exceeds the maximum 100 changes per change set.";
  throw explained("InvalidInput", message);
}

async function tableOf(tx: WriteTx, { account, names: [name = ""] }: TableRequest) {
  const id = await tableIds.get(tx, account, name.toLowerCase());
  if (id === undefined) throw new StorageError("TableNotFound");
  return id;
}

async function queryPart(
  tx: WriteTx,
  outer: Request,
  { request, query }: Extract<Batch, { kind: "query" }>,
): Promise<string> {
  try {
    const table = await tableOf(tx, request);
    const isPoint = "partitionKey" in query;
    const reply = await (isPoint ? answerPoint(tx, table, query) : answerQuery(tx, table, query));
    return partText(reply, contentId(request));
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return errorPart(error, "", outer, tx.now, contentId(request));
  }
}

/** Reads the body; what is wrong with one part is kept with it, what is wrong with the whole is thrown. */
function readBatch(outer: Request, bytes: Buffer): Batch {
  const type = outer.header("content-type");
  if (type === undefined) throw missingHeader("Content-Type");
  const boundary = boundaryOf(type);
  if (boundary === undefined) throw invalidHeader("Content-Type", type);
  if (!isUtf8(bytes)) throw new StorageError("InvalidInput");
  try {
    const parts = partsOf(bytes.toString("utf8"), boundary, PARTS_MAX).map(partOf);
    const [only] = parts;
    if (only === undefined || parts.length !== 1) {
      throw new MultipartError("a batch holds one change set, or one query");
    }
    const inner = boundaryOf(only.headers.get("content-type"));
    if (inner === undefined) return readQuery(outer, only);
    const changes = partsOf(only.body, inner, PARTS_MAX).map(partOf);
    if (changes.length === 0) throw new MultipartError("the change set is empty");
    return { kind: "changes", parts: changes.map((part) => readChange(outer, part)) };
  } catch (error) {
    if (!(error instanceof MultipartError)) throw error;
    const message = `One of the request inputs is not valid: ${error.message}.`;
    throw explained("InvalidInput", message);
  }
}

const CONDITIONS = ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since"];

function readQuery(outer: Request, part: MimePart): Batch {
  const { request } = innerRequest(outer, part);
  if (request.method !== "GET") {
    throw new MultipartError("a change stands outside a change set");
  }
  if (CONDITIONS.some((name) => request.header(name) !== undefined)) {
    throw new StorageError("ConditionHeadersNotSupported");
  }
  refuse(badTableName(request.names[0] ?? ""));
  if (request.level === "entity") return { kind: "query", request, query: pointOf(request) };
  if (request.level === "entities") return { kind: "query", request, query: queryOf(request) };
  throw new MultipartError("a batch queries nothing but entities");
}

function readChange(outer: Request, part: MimePart): Part {
  let request: TableRequest = { ...outer, header: () => undefined };
  try {
    const inner = innerRequest(outer, part);
    request = inner.request;
    if (request.level !== "entity" && request.level !== "entities") {
      throw new StorageError("InvalidInput");
    }
    if (request.method === "GET") throw new StorageError("InvalidInput");
    refuse(badTableName(request.names[0] ?? ""));
    const change = changeOf(request, Buffer.from(inner.body, "utf8"));
    return { request, change, fault: undefined };
  } catch (fault) {
    if (!(fault instanceof StorageError)) throw fault;
    // What the caller may not do refuses the whole batch, as `permitParts` does.
    if (fault.code === "AuthorizationFailure") throw fault;
    return { request, change: undefined, fault };
  }
}

const REQUEST_LINE = /^([A-Z]{1,20}) (\S{1,32768}) HTTP\/1\.[01]$/;

/** The request that a part holds; it is about the account of the batch, whoever signed that. */
function innerRequest(
  outer: Request,
  part: MimePart,
): { readonly request: TableRequest; readonly body: string } {
  if (
    part.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() !== "application/http"
  ) {
    throw new MultipartError("a part is no request: its Content-Type is not application/http");
  }
  const text = part.body.trimStart();
  const lineEnd = text.indexOf("\n");
  const line = (lineEnd === -1 ? text : text.slice(0, lineEnd)).trimEnd();
  const [, verb = "", target] = REQUEST_LINE.exec(line) ?? [];
  if (target === undefined) throw new MultipartError("a part does not begin with a request line");
  const { headers, body } = partOf(lineEnd === -1 ? "" : text.slice(lineEnd + 1));
  const header = (name: string) =>
    headers.get(name) ?? (name === "content-id" ? part.headers.get(name) : undefined);
  const { account, caller, endpoint } = outer;
  const [path, query] = pathAndQuery(target, endpoint);
  const place = tablePlace(path.split("/").map(decoded));
  const method = tableVerb(verb, header);
  return { request: { account, caller, endpoint, header, method, query, ...place }, body };
}

const ORIGIN = /^https?:\/\/[^/]+/i;

/** What of a URL stands behind the account, and its parameters; hosts may differ, as they do behind a proxy. */
function pathAndQuery(
  target: string,
  endpoint: string,
): readonly [path: string, query: ReadonlyMap<string, string>] {
  const [whole = "", ...rest] = target.replace(ORIGIN, "").split("?");
  const base = endpoint.replace(ORIGIN, "");
  const query = new Map(parseQuery(rest.join("?")).reverse());
  if (whole.startsWith(base)) return [whole.slice(base.length), query];
  if (!whole.startsWith("/")) return [whole, query];
  throw new StorageError("InvalidInput");
}

const contentId = ({ header }: TableRequest): string | undefined => header("content-id");

const REASONS: Readonly<Record<number, string>> = {
  200: "OK",
  201: "Created",
  204: "No Content",
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  412: "Precondition Failed",
  413: "Request Entity Too Large",
  415: "Unsupported Media Type",
  501: "Not Implemented",
};

/** A reply as it stands in a part. */
function partText({ status, headers, body }: Reply, id: string | undefined): string {
  let text = `Content-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\nHTTP/1.1 ${status} ${REASONS[status] ?? "Error"}\r\n`;
  if (id !== undefined) text += `Content-ID: ${id}\r\n`;
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined && name !== "Content-Length") text += `${name}: ${value}\r\n`;
  }
  const bytes =
    typeof body === "string" || body === undefined ? body : Buffer.concat(body.bytes ?? []);
  return `${text}\r\n${bytes === undefined ? "" : bytes.toString("utf8")}\r\n`;
}

function errorPart(
  { code, message }: StorageError,
  prefix: string,
  { id }: Request,
  now: number,
  partId: string | undefined,
): string {
  const [status, , wire = code] = errors[code] as readonly [number, string, string?];
  const text = errorText(`${prefix}${message}`, id, new Date(now));
  const { type, body } = errorJson({ code: wire, text, details: {} });
  return partText({ status, headers: { ...odataHeaders, "Content-Type": type }, body }, partId);
}

function changesReply(
  ids: { readonly batch: string; readonly changes: string },
  parts: readonly string[],
): Reply {
  const mark = `changesetresponse_${ids.changes}`;
  const all = parts.map((part) => `--${mark}\r\n${part}`).join("");
  return batchReply(
    ids.batch,
    `Content-Type: multipart/mixed; boundary=${mark}\r\n\r\n${all}--${mark}--\r\n`,
  );
}

function batchReply(id: string, part: string): Reply {
  const mark = `batchresponse_${id}`;
  return {
    status: 202,
    headers: { ...odataHeaders, "Content-Type": `multipart/mixed; boundary=${mark}` },
    body: `--${mark}\r\n${part}--${mark}--\r\n`,
  };
}
