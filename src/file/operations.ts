import type { Operation, ServiceDefinition } from "../http/operation.ts";
import { servicePropertiesRows } from "../service/properties.ts";
import { userDelegationKeyRow } from "../service/user-delegation-key.ts";
import { abortCopyFile, copyFile } from "./copy.ts";
import {
  createDirectory,
  deleteDirectory,
  getDirectoryMetadata,
  getDirectoryProperties,
  setDirectoryMetadata,
  setDirectoryProperties,
} from "./directory.ts";
import {
  createFile,
  deleteFile,
  getFile,
  getFileMetadata,
  getFileProperties,
  setFileMetadata,
  setFileProperties,
} from "./file.ts";
import { forceCloseHandles, listHandles } from "./handles.ts";
import { leaseFile, leaseShare } from "./lease.ts";
import { links } from "./links.ts";
import { listDirectoriesAndFiles } from "./list.ts";
import { createPermission, getPermission } from "./permission.ts";
import { filePlace } from "./place.ts";
import { listRanges, putRange, putRangeFromUrl } from "./range.ts";
import { renameDirectory, renameFile } from "./rename.ts";
import { listShares } from "./service.ts";
import {
  createShare,
  deleteShare,
  getShareAcl,
  getShareMetadata,
  getShareProperties,
  getShareStats,
  restoreShare,
  setShareAcl,
  setShareMetadata,
  setShareProperties,
  snapshotShare,
} from "./share.ts";

const settings = [
  "HourMetrics",
  "MinuteMetrics",
  "Cors",
  "ShareDeleteRetentionPolicy",
  "ProtocolSettings",
];

const operations: readonly Operation[] = [
  listShares,
  ...servicePropertiesRows("File", settings),
  userDelegationKeyRow("f"),
  createShare,
  getShareProperties,
  setShareProperties,
  getShareMetadata,
  setShareMetadata,
  getShareAcl,
  setShareAcl,
  getShareStats,
  snapshotShare,
  deleteShare,
  restoreShare,
  ...leaseShare,
  createPermission,
  getPermission,
  createDirectory,
  getDirectoryProperties,
  setDirectoryProperties,
  getDirectoryMetadata,
  setDirectoryMetadata,
  deleteDirectory,
  renameDirectory,
  listDirectoriesAndFiles,
  createFile,
  getFile,
  getFileProperties,
  setFileProperties,
  getFileMetadata,
  setFileMetadata,
  putRange,
  putRangeFromUrl,
  listRanges,
  copyFile,
  abortCopyFile,
  renameFile,
  deleteFile,
  ...leaseFile,
  listHandles,
  forceCloseHandles,
  ...links,
];

/** The File service over REST, whole. */
export const fileService: ServiceDefinition = { name: "file", operations, place: filePlace };
