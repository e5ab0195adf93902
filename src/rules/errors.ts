/**
 * Every error a client can see: its HTTP status and the sentence that goes with it, as Azure has them.
 * A third part is the code on the wire where one code of Azure's has two statuses.
 */
export const errors = {
  // Common to all services
  AccountIsDisabled: [403, "The specified account is disabled."],
  AuthenticationFailed: [
    403,
    "Server failed to authenticate the request. Make sure the value of the Authorization header is formed correctly including the signature.",
  ],
  AuthorizationFailure: [403, "This request is not authorized to perform this operation."],
  AuthorizationPermissionMismatch: [
    403,
    "This request is not authorized to perform this operation using this permission.",
  ],
  AuthorizationProtocolMismatch: [
    403,
    "This request is not authorized to perform this operation using this protocol.",
  ],
  AuthorizationResourceTypeMismatch: [
    403,
    "This request is not authorized to perform this operation using this resource type.",
  ],
  AuthorizationServiceMismatch: [
    403,
    "This request is not authorized to perform this operation using this service.",
  ],
  AuthorizationSourceIPMismatch: [
    403,
    "This request is not authorized to perform this operation using this source IP.",
  ],
  ConditionHeadersNotSupported: [400, "Condition headers are not supported."],
  ConditionNotMet: [412, "The condition specified using HTTP conditional header(s) is not met."],
  NotModified: [
    304,
    "The condition specified using HTTP conditional header(s) is not met.",
    "ConditionNotMet",
  ],
  CorsPreflightFailure: [403, "CORS not enabled or no matching rule found for this request."],
  DirectorySasNotSupportedVersion: [409, "Directory SAS is not supported in this version."],
  EmptyMetadataKey: [400, "The key for one of the metadata key-value pairs is empty."],
  FeatureVersionMismatch: [
    409,
    "Stored access policy contains a permission that is not supported by this version.",
  ],
  InsufficientAccountPermissions: [403, "Write operations are not allowed."],
  InternalError: [500, "The server encountered an internal error. Please retry the request."],
  InvalidAuthenticationInfo: [
    400,
    "Authentication information is not given in the correct format. Check the value of Authorization header.",
  ],
  InvalidHeaderValue: [400, "The value for one of the HTTP headers is not in the correct format."],
  InvalidHttpVerb: [400, "The HTTP verb specified was not recognized by the server."],
  InvalidInput: [400, "One of the request inputs is not valid."],
  InvalidMd5: [
    400,
    "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded.",
  ],
  InvalidMetadata: [
    400,
    "The metadata specified is invalid. It has characters that are not permitted.",
  ],
  InvalidQueryParameterValue: [
    400,
    "Value for one of the query parameters specified in the request URI is invalid.",
  ],
  InvalidRange: [416, "The range specified is invalid for the current size of the resource."],
  InvalidResourceName: [400, "The specified resource name contains invalid characters."],
  InvalidToken: [
    401,
    "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
    "InvalidAuthenticationInfo",
  ],
  InvalidUri: [400, "The requested URI does not represent any resource on the server."],
  InvalidXmlDocument: [400, "XML specified is not syntactically valid."],
  InvalidXmlNodeValue: [400, "The value for one of the XML nodes is not in the correct format."],
  KeyBasedAuthenticationNotPermitted: [
    403,
    "Key based authentication is not permitted on this storage account.",
  ],
  Md5Mismatch: [
    400,
    "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
  ],
  MetadataTooLarge: [400, "The metadata specified exceeds the maximum permissible limit."],
  MissingContentLengthHeader: [411, "The Content-Length header was not specified."],
  MissingRequiredHeader: [
    400,
    "An HTTP header that's mandatory for this request is not specified.",
  ],
  MissingRequiredQueryParameter: [
    400,
    "A query parameter that's mandatory for this request is not specified.",
  ],
  MissingRequiredXmlNode: [400, "A required XML node was not specified in the request body."],
  MultipleConditionHeadersNotSupported: [400, "Multiple condition headers are not supported."],
  NoAuthenticationInformation: [
    401,
    "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.",
  ],
  OperationTimedOut: [500, "The operation could not be completed within the permitted time."],
  OutOfRangeInput: [
    400,
    "The specified resource name length is not within the permissible limits.",
  ],
  OutOfRangeQueryParameterValue: [
    400,
    "One of the query parameters specified in the request URI is outside the permissible range.",
  ],
  PublicAccessNotPermitted: [409, "Public access is not permitted on this storage account."],
  QueryParameterSasMandatory: [
    403,
    "The sdd parameter is mandatory in case of directory SAS. Cannot be empty.",
  ],
  QueryParameterSddInvalid: [403, "Invalid sdd parameter."],
  RequestBodyTooLarge: [
    413,
    "The request body is too large and exceeds the maximum permissible limit.",
  ],
  RequestForbiddenByContainerEncryptionPolicy: [
    403,
    "This request is forbidden by the encryption policy of the container.",
  ],
  RequestHeaderFieldsTooLarge: [431, "The request's headers exceed the permissible size."],
  RequestTimeout: [408, "The request was not received within the permitted time."],
  RequestUrlFailedToParse: [400, "The url in the request could not be parsed."],
  RequestUrlTooLong: [414, "The request's URL exceeds the permissible length.", "InvalidUri"],
  ResourceAlreadyExists: [409, "The specified resource already exists."],
  ResourceNotFound: [404, "The specified resource does not exist."],
  ResourceTypeMismatch: [
    409,
    "The specified resource type does not match the type of the existing resource.",
  ],
  ServerBusy: [503, "The server is busy."],
  DiskIsFull: [503, "The server has no room left on its disk.", "ServerBusy"],
  UnauthorizedBlobOverwrite: [403, "This request is not authorized to perform blob overwrites."],
  UnsatisfiableCondition: [
    400,
    "The request includes an unsatisfiable condition for this operation.",
  ],
  UnsupportedHeader: [400, "One of the headers specified in the request is not supported."],
  UnsupportedHttpVerb: [405, "The resource doesn't support specified Http Verb."],
  UnsupportedQueryParameter: [
    400,
    "One of the query parameters specified in the request URI is not supported.",
  ],
  UnsupportedXmlNode: [400, "One of the XML nodes specified in the request body is not supported."],

  WebContentNotFound: [404, "The requested content does not exist."],

  // Checksums
  BothCrc64AndMd5HeaderPresent: [
    400,
    "Both x-ms-content-crc64 header and Content-MD5 header are present.",
  ],
  Crc64Mismatch: [
    400,
    "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server.",
  ],

  // Leases
  InfiniteLeaseDurationRequired: [
    412,
    "The lease ID matched, but the specified lease must be an infinite-duration lease.",
  ],
  LeaseAlreadyPresent: [409, "There is already a lease present."],
  LeaseIdMismatchWithBlobOperation: [
    412,
    "The lease ID specified did not match the lease ID for the blob.",
  ],
  LeaseIdMismatchWithContainerOperation: [
    412,
    "The lease ID specified did not match the lease ID for the container.",
  ],
  LeaseIdMismatchWithFileOperation: [
    412,
    "The lease ID specified did not match the lease ID for the file.",
  ],
  LeaseIdMismatchWithShareOperation: [
    412,
    "The lease ID specified did not match the lease ID for the share.",
  ],
  LeaseIdMismatchWithLeaseOperation: [
    409,
    "The lease ID specified did not match the lease ID for the blob/container.",
  ],
  LeaseIdMissing: [
    412,
    "There is currently a lease on the blob/container and no lease ID was specified in the request.",
  ],
  LeaseIsBreakingAndCannotBeAcquired: [
    409,
    "The lease ID matched, but the lease is currently in breaking state and cannot be acquired until it is broken.",
  ],
  LeaseIsBreakingAndCannotBeChanged: [
    409,
    "The lease ID matched, but the lease is currently in breaking state and cannot be changed.",
  ],
  LeaseIsBrokenAndCannotBeRenewed: [
    409,
    "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.",
  ],
  LeaseLost: [412, "A lease ID was specified, but the lease for the blob/container has expired."],
  LeaseNotPresentWithBlobOperation: [412, "There is currently no lease on the blob."],
  LeaseNotPresentWithContainerOperation: [412, "There is currently no lease on the container."],
  LeaseNotPresentWithFileOperation: [412, "There is currently no lease on the file."],
  LeaseNotPresentWithShareOperation: [412, "There is currently no lease on the share."],
  LeaseNotPresentWithLeaseOperation: [409, "There is currently no lease on the blob/container."],

  // Blob service
  AccessTierNotSupportedForBlobType: [400, "The access tier is not supported for this blob type."],
  AppendBlockCountExceedsLimit: [
    409,
    "The committed block count cannot exceed the maximum limit of 50,000 blocks.",
    "BlockCountExceedsLimit",
  ],
  AppendPositionConditionNotMet: [412, "The append position condition specified was not met."],
  MaxBlobSizeConditionNotMet: [412, "The max blob size condition specified was not met."],
  BlobAlreadyExists: [409, "The specified blob already exists."],
  BlobArchived: [409, "This operation is not permitted on an archived blob."],
  BlobBeingRehydrated: [
    409,
    "This operation is not permitted because the blob is being rehydrated.",
  ],
  BlobImmutableDueToLegalHold: [
    409,
    "This operation is not permitted as the blob is immutable due to one or more legal holds.",
  ],
  BlobImmutableDueToPolicy: [
    409,
    "This operation is not permitted as the blob is immutable due to a policy.",
  ],
  BlobIsSealed: [
    409,
    "The specified blob is sealed and its contents can't be modified unless the blob is re-created after a delete.",
  ],
  BlobCustomerSpecifiedEncryptionMismatch: [
    409,
    "The given customer specified encryption does not match the encryption used to encrypt the blob.",
  ],
  BlobDoesNotUseCustomerSpecifiedEncryption: [
    409,
    "The blob does not use customer specified encryption.",
  ],
  BlobUsesCustomerSpecifiedEncryption: [
    409,
    "The blob is encrypted with customer specified encryption, but it was not provided in the request.",
  ],
  BlobAccessTierNotSupportedForAccountType: [
    409,
    "The access tier is not supported for this type of account.",
  ],
  BlobOverwritten: [409, "The blob has been recreated since the previous snapshot was taken."],
  BlobNotFound: [404, "The specified blob does not exist."],
  BlockCountExceedsLimit: [
    409,
    "The uncommitted block count cannot exceed the maximum limit of 100,000 blocks.",
  ],
  BlockListTooLong: [400, "The block list may not contain more than 50,000 blocks."],
  CannotVerifyCopySource: [
    500,
    "Could not verify the copy source within the specified time. Examine the HTTP status code and message for more information about the failure.",
  ],
  ContainerAlreadyExists: [409, "The specified container already exists."],
  ContainerHasLegalHold: [
    409,
    "The requested operation is not allowed as the container has one or more legal holds.",
  ],
  ContainerImmutabilityPolicyLocked: [
    409,
    "The requested operation is not allowed as the container has a locked immutability policy.",
  ],
  ContainerNotFound: [404, "The specified container does not exist."],
  CopyIdMismatch: [
    409,
    "The specified copy ID did not match the copy ID for the pending copy operation.",
  ],
  ExceedsMaxBatchRequestCount: [
    400,
    "The batch holds more than the 256 requests that it may hold.",
  ],
  DuplicateTagNames: [400, "The tags specified contain duplicate names."],
  EmptyTagName: [400, "The name of one of the tag key-value pairs is empty."],
  ErrorProcessingQueryExpression: [400, "The query expression could not be processed."],
  InvalidBlobOrBlock: [400, "The specified blob or block content is invalid."],
  InvalidBlobTier: [400, "The specified blob tier is invalid."],
  InvalidBlobType: [409, "The blob type is invalid for this operation."],
  InvalidBlockId: [400, "The specified block ID is invalid. The block ID must be Base64-encoded."],
  InvalidBlockList: [400, "The specified block list is invalid."],
  InvalidPageRange: [416, "The page range specified is invalid."],
  InvalidOperation: [400, "Invalid operation against a blob snapshot."],
  InvalidTag: [
    400,
    "The tags specified are invalid. It contains characters that are not permitted.",
  ],
  FeatureNotEnabled: [
    409,
    "The feature that this operation needs is switched off for the account.",
  ],
  BothUserTagsAndSourceTagsCopyPresent: [
    400,
    "x-ms-tags cannot be sent where the source's tags are to be copied.",
    "BothUserTagsAndSourceTagsCopyPresentException",
  ],
  InvalidSourceBlobType: [409, "The copy source blob type is invalid for this operation."],
  InvalidSourceBlobUrl: [
    409,
    "The source URL for incremental copy request must be valid Azure Storage blob URL.",
  ],
  IncrementalCopyBlobMismatch: [
    409,
    "The specified source blob is different than the copy source of the existing incremental copy blob.",
  ],
  IncrementalCopyOfEarlierVersionSnapshotNotAllowed: [
    409,
    "The specified snapshot is earlier than the last snapshot copied into the incremental copy blob.",
  ],
  IncrementalCopySourceMustBeSnapshot: [
    409,
    "The source for incremental copy request must be a snapshot.",
  ],
  OperationNotAllowedOnIncrementalCopyBlob: [
    409,
    "The specified operation is not allowed on an incremental copy blob.",
  ],
  NoPendingCopyOperation: [409, "There is currently no pending copy operation."],
  PendingCopyOperation: [409, "There is currently a pending copy operation."],
  SourceConditionNotMet: [
    412,
    "The source condition specified using HTTP conditional header(s) is not met.",
  ],
  OperationNotAllowedOnRootBlob: [
    403,
    "This operation is not allowed on the current version of a blob; leave out its version id.",
  ],
  PermanentDeleteNotAllowed: [
    409,
    "A permanent delete needs a soft-deleted snapshot or version, and an account that allows it.",
    "OperationNotAllowed",
  ],
  PreviousSnapshotCannotBeNewer: [
    400,
    "The prevsnapshot query parameter value cannot be newer than snapshot query parameter value.",
  ],
  PreviousSnapshotNotFound: [409, "The previous snapshot is not found."],
  PreviousSnapshotOperationNotSupported: [
    409,
    "Differential Get Page Ranges is not supported on the previous snapshot.",
  ],
  SequenceNumberConditionNotMet: [412, "The sequence number condition specified was not met."],
  SequenceNumberIncrementTooLarge: [
    409,
    "The sequence number increment cannot be performed because it would result in overflow of the sequence number.",
  ],
  SnapshotsPresent: [409, "This operation is not permitted while the blob has snapshots."],
  TagsTooLarge: [400, "The tags specified exceed the maximum permissible limit."],

  // Queue service
  InvalidMarker: [400, "The specified marker is invalid."],
  MessageNotFound: [404, "The specified message does not exist."],
  MessageTooLarge: [400, "The message exceeds the maximum allowed size."],
  QueueAlreadyExists: [409, "The specified queue already exists."],
  QueueNotFound: [404, "The specified queue does not exist."],

  // Table service
  AtomFormatNotSupported: [415, "Atom format is not supported."],
  CommandsInBatchActOnDifferentPartitions: [
    400,
    "All commands in a batch must operate on same entity group.",
  ],
  DuplicatePropertiesSpecified: [400, "A property is specified more than one time."],
  EntityAlreadyExists: [409, "The specified entity already exists."],
  EntityTooLarge: [400, "The entity is larger than the maximum size permitted."],
  InvalidDuplicateRow: [
    400,
    "A command with the same RowKey is already present in the batch. An entity can appear only once in a batch.",
  ],
  KeyValueTooLarge: [400, "The value of a key is larger than the maximum size permitted."],
  MediaTypeNotSupported: [415, "None of the provided media types are supported."],
  MethodNotAllowed: [405, "The requested method is not allowed on the specified resource."],
  NotImplemented: [501, "The requested operation is not implemented on the specified resource."],
  PropertiesNeedValue: [400, "Values have not been specified for all properties in the entity."],
  PropertyNameInvalid: [400, "The property name is invalid."],
  PropertyNameTooLong: [400, "The property name exceeds the maximum allowed length."],
  PropertyValueTooLarge: [400, "The property value is larger than the maximum size permitted."],
  TableAlreadyExists: [409, "The table specified already exists."],
  TableNotFound: [404, "The table specified does not exist."],
  TooManyProperties: [400, "The entity contains more properties than allowed."],
  UpdateConditionNotSatisfied: [
    412,
    "The update condition specified in the request was not satisfied.",
  ],
  XMethodIncorrectCount: [400, "More than one X-HTTP-Method is specified."],
  XMethodIncorrectValue: [400, "The specified X-HTTP-Method is invalid."],
  XMethodNotUsingPost: [400, "The request uses X-HTTP-Method with an HTTP verb other than POST."],
  // File service
  CannotDeleteFileOrDirectory: [
    409,
    "The file or directory could not be deleted because it is in use by an SMB client.",
  ],
  ClientCacheFlushDelay: [
    500,
    "The specified resource state could not be flushed from an SMB client in the specified time.",
  ],
  DeleteShareWhenSnapshotLeased: [
    409,
    "Unable to delete share because one or more share snapshots have active leases.",
  ],
  DirectoryNotEmpty: [409, "The specified directory is not empty."],
  FileGenerationMismatch: [
    409,
    "The file has been recreated since the previous snapshot was taken.",
  ],
  FileInvalidPermission: [400, "The specified file permission is not valid."],
  FileInvalidPermissionKey: [400, "The specified file permission key does not exist in the share."],
  FileLockConflict: [409, "A portion of the specified file is locked by an SMB client."],
  InvalidFileOrDirectoryPathName: [
    400,
    "File or directory path is too long, or it has too many subdirectories.",
  ],
  ParentNotFound: [404, "The specified parent path does not exist."],
  ReadOnlyAttribute: [
    409,
    "The specified resource is read-only and cannot be modified at this time.",
  ],
  SMBDeletePending: [409, "The specified resource is marked for deletion by an SMB client."],
  ShareAlreadyExists: [409, "The specified share already exists."],
  ShareHasSnapshots: [409, "The share has snapshots and the operation requires no snapshots."],
  ShareNotFound: [404, "The specified share does not exist."],
  ShareSizeLimitReached: [403, "The share size limit has been reached."],
  ShareSnapshotCountExceeded: [
    409,
    "The total number of snapshots for the share is over the limit.",
  ],
  ShareSnapshotNotFound: [404, "The specified share snapshot does not exist."],
  SharingViolation: [409, "The specified resource may be in use by an SMB client."],
} as const satisfies Record<string, readonly [status: number, message: string, wire?: string]>;

