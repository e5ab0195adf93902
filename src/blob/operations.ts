import type { Operation } from "../http/operation.ts";
import {
  deleteBlob,
  getBlob,
  getBlobMetadata,
  getBlobProperties,
  setBlobMetadata,
  setBlobProperties,
  setBlobTier,
  snapshotBlob,
} from "./blob.ts";
import { getBlockList, putBlob, putBlock, putBlockList } from "./block-blob.ts";
import {
  createContainer,
  deleteContainer,
  getContainerAcl,
  getContainerMetadata,
  getContainerProperties,
  setContainerAcl,
  setContainerMetadata,
} from "./container.ts";
import { leaseBlob, leaseContainer } from "./lease.ts";
import { listBlobs } from "./list-blobs.ts";
import { getAccountInformation, listContainers } from "./service.ts";
import { getServiceProperties, setServiceProperties } from "./service-properties.ts";
import { getBlobTags, setBlobTags } from "./tags.ts";

/** The Blob service, whole: docs/operations.md and the router are made from this list. */
export const blobOperations: readonly Operation[] = [
  listContainers,
  getServiceProperties,
  setServiceProperties,
  ...getAccountInformation,
  createContainer,
  getContainerProperties,
  getContainerMetadata,
  setContainerMetadata,
  getContainerAcl,
  setContainerAcl,
  deleteContainer,
  ...leaseContainer,
  listBlobs,
  putBlob,
  putBlock,
  putBlockList,
  getBlockList,
  getBlob,
  getBlobProperties,
  setBlobProperties,
  getBlobMetadata,
  setBlobMetadata,
  getBlobTags,
  setBlobTags,
  setBlobTier,
  snapshotBlob,
  deleteBlob,
  ...leaseBlob,
];
