import type { ReadTx } from "../engine/engine.ts";
import {
  type Call,
  type Guarded,
  MustWait,
  type Request,
  type Surroundings,
  type Target,
} from "../http/operation.ts";
import { invalidHeader, refuse, StorageError } from "../rules/errors.ts";
import { badPath, badShareName, withoutTrailingDots } from "../rules/file-names.ts";
import { fileLeaseCodes, shareLeaseCodes } from "../rules/lease.ts";
import type { RestUse } from "../rules/sharing.ts";
import type {
  DirectoryRecord,
  FileRecord,
  NodeRecord,
  ShareSnapshotRecord,
} from "../store/file-records.ts";
import { tickOf } from "./namespace.ts";
import { findShare, isDirectory, isFile, type Share, type ShareTx, viewOf, walk } from "./tree.ts";

/** A header that is true or false; absent is false. */
export function isTrue(request: Request, name: string): boolean {
  const text = request.header(name)?.toLowerCase();
  if (text !== undefined && text !== "true" && text !== "false") throw invalidHeader(name, text);
  return text === "true";
}

/** A header that, if it is there, has one of these values, in any case. */
export function chosen<const T extends string>(
  request: Request,
  name: string,
  values: readonly T[],
): T | undefined {
  const text = request.header(name);
  if (text === undefined) return undefined;
  const value = values.find((candidate) => candidate.toLowerCase() === text.toLowerCase());
  if (value === undefined) throw invalidHeader(name, text);
  return value;
}

/** Headers of NFS shares and of provisioned accounts, which there are none of here. */
const FOREIGN = [
  "x-ms-owner",
  "x-ms-group",
  "x-ms-mode",
  "x-ms-file-file-type",
  "x-ms-root-squash",
  "x-ms-enable-snapshot-virtual-directory-access",
  "x-ms-share-paid-bursting-enabled",
  "x-ms-share-paid-bursting-max-bandwidth-mibps",
  "x-ms-share-paid-bursting-max-iops",
  "x-ms-share-provisioned-iops",
  "x-ms-share-provisioned-bandwidth-mibps",
];

function checkHeaders(request: Request): void {
  for (const name of FOREIGN) {
    if (request.header(name) === undefined) continue;
    throw new StorageError("UnsupportedHeader", { HeaderName: name });
  }
  chosen(request, "x-ms-file-request-intent", ["backup"]);
}

/** The names after the share's, without the dots at their ends unless the request wants them. */
export function pathIn(request: Request): string[] {
  const [, ...path] = request.names;
  return isTrue(request, "x-ms-allow-trailing-dot") ? path : path.map(withoutTrailingDots);
}

export type SharePlace = {
  readonly account: string;
  readonly name: string;
  readonly share: Share | undefined;
};

/** The share, or the snapshot of it that the request names. */
export const theShare: Target<SharePlace, ShareSnapshotRecord> = {
  check(request) {
    checkHeaders(request);
    refuse(badShareName(request.names[0] ?? ""));
  },
  async find(tx, { account, names: [name = ""], snapshot }) {
    const share = await findShare(tx, account, name, snapshot);
    return { place: { account, name, share }, found: share?.snapshot?.record ?? share?.record };
  },
  missing: "ShareNotFound",
  leaseCodes: shareLeaseCodes,
};

/** Where a file or directory is or would be. */
export type NodePlace = {
  readonly share: Share;
  readonly parent: bigint;
  readonly name: string;
  /** Whatever is there, of either kind. */
  readonly node: NodeRecord | undefined;
};

/** Follows the request's path. */
async function placeOf(tx: ReadTx, request: Request): Promise<NodePlace> {
  const { account, names, snapshot } = request;
  const share = await findShare(tx, account, names[0] ?? "", snapshot);
  if (share === undefined) throw new StorageError("ShareNotFound");
  return { share, ...(await walk(tx, viewOf(share), pathIn(request))) };
}

/** A short open of a node: waits for what others keep to themselves, then refuses or lets it pass. */
export function enter(
  opens: Surroundings["opens"],
  share: Share,
  node: NodeRecord,
  use: RestUse,
): void {
  const identity = { share: share.id, file: tickOf(node.id) };
  const until = opens.breakOplocks(identity, use);
  if (until !== undefined) throw new MustWait(until);
  refuse(opens.failedUse(identity, use));
}

const checkNode = (request: Request): void => {
  checkHeaders(request);
  refuse(badShareName(request.names[0] ?? ""));
  refuse(badPath(pathIn(request)));
};

/**
 * What is of the other kind stands in the way of what is to be made; for all else it is not there: az looks for a
 * directory first where it means a file, and takes any other answer for a failure.
 */
function target<R extends NodeRecord & Guarded>(
  use: RestUse,
  is: (node: NodeRecord) => node is R,
  makes: boolean,
): Target<NodePlace, R> {
  return {
    check: checkNode,
    async find(tx, request, { opens }) {
      const place = await placeOf(tx, request);
      const { share, node } = place;
      if (node === undefined) return { place, found: undefined };
      if (!is(node)) {
        if (makes) throw new StorageError("ResourceTypeMismatch");
        return { place, found: undefined };
      }
      // What is there may be used only so as it can be beside all that is open.
      if (share.snapshot === undefined) enter(opens, share, node, use);
      return { place, found: node };
    },
    missing: "ResourceNotFound",
    use,
    leaseCodes: fileLeaseCodes,
  };
}

/** The file at the request's path, for an operation that uses it in this way. */
export const theFile = (use: RestUse): Target<NodePlace, FileRecord> =>
  target(use, isFile, use === "replace");

export const theDirectory = (use: RestUse): Target<NodePlace, DirectoryRecord> =>
  target(use, isDirectory, false);

/** The place of a directory that is to be made. */
export const theNewDirectory: Target<NodePlace, DirectoryRecord> = target(
  "look",
  isDirectory,
  true,
);

/** The file or directory at the request's path. */
export const theNode = (use: RestUse): Target<NodePlace, NodeRecord> =>
  target(use, (node): node is NodeRecord => node !== undefined, false);

/** What tree.ts needs of a call that changes a share. */
// biome-ignore lint/suspicious/noExplicitAny: the input and the record of the call do not matter here
export const changing = ({ tx, place, around }: Call<any, any, NodePlace, any>): ShareTx => ({
  tx,
  share: place.share,
  sparse: around.contents.sparse,
  opens: around.opens,
});
