import type { Instant } from "../base/time.ts";
import type { ReadTx } from "../engine/engine.ts";
import { type ErrorCode, StorageError } from "../rules/errors.ts";
import { type Access, accessOf } from "../store/access.ts";
import {
  type Caller,
  failed,
  type Grant,
  type KeyRange,
  refusalOf,
  type Sas,
  type Service,
} from "./caller.ts";
import { checkTime } from "./sas.ts";

/** Who may do an operation, as its row says. */
export type Allow = {
  /** The letters of an account SAS any of which allows it; none if no SAS does. */
  readonly sas: string;
  /** The account SAS resource type. */
  readonly resource: "s" | "c" | "o";
  /** A second one that will do, where the documents name two. */
  readonly orResource?: "s";
  /** Whether all letters are needed, not one of them. */
  readonly every?: boolean;
  /** The letters by what the request asks for, where that decides. */
  readonly letters?: (asked: Asked) => string;
  /** The letters of a SAS for one resource; if not given, the same on objects and none above them. */
  readonly service?: string;
  /** The letter that is needed to write over what is there. */
  readonly overwrite?: string;
  /** The letters that a user's role must give one of, where they are not those of a SAS. */
  readonly user?: string;
  /** How far a container must be open for everybody to do it. */
  readonly public?: "blob" | "container";
};

/** What is asked for. */
export type Asked = {
  readonly service: Service;
  readonly account: string;
  readonly names: readonly string[];
  readonly query: ReadonlyMap<string, string>;
  header(name: string): string | undefined;
};

const SERVICE_LETTERS: Readonly<Record<Service, string>> = {
  blob: "b",
  queue: "q",
  table: "t",
  file: "f",
};

/**
 * Why the caller may not do it, as far as can be told without looking anything up: nothing if they may, or
 * if a stored policy or a container's public access has yet to tell (`needsAccess`).
 */
export function mayDo(caller: Caller, allow: Allow, asked: Asked): ErrorCode | undefined {
  if (caller.kind === "owner") return undefined;
  if (caller.kind === "anonymous") {
    const isClosed = allow.public === undefined || caller.refusal === "PublicAccessNotPermitted";
    // What has letters of its own, as tags have, is never open to everybody.
    return isClosed || furtherLetters(asked) !== "" ? caller.refusal : undefined;
  }
  if (caller.kind === "user") return missingRole(caller.user.grants, allow, asked);
  const { sas } = caller;
  const code =
    sas.kind === "account" ? outsideAccountSas(sas, allow, asked) : outsideScope(sas, allow);
  if (code !== undefined) return code;
  if (sas.policy === undefined) return missingLetter(sas, allow, asked);
  return undefined;
}

/** Whether `judge` must look at the container before it is known what the caller may. */
export const needsAccess = (caller: Caller): boolean =>
  caller.kind === "anonymous" ||
  (caller.kind === "sas" &&
    (caller.sas.policy !== undefined || caller.sas.encryptionScope !== undefined));

/**
 * Judges what `mayDo` left open, in the transaction of the operation itself: a policy that is taken back
 * counts at once. Gives the caller with what the policy allows; throws if they may not.
 */
export async function judge(
  tx: ReadTx,
  caller: Caller,
  allow: Allow,
  asked: Asked,
): Promise<Caller> {
  const access = await accessOf(tx, asked);
  if (caller.kind === "anonymous") {
    const level = access?.publicAccess;
    const isOpen = level === "container" || (level === "blob" && allow.public === "blob");
    if (!isOpen) throw refusalOf(caller, caller.refusal);
    return caller;
  }
  if (caller.kind !== "sas") return caller;
  const sas = caller.sas.policy === undefined ? caller.sas : withPolicy(caller.sas, access, tx.now);
  const code = missingLetter(sas, allow, asked);
  if (code !== undefined) throw new StorageError(code);
  const isForbidden =
    access?.denyScopeOverride === true && access.encryptionScope !== sas.encryptionScope;
  if (sas.encryptionScope !== undefined && isForbidden) {
    throw new StorageError("RequestForbiddenByContainerEncryptionPolicy");
  }
  return { ...caller, sas };
}

/** Why the caller may not write over what is there, though they may make it where nothing is. */
export function mayOverwrite(
  caller: Caller,
  letter: string,
  { service }: Asked,
): ErrorCode | undefined {
  if (caller.kind !== "sas" || caller.sas.permissions.includes(letter)) return undefined;
  return service === "blob" ? "UnauthorizedBlobOverwrite" : "AuthorizationPermissionMismatch";
}

/**
 * The signature with what its stored policy adds. Each of start, expiry and permissions comes from one of
 * the two and never from both, and expiry and permissions must come from somewhere ("Define a stored access
 * policy").
 */
