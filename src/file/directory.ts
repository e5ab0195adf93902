import { createOperation, readOperation, writeOperation } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { available } from "../rules/lease.ts";
import { READ_ONLY } from "../rules/smb-properties.ts";
import { changedHeaders, metadataHeaders, metadataOf } from "../service/resource.ts";
import type { DirectoryRecord } from "../store/file-records.ts";
import { hexOf } from "./namespace.ts";
import { changedProperties, newProperties, stamped } from "./node.ts";
import { isRestored, smbGivenOf, smbHeaders } from "./properties.ts";
import { changing, theDirectory, theNewDirectory } from "./resource.ts";
import { create, isInUse, prepare, remove, save, viewOf } from "./tree.ts";

const encrypted = { "x-ms-request-server-encrypted": true };

export const createDirectory = createOperation({
  name: "Create Directory",
  match: { method: "PUT", on: "directory", restype: "directory" },
  allow: { sas: "cw", resource: "o" },
  guard: { on: theNewDirectory, conditions: "none", lease: "own" },
  input(request) {
    const doing = isRestored(request) ? "restore" : "create";
    return { metadata: metadataOf(request), given: smbGivenOf(request, "directory", doing) };
  },
  async apply(call) {
    const { tx, place, found, input } = call;
    if (found !== undefined) throw new StorageError("ResourceAlreadyExists");
    const { tick, ...changed } = stamped(tx);
    const share = place.share.id;
    const { parent, name } = place;
    const made = { share, parent, kind: "directory" as const, tick };
    const record: DirectoryRecord = {
      ...changed,
      ...(await newProperties(tx, input.given, made)),
      kind: "directory",
      id: hexOf(tick),
      parent: hexOf(parent),
      name,
      since: hexOf(tick),
      metadata: input.metadata,
      lease: available,
    };
    await create(changing(call), record);
    const headers = { ...changedHeaders(record), ...smbHeaders(record), ...encrypted };
    return { status: 201, headers };
  },
});

export const getDirectoryProperties = readOperation({
  name: "Get Directory Properties",
  match: { method: "GET", headToo: true, on: "directory", restype: "directory" },
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  guard: { on: theDirectory("look"), conditions: "none", lease: "own" },
  async apply({ found }) {
    const headers = {
      ...changedHeaders(found),
      ...metadataHeaders(found.metadata),
      ...smbHeaders(found),
      "x-ms-server-encrypted": true,
    };
    return { status: 200, headers };
  },
});

export const getDirectoryMetadata = readOperation({
  name: "Get Directory Metadata",
  match: { method: "GET", headToo: true, on: "directory", restype: "directory", comp: "metadata" },
  allow: { sas: "r", resource: "o" },
  snapshots: true,
  guard: { on: theDirectory("look"), conditions: "none", lease: "own" },
  async apply({ found }) {
    const headers = { ...changedHeaders(found), ...metadataHeaders(found.metadata) };
    return { status: 200, headers };
  },
});

export const setDirectoryProperties = writeOperation({
  name: "Set Directory Properties",
  match: { method: "PUT", on: "directory", restype: "directory", comp: "properties" },
  allow: { sas: "w", resource: "o" },
  guard: { on: theDirectory("look"), conditions: "none", lease: "own" },
  input: (request) => smbGivenOf(request, "directory", "set"),
  async apply(call) {
    const { tx, place, found, input: given } = call;
    const { tick, ...changed } = stamped(tx);
    const change = changing(call);
    const at = { share: place.share.id, tick };
    const record = {
      ...(await prepare(change, found)),
      ...changed,
      ...(await changedProperties(tx, given, found, at)),
    };
    await save(change, found, record);
    const headers = { ...changedHeaders(record), ...smbHeaders(record), ...encrypted };
    return { status: 200, headers };
  },
});

export const setDirectoryMetadata = writeOperation({
  name: "Set Directory Metadata",
  match: { method: "PUT", on: "directory", restype: "directory", comp: "metadata" },
  allow: { sas: "w", resource: "o" },
  guard: { on: theDirectory("look"), conditions: "none", lease: "own" },
  input: metadataOf,
  async apply(call) {
    const { tx, found, input: metadata } = call;
    const { tick, ...changed } = stamped(tx);
    const change = changing(call);
    const before = await prepare(change, found);
    const record = { ...before, ...changed, metadata, changedAt: hexOf(tick) };
    await save(change, found, record);
    return { status: 200, headers: { ...changedHeaders(record), ...encrypted } };
  },
});

export const deleteDirectory = writeOperation({
  name: "Delete Directory",
  match: { method: "DELETE", on: "directory", restype: "directory" },
  allow: { sas: "d", resource: "o" },
  guard: { on: theDirectory("look"), conditions: "none", lease: "own" },
  async apply(call) {
    const { tx, place, found, around } = call;
    // The root is there as long as the share.
    if (found.id === "0") throw new StorageError("CannotDeleteFileOrDirectory");
    if ((found.attributes & READ_ONLY) !== 0) throw new StorageError("ReadOnlyAttribute");
    const change = changing(call);
    if (await isInUse(tx, around.opens, viewOf(place.share), found)) {
      throw new StorageError("CannotDeleteFileOrDirectory");
    }
    await remove(change, found);
    return { status: 202, headers: {} };
  },
});
