import type { ErrorCode } from "../rules/errors.ts";
import type { NtStatus } from "./status.ts";

/** What the rules of the share say in Azure's words, in SMB's. */
const statusesOfCodes: Partial<Record<ErrorCode, NtStatus>> = {
  DirectoryNotEmpty: "STATUS_DIRECTORY_NOT_EMPTY",
  FileLockConflict: "STATUS_FILE_LOCK_CONFLICT",
  InvalidFileOrDirectoryPathName: "STATUS_OBJECT_NAME_INVALID",
  InvalidResourceName: "STATUS_OBJECT_NAME_INVALID",
  ParentNotFound: "STATUS_OBJECT_PATH_NOT_FOUND",
  PendingCopyOperation: "STATUS_SHARING_VIOLATION",
  ReadOnlyAttribute: "STATUS_ACCESS_DENIED",
  ResourceAlreadyExists: "STATUS_OBJECT_NAME_COLLISION",
  ResourceNotFound: "STATUS_OBJECT_NAME_NOT_FOUND",
  SMBDeletePending: "STATUS_DELETE_PENDING",
  ShareNotFound: "STATUS_NETWORK_NAME_DELETED",
  ShareSizeLimitReached: "STATUS_DISK_FULL",
  ShareSnapshotNotFound: "STATUS_OBJECT_NAME_NOT_FOUND",
  SharingViolation: "STATUS_SHARING_VIOLATION",
};

export const statusOf = (code: ErrorCode): NtStatus =>
  statusesOfCodes[code] ?? "STATUS_UNSUCCESSFUL";
