import { afterPrefix } from "../base/bytes.ts";
import { unquoted } from "../base/flat-json.ts";
import type { ReadTx } from "../engine/engine.ts";
import {
  createOperation,
  type HeaderValue,
  readOperation,
  theService,
  writeOperation,
} from "../http/operation.ts";
import { membersOf } from "../rules/entity.ts";
import { refuse, StorageError } from "../rules/errors.ts";
import { type Filter, matches } from "../rules/filter.ts";
import { badTableName } from "../rules/table-names.ts";
import { POLICIES_XML_MAX, policiesOf, policiesXml } from "../service/policies.ts";
import { garbage, tableIds, tables } from "../store/keys.ts";
import { tokenOf, tokenText } from "./continuation.ts";
import {
  jsonReply,
  jsonText,
  type MetadataLevel,
  metadataLevel,
  odataHeaders,
  preferenceOf,
  refuseOptions,
  refuseVersions,
  type TableRequest,
} from "./format.ts";
import { filterOf, selectOf, topOf } from "./query.ts";
import { tableGuard } from "./resource.ts";

const BODY_SIZE_MAX = 64 * 1024;
const SCAN_MAX = 5_000;

export const createTable = createOperation({
  name: "Create Table",
  match: { method: "POST", on: "tables" },
  allow: { sas: "cw", resource: "c" },
  body: { kind: "whole", sizeMax: BODY_SIZE_MAX },
  guard: { on: theService, conditions: "none", lease: "own" },
  input(request, { bytes }) {
    refuseVersions(request);
    refuseOptions(request, "write");
    const name = nameOf(jsonText(request, bytes));
    return { name, level: metadataLevel(request), preference: preferenceOf(request) };
  },
  async apply({ tx, request, input: { name, level, preference } }) {
    const { account, endpoint } = request;
    const key = name.toLowerCase();
    if ((await tableIds.get(tx, account, key)) !== undefined) {
      throw new StorageError("TableAlreadyExists");
    }
    const id = tx.tick();
    tableIds.put(tx, [account, key], id);
    tables.put(tx, [account, key], { id: id.toString(16), name, policies: [] });
    const url = `${endpoint}Tables('${name}')`;
    const headers: Record<string, HeaderValue> = {
      Location: url,
      "Preference-Applied": preference,
    };
    if (preference === "return-no-content") {
      return { status: 204, headers: { ...odataHeaders, ...headers, DataServiceId: url } };
    }
    return jsonReply(201, level, [Buffer.from(tableJson(request, level, name, "single"))], headers);
  },
});

/** The one property that a table has. */
function nameOf(text: string): string {
  let name: string | undefined;
  for (const { name: property, json } of membersOf(text)) {
    if (property.includes("odata.")) continue;
    const isName = property === "TableName" && json.startsWith('"') && name === undefined;
    if (!isName) throw new StorageError("InvalidInput");
    name = unquoted(json);
  }
  if (name === undefined) throw new StorageError("PropertiesNeedValue");
  refuse(badTableName(name));
  return name;
}

/** A table as an entry of a list, or as a reply of its own. */
function tableJson(
  { account, endpoint }: TableRequest,
  level: MetadataLevel,
  name: string,
  use: "entry" | "single",
): string {
  const path = `Tables('${name}')`;
  const context =
    use === "single" && level !== "nometadata"
      ? `"odata.metadata":${JSON.stringify(`${endpoint}$metadata#Tables/@Element`)},`
      : "";
  const links =
    level === "fullmetadata"
      ? `"odata.type":"${account}.Tables","odata.id":${JSON.stringify(endpoint + path)},"odata.editLink":"${path}",`
      : "";
  return `{${context}${links}"TableName":"${name}"}`;
}

/** "Create an account SAS" of 2018 wants the service for a list of tables, that of 2022 the container. */
const allowedList = { sas: "l", resource: "c", orResource: "s" } as const;

export const queryTables = readOperation({
  name: "Query Tables",
  match: { method: "GET", on: "tables" },
  allow: allowedList,
  guard: { on: theService, conditions: "none", lease: "own" },
  input(request) {
    refuseVersions(request);
    refuseOptions(request, "query");
    refuseSelect(request);
    return {
      filter: filterOf(request),
      top: topOf(request),
      from: tokenOf(request.query, "NextTableName"),
      level: metadataLevel(request),
    };
  },
  async apply({ tx, request, input: { filter, top, from, level } }) {
    const { names, next } = await listed(tx, request.account, filter, top, from);
    const entries = names.map((name) => tableJson(request, level, name, "entry"));
    const context =
      level === "nometadata"
        ? ""
        : `"odata.metadata":${JSON.stringify(`${request.endpoint}$metadata#Tables`)},`;
    const body = Buffer.from(`{${context}"value":[${entries.join(",")}]}`);
    const headers = {
      "x-ms-continuation-NextTableName": next === undefined ? undefined : tokenText(next),
    };
    return jsonReply(200, level, [body], headers);
  },
});

