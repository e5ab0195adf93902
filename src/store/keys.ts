import type { ChangeRecord, FeedRecord } from "./change-records.ts";
import {
  deletedShareRecord,
  entryRecord,
  fileCopyRecord,
  nodeRecord,
  permissionRecord,
  shareRecord,
  shareSnapshotRecord,
} from "./file-records.ts";
import {
  messagePlaceRecord,
  messageRecord,
  queueNameRecord,
  queueRecord,
  queueStateRecord,
} from "./queue-records.ts";
import {
  blobRecord,
  blockRecord,
  chunkFileRecord,
  containerIdRecord,
  containerRecord,
  copyRecord,
  countRecord,
  garbageRecord,
  json,
  piecesRecord,
  purgeRecord,
  serviceRecord,
  tagRecord,
  uncommittedRecord,
} from "./records.ts";
import {
  type LayerRecord,
  type SparseRecord,
  sparsePart,
  type WornRecord,
} from "./sparse-records.ts";
import { instant, number, ordinal, subspace, text } from "./subspace.ts";
import { entityRecord, tableIdRecord, tableRecord } from "./table-records.ts";

/**
 * Every key the server writes, in this one place. The numbers are on disk: add, never reuse.
 *
 *   1 service      account, service                    -> ServiceRecord
 *   2 container    account, name                       -> ContainerRecord
 *   3 blob         container id, name                  -> BlobRecord
 *   4 snapshot     container id, name, tick            -> BlobRecord          read-only, as of that tick
 *   5 uncommitted  container id, name                  -> UncommittedRecord   the blob has such blocks
 *   6 block        container id, name, block id        -> BlockRecord         not named by a list yet
 *   7 pieces       list id, offset                     -> Piece[]             a page of a long list
 *   8 chunk file   file name                           -> ChunkFileRecord
 *   9 references   kind, id                            -> count               only where more than one
 *  10 garbage      tick                                -> GarbageRecord       to be taken apart later
 *  11 container id account, name                       -> number              of the container with that name
 *  12 sparse       content id                          -> SparseRecord
 *  13 layer        layer id, 0                         -> LayerRecord
 *                  layer id, layer id                  -> null                the second stands on the first
 *  14 sparse part  rows id, offset                     -> SparsePart          they never overlap
 *  15 worn         rows id, offset of a region         -> WornRecord          small parts to be merged
 *  16 version      container id, name, tick            -> BlobRecord          a state before the current one
 *  17 purge        time, tick                          -> PurgeRecord         what goes for good at that time
 *  18 deleted      account, name, tick                 -> ContainerRecord     a container that can be restored
 *  20 copy         container id, name                  -> CopyRecord          not finished yet
 *  19 tag          account, key, value, container id, name -> TagRecord       current blobs by their tags
 *  35 change       account, tick                       -> ChangeRecord        not in the change feed yet
 *  36 change feed  account                             -> FeedRecord          how far it has come
 *
 *  40 queue        account, name                       -> QueueRecord         what only its owner changes
 *  41 queue state  account, name                       -> QueueState          what every message changes
 *  42 queue name   generation                          -> QueueName           whose messages have that number
 *  43 message      generation, visible at, tick        -> MessageRecord       in the order they are handed out
 *  44 expiry       expires at, generation, number      -> MessagePlace        none if it never expires
 *
 *  50 table        account, name in lower case         -> TableRecord
 *  51 table id     account, name in lower case         -> number              of the table with that name
 *  52 entity       table id, partition key, row key    -> EntityRecord        sorted by UTF-16 code units
 *  60 share        account, name                       -> ShareRecord
 *  61 snapshot     share id, tick                      -> ShareSnapshotRecord
 *  62 deleted      account, name, tick                 -> DeletedShareRecord  can still be restored
 *  63 entry        share id, directory id, folded name -> EntryRecord
 *  64 node         share id, file id                   -> NodeRecord
 *  65 old entry    share id, directory id, folded name, tick -> EntryRecord   as it was until that tick
 *  66 old node     share id, file id, tick             -> NodeRecord          as it was until that tick
 *  67 permission   share id, key                       -> SDDL
 *  68 usage        share id                            -> sum of the files' sizes
 *  69 file copy    share id, file id                   -> FileCopyRecord      not finished yet
 */
export const services = subspace(1, [text, text], serviceRecord);
export const containers = subspace(2, [text, text], containerRecord);
export const blobs = subspace(3, [number, text], blobRecord);
export const snapshots = subspace(4, [number, text, number], blobRecord);
export const uncommitted = subspace(5, [number, text], uncommittedRecord);
export const blocks = subspace(6, [number, text, text], blockRecord);
export const pieces = subspace(7, [number, number], piecesRecord);
export const chunkFiles = subspace(8, [text], chunkFileRecord);
export const references = subspace(9, [text, text], countRecord);
export const garbage = subspace(10, [number], garbageRecord);
export const containerIds = subspace(11, [text, text], containerIdRecord);
export const sparses = subspace(12, [number], json<SparseRecord>());
export const layers = subspace(13, [number, number], json<LayerRecord | null>());
export const sparseParts = subspace(14, [number, number], sparsePart);
export const worn = subspace(15, [number, number], json<WornRecord>());
export const versions = subspace(16, [number, text, number], blobRecord);
export const purges = subspace(17, [number, number], purgeRecord);
export const deletedContainers = subspace(18, [text, text, number], containerRecord);
export const copies = subspace(20, [number, text], copyRecord);
export const tagIndex = subspace(19, [text, text, text, number, text], tagRecord);
export const changes = subspace(35, [text, number], json<ChangeRecord>());
export const changeFeeds = subspace(36, [text], json<FeedRecord>());

export const queues = subspace(40, [text, text], queueRecord);
export const queueStates = subspace(41, [text, text], queueStateRecord);
export const queueNames = subspace(42, [number], queueNameRecord);
export const messages = subspace(43, [number, instant, number], messageRecord);
export const expiries = subspace(44, [instant, number, number], messagePlaceRecord);

export const tables = subspace(50, [text, text], tableRecord);
export const tableIds = subspace(51, [text, text], tableIdRecord);
export const entities = subspace(52, [number, ordinal, ordinal], entityRecord);
export const shares = subspace(60, [text, text], shareRecord);
export const shareSnapshots = subspace(61, [number, number], shareSnapshotRecord);
export const deletedShares = subspace(62, [text, text, number], deletedShareRecord);
export const entries = subspace(63, [number, number, text], entryRecord);
export const nodes = subspace(64, [number, number], nodeRecord);
export const oldEntries = subspace(65, [number, number, text, number], entryRecord);
export const oldNodes = subspace(66, [number, number, number], nodeRecord);
export const permissions = subspace(67, [number, text], permissionRecord);
export const usage = subspace(68, [number], countRecord);
export const fileCopies = subspace(69, [number, number], fileCopyRecord);
