import type { WriteTx } from "../engine/engine.ts";
import {
  createOperation,
  type HeaderValue,
  type Request,
  readOperation,
  type Surroundings,
  writeOperation,
} from "../http/operation.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import { isImmutable } from "../rules/immutability.ts";
import { available, leaseAt, leaseProperties } from "../rules/lease.ts";
import { POLICIES_XML_MAX, policiesOf, policiesXml } from "../service/policies.ts";
import { changedHeaders, changedNow, metadataHeaders, metadataOf } from "../service/resource.ts";
import {
  blobs,
  containerIds,
  containers,
  deletedContainers,
  garbage,
  snapshots,
  versions,
} from "../store/keys.ts";
import type { ContainerRecord } from "../store/records.ts";
import { deletedNow, purgeLater } from "./history.ts";
import { putContainerRecord, theContainer } from "./resource.ts";

const WALK_BATCH = 256;

function publicAccessOf(request: Request): "container" | "blob" | undefined {
  const text = request.header("x-ms-blob-public-access");
  if (text === undefined) return undefined;
  const level = text.toLowerCase();
  if (level !== "container" && level !== "blob")
    throw invalidHeader("x-ms-blob-public-access", text);
  return level;
}

/** Refuses to open a container to everybody in an account that has none of that. */
function refusePublic({ account }: Request, { authority }: Surroundings, level: unknown): void {
  if (level !== undefined && authority.accounts().get(account)?.publicAccess === false) {
    throw new StorageError("PublicAccessNotPermitted");
  }
}

/** The scope that blobs are to be in, and whether a request may name another one. */
function scopeOf(request: Request) {
  const name = "x-ms-deny-encryption-scope-override";
  const encryptionScope = request.header("x-ms-default-encryption-scope");
  const text = request.header(name);
  const deny = text?.toLowerCase() ?? "false";
  if (deny !== "true" && deny !== "false") throw invalidHeader(name, text ?? "");
  if (deny === "true" && encryptionScope === undefined) {
    throw missingHeader("x-ms-default-encryption-scope");
  }
  return { encryptionScope, denyScopeOverride: deny === "true" };
}

export const createContainer = createOperation({
  name: "Create Container",
  match: { method: "PUT", on: "container", restype: "container" },
  allow: { sas: "cw", resource: "c" },
  givesEtag: true,
  guard: { on: theContainer, conditions: "none", lease: "own" },
  input: (request) => ({
    metadata: metadataOf(request),
    publicAccess: publicAccessOf(request),
    ...scopeOf(request),
  }),
  async apply({ tx, request, place, found, input, around }) {
    if (found !== undefined) throw new StorageError("ContainerAlreadyExists");
    const { metadata, publicAccess, encryptionScope, denyScopeOverride } = input;
    refusePublic(request, around, publicAccess);
    const id = tx.tick();
    const record: ContainerRecord = {
      ...changedNow(tx),
      id: id.toString(16),
      metadata,
      lease: available,
      policies: [],
      ...(publicAccess === undefined ? {} : { publicAccess }),
      ...(encryptionScope === undefined ? {} : { encryptionScope, denyScopeOverride }),
    };
    putContainerRecord(tx, place, record);
    containerIds.put(tx, [place.account, place.name], id);
    return { status: 201, headers: changedHeaders(record) };
  },
});

export const getContainerProperties = readOperation({
  name: "Get Container Properties",
  match: { method: "GET", headToo: true, on: "container", restype: "container" },
  allow: { sas: "r", resource: "c", public: "container" },
  givesEtag: true,
  guard: { on: theContainer, conditions: "none", lease: "free" },
  async apply({ tx, found, around: { settings } }) {
    const lease = leaseProperties(leaseAt(found.lease, tx.now));
    const headers: Record<string, HeaderValue> = {
      ...changedHeaders(found),
      ...metadataHeaders(found.metadata),
      "x-ms-lease-status": lease.status,
      "x-ms-lease-state": lease.state,
      "x-ms-lease-duration": lease.duration,
      "x-ms-blob-public-access": found.publicAccess,
      "x-ms-has-immutability-policy": false,
      "x-ms-has-legal-hold": false,
      "x-ms-immutable-storage-with-versioning-enabled": settings.immutableStorage,
      "x-ms-default-encryption-scope": found.encryptionScope ?? "$account-encryption-key",
      "x-ms-deny-encryption-scope-override": found.denyScopeOverride ?? false,
    };
    return { status: 200, headers };
  },
});

export const getContainerMetadata = readOperation({
  name: "Get Container Metadata",
  match: { method: "GET", headToo: true, on: "container", restype: "container", comp: "metadata" },
  allow: { sas: "r", resource: "c", public: "container" },
  givesEtag: true,
  guard: { on: theContainer, conditions: "none", lease: "free" },
  async apply({ found }) {
    const headers = { ...changedHeaders(found), ...metadataHeaders(found.metadata) };
    return { status: 200, headers };
  },
});

export const setContainerMetadata = writeOperation({
  name: "Set Container Metadata",
  match: { method: "PUT", on: "container", restype: "container", comp: "metadata" },
  allow: { sas: "w", resource: "c" },
  givesEtag: true,
  guard: { on: theContainer, conditions: "write", lease: "free" },
  input: metadataOf,
  async apply({ tx, place, found, input: metadata }) {
    const record = { ...found, ...changedNow(tx), metadata };
    putContainerRecord(tx, place, record);
    return { status: 200, headers: changedHeaders(record) };
  },
});

