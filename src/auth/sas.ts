import { createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import { BlockList, isIP } from "node:net";
import { parseBase64 } from "../base/bytes.ts";
import { type Instant, parseIsoDate } from "../base/time.ts";
import { invalidHeader, invalidQuery, StorageError } from "../rules/errors.ts";
import { isServiceVersion } from "../rules/versions.ts";
import { failed, type KeyRange, type Sas, type Service } from "./caller.ts";

/** What of a request a shared access signature is judged by. */
export type SasRequest = {
  readonly service: Service;
  readonly account: string;
  /** The container and blob, queue, table, or share and path that the URL names, decoded. */
  readonly names: readonly string[];
  readonly query: ReadonlyMap<string, string>;
  /** The address the request came from, if it is known. */
  readonly client: string | undefined;
  /** Whether it came over TLS. */
  readonly secure: boolean;
  header(name: string): string | undefined;
};

/** A signature as the URL has it: what it allows if it is genuine, and the text it must be made over. */
export type SignedUrl = {
  readonly sas: Sas;
  readonly text: string;
  readonly signature: string;
  readonly delegation: Delegation | undefined;
};

/** The user delegation key that a SAS was signed with: it is known by these, and made from them again. */
export type Delegation = {
  readonly user: string;
  readonly tenant: string;
  readonly start: string;
  readonly expiry: string;
  readonly service: string;
  readonly version: string;
  /** The tenant of the user that a SAS of this key may be bound to. */
  readonly boundTenant: string | undefined;
};

const LETTERS = "racwdxyltmeopiuf";
const SERVICE_LETTERS: Readonly<Record<Service, string>> = {
  blob: "b",
  queue: "q",
  table: "t",
  file: "f",
};
const OLDEST = "2009-09-19";

/** Reads the parameters of a signed URL; throws Azure's refusal where they cannot be right. */
export function readSas(request: SasRequest, now: Instant): SignedUrl {
  const { query } = request;
  const version = query.get("sv") ?? OLDEST;
  if (!isServiceVersion(version)) throw failed(`The signed version '${version}' is none.`);
  const kind =
    query.has("ss") || query.has("srt") ? "account" : query.has("skoid") ? "delegation" : "service";
  const permissions = query.get("sp") ?? "";
  checkPermissions(permissions);
  const policy = kind === "service" ? query.get("si") || undefined : undefined;
  const start = query.get("st") || undefined;
  const expiry = query.get("se") || undefined;
  if (policy === undefined && (expiry === undefined || permissions === "")) {
    throw failed(
      "The expiry time (se) and the permissions (sp) must both be there, or a policy (si).",
    );
  }
  checkTime(start, expiry, now);
  const protocol = query.get("spr") ?? "";
  if (!PROTOCOLS.includes(protocol)) throw failed(`The protocol (spr) '${protocol}' is none.`);
  const delegation = kind === "delegation" ? delegationOf(request, version, now) : undefined;
  const sas: Sas = {
    kind,
    scope: query.get("sr") ?? "",
    permissions,
    services: query.get("ss") ?? "",
    resourceTypes: query.get("srt") ?? "",
    policy,
    start,
    expiry,
    version,
    keys: request.service === "table" && kind === "service" ? keyRangeOf(query) : undefined,
    overrides: kind === "account" ? undefined : overridesOf(query),
    encryptionScope: version >= "2020-12-06" ? query.get("ses") || undefined : undefined,
    grants: undefined,
  };
  const text =
    delegation !== undefined
      ? delegationText(request, version)
      : kind === "account"
        ? accountText(request, version)
        : serviceText(request, version);
  return { sas, text, signature: query.get("sig") ?? "", delegation };
}

/** Whether one of the keys made the signature. */
export function isGenuine(
  { text, signature }: SignedUrl,
  keys: readonly (KeyObject | Buffer)[],
): boolean {
  const given = parseBase64(signature);
  if (given === undefined) return false;
  return keys.some((key) => {
    const wanted = createHmac("sha256", key).update(text, "utf8").digest();
    return given.length === wanted.length && timingSafeEqual(given, wanted);
  });
}

/** Where and how a genuine signature may be used: addresses, protocol, encryption scope. */
export function checkUse(request: SasRequest, { encryptionScope }: Sas): void {
  const { query, client, secure } = request;
  if (query.get("spr") === "https" && !secure)
    throw new StorageError("AuthorizationProtocolMismatch");
  const range = query.get("sip");
  if (range && !isWithin(client, range)) {
    throw new StorageError("AuthorizationSourceIPMismatch", { SourceIP: client ?? "unknown" });
  }
  const scope = request.header("x-ms-encryption-scope");
  if (encryptionScope !== undefined && scope !== undefined && scope !== encryptionScope) {
    throw invalidHeader("x-ms-encryption-scope", scope);
  }
}

const PROTOCOLS = ["", "https", "https,http", "http,https"];

function checkPermissions(letters: string): void {
  const seen = new Set(letters);
  if (seen.size !== letters.length) throw failed("A permission (sp) stands there twice.");
  for (const letter of seen) {
    if (!LETTERS.includes(letter)) throw failed(`The permission '${letter}' is none.`);
  }
}

/** Throws unless `now` is between start and expiry, as far as they are given. */
export function checkTime(
  start: string | undefined,
  expiry: string | undefined,
  now: Instant,
): void {
  const from = start === undefined ? Number.NEGATIVE_INFINITY : parseIsoDate(start);
  const to = expiry === undefined ? Number.POSITIVE_INFINITY : parseIsoDate(expiry);
  if (from === undefined) throw failed(`The start time '${start}' is not in a form of ISO 8601.`);
  if (to === undefined) throw failed(`The expiry time '${expiry}' is not in a form of ISO 8601.`);
  if (to <= from) {
    throw failed(`Signed expiry time [${expiry}] must be after signed start time [${start}].`);
  }
  if (now < from || now >= to) {
    const current = new Date(now).toISOString();
    throw failed(
      `Signature not valid in the specified time frame: Start [${start ?? "none"}] - Expiry [${expiry ?? "none"}] - Current [${current}].`,
    );
  }
}

function isWithin(client: string | undefined, range: string): boolean {
  const [first = "", last = first, ...more] = range.split("-");
  const kind = isIP(first);
  if (kind === 0 || isIP(last) !== kind || more.length > 0) {
    throw failed(`The addresses (sip) '${range}' are none.`);
  }
  const address = client?.replace(/^::ffff:(?=\d+\.)/i, "") ?? "";
  if (isIP(address) !== kind) return false;
  const family = kind === 4 ? "ipv4" : "ipv6";
  const list = new BlockList();
  try {
    list.addRange(first, last, family);
  } catch {
    throw failed(`The addresses (sip) '${range}' end before they begin.`);
  }
  return list.check(address, family);
}

const bound = (text: string | undefined) => (text === undefined || text === "" ? undefined : text);

function keyRangeOf(query: ReadonlyMap<string, string>): KeyRange | undefined {
  const range = {
    startPartition: bound(query.get("spk")),
    startRow: bound(query.get("srk")),
    endPartition: bound(query.get("epk")),
    endRow: bound(query.get("erk")),
  };
  // A row key means something only below its partition key.
  if (range.startRow !== undefined && range.startPartition === undefined) {
    throw failed("A first row key (srk) needs a first partition key (spk).");
  }
  if (range.endRow !== undefined && range.endPartition === undefined) {
    throw failed("A last row key (erk) needs a last partition key (epk).");
  }
  const open = range.startPartition === undefined && range.endPartition === undefined;
  return open ? undefined : range;
}

const OVERRIDES: readonly (readonly [parameter: string, header: string])[] = [
  ["rscc", "Cache-Control"],
  ["rscd", "Content-Disposition"],
  ["rsce", "Content-Encoding"],
  ["rscl", "Content-Language"],
  ["rsct", "Content-Type"],
];
const HEADER_TEXT = /^[\t\x20-\x7e]*$/;

function overridesOf(query: ReadonlyMap<string, string>): Sas["overrides"] {
  let headers: Record<string, string> | undefined;
  for (const [parameter, header] of OVERRIDES) {
    const value = query.get(parameter);
    if (value === undefined || value === "") continue;
    if (!HEADER_TEXT.test(value)) throw invalidQuery(parameter, value);
    headers ??= {};
    headers[header] = value;
  }
  return headers;
}

/** The first versions of Azure that have user delegation SAS, by service. */
const DELEGATION_FROM: Readonly<Record<Service, string | undefined>> = {
  blob: "2018-11-09",
  queue: "2025-07-05",
  file: "2025-07-05",
  table: undefined,
};

function delegationOf({ service, query }: SasRequest, version: string, now: Instant): Delegation {
  const from = DELEGATION_FROM[service];
  if (from === undefined || version < from) {
    throw failed(`The version ${version} of the ${service} service has no user delegation SAS.`);
  }
  const value = (name: string) => {
    const text = query.get(name);
    if (!text) throw failed(`A user delegation SAS needs ${name}.`);
    return text;
  };
  const delegation = {
    user: value("skoid"),
    tenant: value("sktid"),
    start: value("skt"),
    expiry: value("ske"),
    service: value("sks"),
    version: value("skv"),
    boundTenant: query.get("skdutid") || undefined,
  };
  if (delegation.service !== SERVICE_LETTERS[service]) {
    throw failed(`The user delegation key is not one of the ${service} service.`);
  }
  checkTime(delegation.start, delegation.expiry, now);
  return delegation;
}

/** What an account SAS is signed over ("Create an account SAS"). */
function accountText({ account, query }: SasRequest, version: string): string {
  if (version < "2015-04-05") throw failed("An account SAS needs version 2015-04-05 or newer.");
  const names = ["sp", "ss", "srt", "st", "se", "sip", "spr", "sv"];
  if (version >= "2020-12-06") names.push("ses");
  return `${[account, ...names.map((name) => query.get(name) ?? "")].join("\n")}\n`;
}

/** What a service SAS is signed over, by version ("Create a service SAS"). */
function serviceText(request: SasRequest, version: string): string {
  const { service, query } = request;
  const value = (name: string) => query.get(name) ?? "";
  const lines = [value("sp"), value("st"), value("se"), resourceOf(request, version), value("si")];
  if (version >= "2015-04-05") lines.push(value("sip"), value("spr"));
  if (version >= "2012-02-12") lines.push(version);
  if (service === "blob" && version >= "2018-11-09") lines.push(value("sr"), momentOf(query));
  if (service === "blob" && version >= "2020-12-06") lines.push(value("ses"));
  if ((service === "blob" || service === "file") && version >= "2013-08-15") {
    for (const [parameter] of OVERRIDES) lines.push(value(parameter));
  }
  if (service === "table" && version >= "2012-02-12") {
    lines.push(value("spk"), value("srk"), value("epk"), value("erk"));
  }
  return lines.join("\n");
}

/** What a user delegation SAS is signed over, by version ("Create a user delegation SAS", and the SDKs). */
function delegationText(request: SasRequest, version: string): string {
  const { service, query } = request;
  const value = (name: string) => query.get(name) ?? "";
  const lines = [value("sp"), value("st"), value("se"), resourceOf(request, version)];
  lines.push(...["skoid", "sktid", "skt", "ske", "sks", "skv"].map(value));
  if (service === "blob" && version >= "2020-02-10") {
    lines.push(value("saoid"), value("suoid"), value("scid"));
  }
  if (version >= "2025-07-05") lines.push(value("skdutid"), value("sduoid"));
  lines.push(value("sip"), value("spr"), version);
  if (service === "blob") lines.push(value("sr"), momentOf(query));
  if (service === "blob" && version >= "2020-12-06") lines.push(value("ses"));
  if (service === "blob" && version >= "2026-04-06") {
    lines.push(boundHeaders(request), boundParameters(query));
  }
  if (service !== "queue") for (const [parameter] of OVERRIDES) lines.push(value(parameter));
  return lines.join("\n");
}

const BOUND_MAX = 64;

function listed(text: string | undefined): string[] {
  const names = text === undefined || text === "" ? [] : text.split(",");
  if (names.length > BOUND_MAX) throw failed(`More than ${BOUND_MAX} names are bound.`);
  return names;
}

/** The request headers that the signature binds (srh), as the request has them. */
function boundHeaders({ query, header }: SasRequest): string {
  let text = "";
  for (const name of listed(query.get("srh"))) {
    text += `${name}:${header(name.toLowerCase()) ?? ""}\n`;
  }
  return text;
}

/** The same of query parameters (srq). */
function boundParameters(query: ReadonlyMap<string, string>): string {
  let text = "";
  for (const name of listed(query.get("srq"))) {
    text += `\n${name}:${query.get(name.toLowerCase()) ?? ""}`;
  }
  return text;
}

/** The snapshot or version that is meant where the SAS is for one. */
function momentOf(query: ReadonlyMap<string, string>): string {
  const kind = query.get("sr");
  if (kind === "bs") return query.get("snapshot") ?? "";
  return kind === "bv" ? (query.get("versionid") ?? "") : "";
}

/** The resource that the signature must be for if it is to reach what the request names. */
function resourceOf(request: SasRequest, version: string): string {
  const { service, account, names } = request;
  const [first = "", ...rest] = names;
  if (first === "") throw failed("A service SAS reaches nothing above its resource.");
  const root = version >= "2015-02-21" ? `/${service}/${account}` : `/${account}`;
  if (service === "queue") return `${root}/${first}`;
  if (service === "table") return `${root}/${tableOf(request, first)}`;
  const kind = request.query.get("sr") ?? "";
  if (kind === (service === "blob" ? "c" : "s")) return `${root}/${first}`;
  if (service === "blob" && kind === "d")
    return `${root}/${first}/${directoryOf(request, version)}`;
  const single = service === "file" ? kind === "f" : isBlobKind(kind, version);
  if (!single)
    throw failed(`The signed resource (sr) '${kind}' is none of the ${service} service.`);
  if (rest.length === 0) throw failed("The signature is for one thing, not for what contains it.");
  return [root, first, ...rest].join("/");
}

/** In older versions the kind was not signed, so one that they do not have must not be taken. */
const isBlobKind = (kind: string, version: string): boolean =>
  kind === "b" ||
  (kind === "bs" && version >= "2018-11-09") ||
  (kind === "bv" && version >= "2019-10-10");

function tableOf({ query }: SasRequest, name: string): string {
  const table = name.toLowerCase();
  const given = query.get("tn");
  if (given !== undefined && given.toLowerCase() !== table) {
    throw failed("The table name (tn) is not that of the URL.");
  }
  return table;
}

// Differs from Azure: a directory SAS works also in an account without a hierarchical namespace.
/**
 * The directory that a directory SAS must be for: as many parts of the path as it is deep. A list names its
 * directory by the prefix, which must then lie in it.
 */
function directoryOf({ names, query }: SasRequest, version: string): string {
  if (version < "2020-02-10") throw new StorageError("DirectorySasNotSupportedVersion");
  const text = query.get("sdd");
  if (text === undefined || text === "") throw new StorageError("QueryParameterSasMandatory");
  const depth = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  const path = names[1] ?? query.get("prefix") ?? "";
  const parts = path.split("/");
  const isInside = parts.length > depth || (names[1] !== undefined && parts.length === depth);
  if (depth === 0 || !isInside) throw new StorageError("QueryParameterSddInvalid");
  return parts.slice(0, depth).join("/");
}