function refuseSelect(request: TableRequest): void {
  for (const name of selectOf(request) ?? []) {
    if (name !== "TableName") throw new StorageError("InvalidInput");
  }
}

/** A page of names; one that is asked for by `eq` is looked up, and not searched for. */
async function listed(
  tx: ReadTx,
  account: string,
  filter: Filter | undefined,
  top: number,
  from: string | undefined,
): Promise<{ readonly names: readonly string[]; readonly next: string | undefined }> {
  const names: string[] = [];
  if (top === 0) return { names, next: undefined };
  const only = onlyName(filter);
  const all = tables.packed([account]);
  const first = only === undefined ? all : tables.packed([account, only]);
  const start = from === undefined ? first : tables.packed([account, from]);
  const rows = await tables.walk(tx, [account], {
    from: Buffer.compare(start, first) < 0 ? first : start,
    to: afterPrefix(first),
    limit: filter === undefined ? top + 1 : SCAN_MAX + 1,
  });
  for (const [
    index,
    {
      key: [, key],
      value: { name },
    },
  ] of rows.entries()) {
    if (names.length === top || index === SCAN_MAX) return { names, next: key };
    const value = { type: "String", value: name } as const;
    const isWanted =
      filter === undefined ||
      matches(filter, (property) => (property === "TableName" ? value : undefined));
    if (isWanted) names.push(name);
  }
  return { names, next: undefined };
}

function onlyName(filter: Filter | undefined): string | undefined {
  if (filter?.kind !== "compare" || filter.operator !== "eq") return undefined;
  const { property, literal } = filter;
  const isName = property === "TableName" && literal.type === "String";
  const name = isName ? String(literal.value).toLowerCase() : undefined;
  return name === undefined || badTableName(name) !== undefined ? undefined : name;
}

export const getTable = readOperation({
  name: "Query Tables (one by its name)",
  match: { method: "GET", on: "table" },
  allow: allowedList,
  guard: tableGuard,
  input(request) {
    refuseVersions(request);
    refuseOptions(request, "query");
    return { level: metadataLevel(request) };
  },
  async apply({ request, found: { name }, input: { level } }) {
    return jsonReply(200, level, [Buffer.from(tableJson(request, level, name, "single"))]);
  },
});

/**
 * The entities are removed in the background; a new table of the same name has another number and begins
 * empty.
 */
export const deleteTable = writeOperation({
  name: "Delete Table",
  match: { method: "DELETE", on: "table" },
  allow: { sas: "d", resource: "c" },
  guard: tableGuard,
  async apply({ tx, place, found }) {
    // Differs from Azure: the name of a deleted table can be used again at once, not after 40 seconds.
    tables.delete(tx, place.account, place.name);
    tableIds.delete(tx, place.account, place.name);
    garbage.put(tx, [tx.tick()], { table: found.id });
    return { status: 204, headers: { ...odataHeaders } };
  },
});

const aclGuard = { ...tableGuard, on: { ...tableGuard.on, missing: "TableNotFound" as const } };

export const getTableAcl = readOperation({
  name: "Get Table ACL",
  match: { method: "GET", headToo: true, on: "entities", comp: "acl" },
  allow: { sas: "", resource: "c" },
  guard: aclGuard,
  async apply({ found }) {
    const headers = { "Content-Type": "application/xml" };
    return { status: 200, headers, body: policiesXml(found.policies) };
  },
});

export const setTableAcl = writeOperation({
  name: "Set Table ACL",
  match: { method: "PUT", on: "entities", comp: "acl" },
  allow: { sas: "", resource: "c" },
  body: { kind: "xml", sizeMax: POLICIES_XML_MAX, optional: true },
  guard: aclGuard,
  input: (_request, { xml }) => (xml === undefined ? [] : policiesOf(xml, "raud")),
  async apply({ tx, place, found: { id, name }, input: policies }) {
    tables.put(tx, [place.account, place.name], { id, name, policies });
    return { status: 204, headers: {} };
  },
});
