import { blobSubject } from "./blob-subject.ts";
import { doorsSubject } from "./doors-subject.ts";
import { fileSubject } from "./file-subject.ts";
import { listingSubject } from "./listing-subject.ts";
import { partitionSubject } from "./partition-subject.ts";
import { pastSubject } from "./past-subject.ts";
import { queueSubject } from "./queue-subject.ts";
import type { AnySubject } from "./traffic.ts";

/** All kinds of objects that the proof works on. */
export const subjects: readonly AnySubject[] = [
  blobSubject("BlockBlob"),
  blobSubject("AppendBlob"),
  blobSubject("PageBlob"),
  listingSubject,
  partitionSubject,
  queueSubject,
  fileSubject,
  doorsSubject,
  pastSubject,
];