export function withPolicy(sas: Sas, access: Access | undefined, now: Instant): Sas {
  const policy = access?.policies.find(({ id }) => id === sas.policy);
  if (policy === undefined) throw failed(`There is no stored access policy '${sas.policy}'.`);
  const one = (name: string, ours: string | undefined, theirs: string | undefined) => {
    if (ours !== undefined && theirs !== undefined) {
      throw failed(`The ${name} stands both in the signature and in its stored access policy.`);
    }
    return ours ?? theirs;
  };
  const start = one("start", sas.start, policy.start);
  const expiry = one("expiry", sas.expiry, policy.expiry);
  const permissions = one("permission", sas.permissions || undefined, policy.permission);
  if (expiry === undefined || permissions === undefined) {
    throw failed(
      "Neither the signature nor its stored access policy tells expiry and permissions.",
    );
  }
  checkTime(start, expiry, now);
  if (sas.version < "2015-04-05" && /[^rwdlaup]/.test(permissions)) {
    throw new StorageError("FeatureVersionMismatch");
  }
  return { ...sas, start, expiry, permissions };
}

function outsideAccountSas(sas: Sas, allow: Allow, { service }: Asked): ErrorCode | undefined {
  if (!sas.services.includes(SERVICE_LETTERS[service])) return "AuthorizationServiceMismatch";
  if (allow.sas === "") return "AuthorizationFailure";
  const types = [allow.resource, allow.orResource ?? allow.resource];
  return types.some((type) => sas.resourceTypes.includes(type))
    ? undefined
    : "AuthorizationResourceTypeMismatch";
}

/** Whether a SAS for one resource is of any use for the operation. */
function outsideScope(sas: Sas, allow: Allow): ErrorCode | undefined {
  if (serviceLetters(allow) === "") return "AuthorizationFailure";
  // Of what is done to a container as a whole, a directory's signature allows its list alone.
  const isDirectory = sas.scope === "d" && allow.resource !== "o";
  return isDirectory && serviceLetters(allow) !== "l" ? "AuthorizationFailure" : undefined;
}

const serviceLetters = ({ sas, resource, service }: Allow): string =>
  service ?? (resource === "o" ? sas : "");

function missingLetter(sas: Sas, allow: Allow, asked: Asked): ErrorCode | undefined {
  const usual = sas.kind === "account" ? allow.sas : serviceLetters(allow);
  const wanted = allow.letters?.(asked) ?? usual;
  const { permissions } = sas;
  if (!has(permissions, wanted, allow.every) || !has(permissions, furtherLetters(asked), true)) {
    return "AuthorizationPermissionMismatch";
  }
  const [, partition, row] = asked.names;
  if (sas.keys !== undefined && partition !== undefined && row !== undefined) {
    if (!isInRange(sas.keys, partition, row)) return "AuthorizationFailure";
  }
  return sas.grants === undefined ? undefined : missingRole(sas.grants, allow, asked);
}

const has = (letters: string, wanted: string, every = false): boolean => {
  const test = (letter: string) => letters.includes(letter);
  return every ? [...wanted].every(test) : [...wanted].some(test);
};

/** Letters that headers and parameters ask for beside the operation's own. */
function furtherLetters({ service, query, header }: Asked): string {
  if (service !== "blob") return "";
  const include = query.get("include")?.toLowerCase().split(",") ?? [];
  const tags =
    header("x-ms-tags") !== undefined ||
    header("x-ms-copy-source-tag-option")?.toUpperCase() === "COPY" ||
    header("x-ms-if-tags") !== undefined ||
    include.includes("tags");
  const immutability =
    header("x-ms-immutability-policy-until-date") !== undefined ||
    header("x-ms-legal-hold") !== undefined;
  return (tags ? "t" : "") + (immutability ? "i" : "");
}

/** Why none of these roles allows it. */
function missingRole(grants: readonly Grant[], allow: Allow, asked: Asked): ErrorCode | undefined {
  const [container] = asked.names;
  const letters = grants
    .filter(({ service }) => service === asked.service)
    .filter((grant) => grant.container === undefined || grant.container === container)
    .map((grant) => grant.letters)
    .join("");
  if (letters.includes("*")) return undefined;
  const wanted = allow.user ?? allow.letters?.(asked) ?? allow.sas;
  // A service's own settings belong to its owner; what others may do there is to list.
  const isSetting = allow.resource === "s" && allow.user === undefined && allow.sas !== "l";
  const may =
    !isSetting && has(letters, wanted, allow.every) && has(letters, furtherLetters(asked), true);
  return may ? undefined : "AuthorizationPermissionMismatch";
}

/** Whether an entity is among those that a table SAS reaches; keys compare as the service sorts them. */
export function isInRange(range: KeyRange, partition: string, row: string): boolean {
  const { startPartition, startRow, endPartition, endRow } = range;
  if (startPartition !== undefined) {
    if (partition < startPartition) return false;
    if (partition === startPartition && startRow !== undefined && row < startRow) return false;
  }
  if (endPartition !== undefined) {
    if (partition > endPartition) return false;
    if (partition === endPartition && endRow !== undefined && row > endRow) return false;
  }
  return true;
}

/** The keys of a table that a caller is kept to; queries give no others, and writes elsewhere are refused. */
export const keysOf = (caller: Caller): KeyRange | undefined =>
  caller.kind === "sas" ? caller.sas.keys : undefined;
