import type { Operation, ServiceDefinition } from "../http/operation.ts";
import { servicePropertiesRows } from "../service/properties.ts";
import { serviceStatsRow } from "../service/stats.ts";
import { userDelegationKeyRow } from "../service/user-delegation-key.ts";
import { appendBlock, appendBlockFromUrl, putAppendBlob, sealAppendBlob } from "./append-blob.ts";
import { blobBatch } from "./batch.ts";
import {
  deleteBlob,
  getBlob,
  getBlobMetadata,
  getBlobProperties,
  setBlobExpiry,
  setBlobMetadata,
  setBlobProperties,
  setBlobTier,
  snapshotBlob,
  undeleteBlob,
} from "./blob.ts";
import { getBlockList, putBlob, putBlock, putBlockList } from "./block-blob.ts";
import { refuseFeedWrites } from "./change-feed.ts";
import {
  createContainer,
  deleteContainer,
  getContainerAcl,
  getContainerMetadata,
  getContainerProperties,
  restoreContainer,
  setContainerAcl,
  setContainerMetadata,
} from "./container.ts";
import { abortCopyBlob, copyBlob, copyBlobFromUrl } from "./copy.ts";
import { findBlobsByTags } from "./find-blobs.ts";
import { putBlobFromUrl, putBlockFromUrl } from "./from-url.ts";
import { deleteImmutabilityPolicy, setImmutabilityPolicy, setLegalHold } from "./immutability.ts";
import { incrementalCopyBlob } from "./incremental-copy.ts";
import { leaseBlob, leaseContainer } from "./lease.ts";
import { listBlobs } from "./list-blobs.ts";
import { clearPage, getPageRanges, putPage, putPageBlob, putPageFromUrl } from "./page-blob.ts";
import { blobPlace } from "./place.ts";
import { queryBlobContents } from "./query.ts";
import { getAccountInformation, listContainers } from "./service.ts";
import { getBlobTags, setBlobTags } from "./tags.ts";

const settings = [
  "Logging",
  "HourMetrics",
  "MinuteMetrics",
  "Cors",
  "DefaultServiceVersion",
  "DeleteRetentionPolicy",
  "StaticWebsite",
];

const operations: readonly Operation[] = [
  listContainers,
  ...servicePropertiesRows("Blob", settings),
  serviceStatsRow("Blob"),
  ...getAccountInformation,
  userDelegationKeyRow("b"),
  createContainer,
  getContainerProperties,
  getContainerMetadata,
  setContainerMetadata,
  getContainerAcl,
  setContainerAcl,
  deleteContainer,
  restoreContainer,
  ...leaseContainer,
  listBlobs,
  ...findBlobsByTags,
  ...blobBatch,
  putBlob,
  putAppendBlob,
  appendBlock,
  appendBlockFromUrl,
  sealAppendBlob,
  putBlobFromUrl,
  copyBlob,
  copyBlobFromUrl,
  abortCopyBlob,
  incrementalCopyBlob,
  putBlock,
  putBlockFromUrl,
  putBlockList,
  getBlockList,
  putPageBlob,
  putPage,
  putPageFromUrl,
  clearPage,
  getPageRanges,
  getBlob,
  queryBlobContents,
  getBlobProperties,
  setBlobProperties,
  getBlobMetadata,
  setBlobMetadata,
  getBlobTags,
  setBlobTags,
  setBlobTier,
  setBlobExpiry,
  setImmutabilityPolicy,
  deleteImmutabilityPolicy,
  setLegalHold,
  snapshotBlob,
  deleteBlob,
  undeleteBlob,
  ...leaseBlob,
];

/** The Blob service, whole. */
export const blobService: ServiceDefinition = {
  name: "blob",
  operations,
  place: blobPlace,
  refuse: refuseFeedWrites,
};
