import type { WriteTx } from "../engine/engine.ts";
import {
  type Call,
  createOperation,
  type Operation,
  type Reply,
  type Request,
  type Surroundings,
} from "../http/operation.ts";
import { guidOf } from "../http/parse.ts";
import { invalidHeader, refuse, StorageError } from "../rules/errors.ts";
import { failedLease, fileLeaseCodes, leaseAt } from "../rules/lease.ts";
import { type Metadata, noMetadata } from "../rules/metadata.ts";
import { READ_ONLY } from "../rules/smb-properties.ts";
import { changedHeaders, metadataOf } from "../service/resource.ts";
import type { NodeRecord } from "../store/file-records.ts";
import { refusePending } from "./file.ts";
import { tickOf } from "./namespace.ts";
import { changedProperties, type SmbGiven, stamped } from "./node.ts";
import { smbGivenOf, smbHeaders } from "./properties.ts";
import { changing, enter, isTrue, type NodePlace, theNode } from "./resource.ts";
import { renameSourceOf, type Source } from "./source.ts";
import { isFile, isInUse, isWithin, move, remove, save, viewOf, walk } from "./tree.ts";

type Input = {
  readonly source: Source;
  readonly replaces: boolean;
  readonly ignoresReadOnly: boolean;
  readonly sourceLease: string | undefined;
  readonly destinationLease: string | undefined;
  readonly contentType: string | undefined;
  readonly metadata: Metadata;
  readonly given: SmbGiven;
};

function inputOf(request: Request, kind: "file" | "directory"): Input {
  const source = renameSourceOf(request);
  const replaces = isTrue(request, "x-ms-file-rename-replace-if-exists");
  const ignoring = ["x-ms-file-rename-ignore-readonly", "x-ms-file-ignore-readonly"];
  const ignoresReadOnly = ignoring.some((name) => isTrue(request, name));
  if (ignoresReadOnly && !replaces) {
    throw invalidHeader("x-ms-file-rename-ignore-readonly", "true");
  }
  return {
    source,
    replaces,
    ignoresReadOnly,
    sourceLease: guidOf(request.header, "x-ms-source-lease-id"),
    destinationLease: guidOf(request.header, "x-ms-destination-lease-id"),
    contentType: kind === "file" ? request.header("x-ms-content-type") : undefined,
    metadata: metadataOf(request),
    given: smbGivenOf(request, kind, "rename"),
  };
}

/** A signature for one file says nothing of the one that is to be moved there. */
function refuseNarrow({ caller }: Request): void {
  if (caller.kind === "sas" && caller.sas.scope === "f") {
    throw new StorageError("AuthorizationPermissionMismatch");
  }
}

/** Finds what is to be moved, and sees that it may be. */
async function sourceNode(
  tx: WriteTx,
  { share }: NodePlace,
  { source, sourceLease }: Input,
  { kind, opens }: { kind: NodeRecord["kind"]; opens: Surroundings["opens"] },
): Promise<NodeRecord> {
  const view = viewOf(share);
  const { node } = await walk(tx, view, source.path);
  if (node === undefined) throw new StorageError("ResourceNotFound");
  if (node.kind !== kind) throw new StorageError("ResourceTypeMismatch");
  if (isFile(node)) refusePending(node);
  enter(opens, share, node, kind === "file" ? "delete" : "look");
  if (kind === "directory" && (await isInUse(tx, opens, view, node))) {
    throw new StorageError("SharingViolation");
  }
  refuse(failedLease(leaseAt(node.lease, tx.now), sourceLease, "guarded", fileLeaseCodes));
  return node;
}

/** Makes way for what is moved: a file may be replaced if the request says so, a directory never. */
async function makeWay(
  call: Call<WriteTx, Input, NodePlace, NodeRecord | undefined>,
  there: NodeRecord,
): Promise<void> {
  const { tx, place, input, around } = call;
  if (!input.replaces || there.kind === "directory") {
    throw new StorageError("ResourceAlreadyExists");
  }
  refusePending(there);
  enter(around.opens, place.share, there, "delete");
  const lease = leaseAt(there.lease, tx.now);
  refuse(failedLease(lease, input.destinationLease, "guarded", fileLeaseCodes));
  if ((there.attributes & READ_ONLY) !== 0 && !input.ignoresReadOnly) {
    throw new StorageError("ReadOnlyAttribute");
  }
  await remove(changing(call), there);
}

async function renamed(
  call: Call<WriteTx, Input, NodePlace, NodeRecord | undefined>,
  kind: NodeRecord["kind"],
): Promise<Reply> {
  const { tx, request, place, input, around } = call;
  const { share, parent, name, node: there } = place;
  refuseNarrow(request);
  if (name === "") throw new StorageError("ResourceAlreadyExists"); // the root
  const node = await sourceNode(tx, place, input, { kind, opens: around.opens });
  if (await isWithin(tx, viewOf(share), parent, tickOf(node.id))) {
    // A directory cannot be moved into itself.
    throw invalidHeader("x-ms-file-rename-source", input.source.path.join("/"));
  }
  if (there !== undefined && there.id !== node.id) await makeWay(call, there);
  else if (there === undefined && input.destinationLease !== undefined) {
    throw new StorageError("LeaseNotPresentWithFileOperation");
  }
  const change = changing(call);
  const moved = await move(change, node, { parent, name });
  const { tick, ...changed } = stamped(tx);
  const record: NodeRecord = {
    ...moved,
    ...changed,
    ...(await changedProperties(tx, input.given, moved, { share: share.id, tick })),
    ...(input.metadata === noMetadata ? {} : { metadata: input.metadata }),
  };
  const { contentType } = input;
  const withType: NodeRecord =
    record.kind === "file" && contentType !== undefined
      ? { ...record, headers: { ...record.headers, contentType } }
      : record;
  await save(change, moved, withType);
  const headers = {
    ...changedHeaders(withType),
    ...smbHeaders(withType),
    "x-ms-request-server-encrypted": true,
  };
  return { status: 200, headers };
}

const renameRow = (kind: "file" | "directory"): Operation =>
  createOperation({
    name: kind === "file" ? "Rename File" : "Rename Directory",
    match: {
      method: "PUT",
      on: kind,
      ...(kind === "directory" ? { restype: "directory" } : {}),
      comp: "rename",
    },
    allow: { sas: "w", resource: "o" },
    guard: { on: theNode("look"), conditions: "none", lease: "own" },
    input: (request: Request) => inputOf(request, kind),
    apply: (call) => renamed(call, kind),
  });

export const renameFile = renameRow("file");
export const renameDirectory = renameRow("directory");
