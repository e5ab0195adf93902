import {
  createOperation,
  type HeaderValue,
  type Request,
  readOperation,
  writeOperation,
} from "../http/operation.ts";
import { invalidHeader, StorageError } from "../rules/errors.ts";
import { available, leaseAt, leaseProperties } from "../rules/lease.ts";
import { POLICIES_XML_MAX, policiesOf, policiesXml } from "../service/policies.ts";
import { changedHeaders, changedNow, metadataHeaders, metadataOf } from "../service/resource.ts";
import { containerIds, containers, garbage } from "../store/keys.ts";
import type { ContainerRecord } from "../store/records.ts";
import { putContainerRecord, theContainer } from "./resource.ts";

function publicAccessOf(request: Request): "container" | "blob" | undefined {
  const text = request.header("x-ms-blob-public-access");
  if (text === undefined) return undefined;
  const level = text.toLowerCase();
  if (level !== "container" && level !== "blob")
    throw invalidHeader("x-ms-blob-public-access", text);
  return level;
}

export const createContainer = createOperation({
  name: "Create Container",
  match: { method: "PUT", on: "container", restype: "container" },
  allow: { sas: "cw", resource: "c" },
  guard: { on: theContainer, conditions: "none", lease: "own" },
  input: (request) => ({
    metadata: metadataOf(request),
    publicAccess: publicAccessOf(request),
    encryptionScope: request.header("x-ms-default-encryption-scope"),
    denyScopeOverride:
      request.header("x-ms-deny-encryption-scope-override")?.toLowerCase() === "true",
  }),
  async apply({ tx, place, found, input }) {
    if (found !== undefined) throw new StorageError("ContainerAlreadyExists");
    const { metadata, publicAccess, encryptionScope, denyScopeOverride } = input;
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
  allow: { sas: "r", resource: "c" },
  guard: { on: theContainer, conditions: "none", lease: "free" },
  async apply({ tx, found }) {
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
      "x-ms-immutable-storage-with-versioning-enabled": false,
      "x-ms-default-encryption-scope": found.encryptionScope ?? "$account-encryption-key",
      "x-ms-deny-encryption-scope-override": found.denyScopeOverride ?? false,
    };
    return { status: 200, headers };
  },
});

export const getContainerMetadata = readOperation({
  name: "Get Container Metadata",
  match: { method: "GET", headToo: true, on: "container", restype: "container", comp: "metadata" },
  allow: { sas: "r", resource: "c" },
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
  guard: { on: theContainer, conditions: "write", lease: "free" },
  input: (request, { xml }) => ({
    publicAccess: publicAccessOf(request),
    policies: xml === undefined ? [] : policiesOf(xml, "racwdxyltmeopif"),
  }),
  async apply({ tx, place, found, input: { publicAccess, policies } }) {
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
  async apply({ tx, place, found }) {
    // Differs from Azure: the name of a deleted container can be used again at once, not after 30 seconds.
    containers.delete(tx, place.account, place.name);
    containerIds.delete(tx, place.account, place.name);
    garbage.put(tx, [tx.tick()], { container: found.id });
    return { status: 202, headers: {} };
  },
});