export type ErrorCode = keyof typeof errors;

/** Named values that the error's XML carries beside code and message, such as HeaderName. */
export type ErrorDetails = Readonly<Record<string, string>>;

/** Thrown by operations; caught only where the wire is known, in http/server.ts. */
export class StorageError extends Error {
  readonly code: ErrorCode;
  readonly details: ErrorDetails;
  /** Another status than the table's, where it depends on the case. */
  readonly status: number;

  /** `message` says more than the code's own sentence, where Azure does. */
  constructor(
    code: ErrorCode,
    details: ErrorDetails = {},
    status: number = errors[code][0],
    message: string = errors[code][1],
  ) {
    // A refusal is an answer, not a fault: no stack is worth gathering for it.
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0;
    super(message);
    Error.stackTraceLimit = limit;
    this.code = code;
    this.details = details;
    this.status = status;
  }
}

/** An error with a sentence of its own. */
export const explained = (code: ErrorCode, message: string): StorageError =>
  new StorageError(code, {}, errors[code][0], message);

/** Throws what a rule found wrong, if it found anything. */
export function refuse(code: ErrorCode | undefined): void {
  if (code !== undefined) throw new StorageError(code);
}

export const invalidHeader = (name: string, value: string): StorageError =>
  new StorageError("InvalidHeaderValue", { HeaderName: name, HeaderValue: value });

export const missingHeader = (name: string): StorageError =>
  new StorageError("MissingRequiredHeader", { HeaderName: name });

export const invalidQuery = (name: string, value: string, reason?: string): StorageError =>
  new StorageError("InvalidQueryParameterValue", {
    QueryParameterName: name,
    QueryParameterValue: value,
    ...(reason === undefined ? {} : { Reason: reason }),
  });