export const getContainerAcl = readOperation({
  name: "Get Container ACL",
  match: { method: "GET", headToo: true, on: "container", restype: "container", comp: "acl" },
  allow: { sas: "", resource: "c" },
  givesEtag: true,
  guard: { on: theContainer, conditions: "none", lease: "free" },
  async apply({ found }) {
    const headers = {
      ...changedHeaders(found),
      "Content-Type": "application/xml",
      "x-ms-blob-public-access": found.publicAccess,
    };
    return { status: 200, headers, body: policiesXml(found.policies) };
  },
});

export const setContainerAcl = writeOperation({
  name: "Set Container ACL",
  match: { method: "PUT", on: "container", restype: "container", comp: "acl" },
  allow: { sas: "", resource: "c" },
  body: { kind: "xml", sizeMax: POLICIES_XML_MAX, optional: true },
  givesEtag: true,
  guard: { on: theContainer, conditions: "write", lease: "free" },
  input: (request, { xml }) => ({
    publicAccess: publicAccessOf(request),
    policies: xml === undefined ? [] : policiesOf(xml, "racwdxyltmeopif"),
  }),
  async apply({ tx, request, place, found, input: { publicAccess, policies }, around }) {
    refusePublic(request, around, publicAccess);
    const { publicAccess: _before, ...rest } = found;
    const access = publicAccess === undefined ? {} : { publicAccess };
    const record: ContainerRecord = { ...rest, ...changedNow(tx), ...access, policies };
    putContainerRecord(tx, place, record);
    return { status: 200, headers: changedHeaders(record) };
  },
});

/**
 * The blobs are taken apart in the background; a new container of the same name has another number and
 * begins empty.
 */
export const deleteContainer = writeOperation({
  name: "Delete Container",
  match: { method: "DELETE", on: "container", restype: "container" },
  allow: { sas: "d", resource: "c" },
  guard: { on: theContainer, conditions: "write", lease: "guarded" },
  async apply({ tx, place: { account, name }, found, around: { settings } }) {
    if (found.hasHeld) await refuseHeldBlobs(tx, BigInt(`0x${found.id}`));
    // Differs from Azure: the name of a deleted container can be used again at once, not after 30 seconds.
    containers.delete(tx, account, name);
    containerIds.delete(tx, account, name);
    const tick = tx.tick();
    if (settings.containerRetentionDays === 0) {
      garbage.put(tx, [tick], { container: found.id, account });
    } else {
      const deleted = deletedNow(tx, settings.containerRetentionDays);
      const record = { ...found, lease: available, deleted };
      deletedContainers.put(tx, [account, name, tick], record);
      purgeLater(tx, deleted.until, { what: "container", account, name, at: tick.toString(16) });
    }
    return { status: 202, headers: {} };
  },
});

/** A container with a blob that must not be deleted cannot be deleted either. */
async function refuseHeldBlobs(tx: WriteTx, container: bigint): Promise<void> {
  for (const kind of [blobs, snapshots, versions]) {
    const walk = { limit: WALK_BATCH };
    for (let from: Uint8Array | undefined; ; ) {
      const rows = await (kind as typeof snapshots).walk(tx, [container], {
        ...walk,
        ...(from === undefined ? {} : { from }),
      });
      for (const { value } of rows) {
        const held = isImmutable(value, tx.now);
        if (held === "BlobImmutableDueToLegalHold") throw new StorageError("ContainerHasLegalHold");
        if (held !== undefined) throw new StorageError("ContainerImmutabilityPolicyLocked");
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < WALK_BATCH) break;
      from = Buffer.concat([(kind as typeof snapshots).packed(last.key), Buffer.of(0)]);
    }
  }
}

/** Gives a deleted container its blobs back, under its old name or another ("Restore Container"). */
export const restoreContainer = createOperation({
  name: "Restore Container",
  match: { method: "PUT", on: "container", restype: "container", comp: "undelete" },
  allow: { sas: "w", resource: "c" },
  guard: { on: theContainer, conditions: "none", lease: "own" },
  input(request) {
    const name = request.header("x-ms-deleted-container-name");
    if (name === undefined) throw missingHeader("x-ms-deleted-container-name");
    // The service does not restore to another name any more; the index of tags would not follow either.
    if (name !== request.names[0]) throw invalidHeader("x-ms-deleted-container-name", name);
    const version = request.header("x-ms-deleted-container-version");
    if (version === undefined) throw missingHeader("x-ms-deleted-container-version");
    if (!/^[0-9A-Fa-f]{1,16}$/.test(version)) {
      throw invalidHeader("x-ms-deleted-container-version", version);
    }
    return { name, tick: BigInt(`0x${version}`) };
  },
  async apply({ tx, place, found, input: { name, tick } }) {
    if (found !== undefined) throw new StorageError("ContainerAlreadyExists");
    const { account } = place;
    const kept = await deletedContainers.get(tx, account, name, tick);
    if (kept?.deleted === undefined || kept.deleted.until <= tx.now) {
      throw new StorageError("ContainerNotFound");
    }
    const { deleted: _deleted, ...record } = kept;
    deletedContainers.delete(tx, account, name, tick);
    putContainerRecord(tx, place, record);
    containerIds.put(tx, [account, place.name], BigInt(`0x${record.id}`));
    return { status: 201, headers: {} };
  },
});
