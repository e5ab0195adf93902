import { readFileSync } from "node:fs";

/** The name of one of smbtorture's suites or tests, without the `smb2.` before it. */
export type Suite = string;

/** What a server like Azure Files has to do. */
export const SUITES: readonly Suite[] = [
  ...["connect", "tcon", "session", "session-id", "create", "read", "rw", "mkdir", "dir", "fileid"],
  ...["getinfo", "setinfo", "rename", "openattr", "winattr", "maxfid", "timestamps", "sharemode"],
  ...["deny", "delete-on-close-perms", "lock", "compound", "compound_find", "compound_async"],
  ...["credits", "oplock", "lease", "durable-open", "durable-v2-open", "durable-open-disconnect"],
  ...["notify", "ioctl", "create_no_streams", "maximum_allowed", "secleak", "charset"],
];

/** About how many seconds the longer suites take. */
const seconds: Readonly<Record<Suite, number>> = {
  lease: 200,
  notify: 110,
  oplock: 100,
  maxfid: 40,
  timestamps: 40,
  dir: 30,
  compound_find: 30,
  create: 25,
  secleak: 20,
  session: 15,
};
export const secondsOf = (suite: Suite): number => seconds[suite] ?? 0;

/** The tests that Samba itself passes, as it is in Debian 12, and that are about what Azure Files has. */
export const passesOfSamba = (): readonly string[] =>
  readFileSync(new URL("samba-passes.txt", import.meta.url), "utf8")
    .trim()
    .split("\n");

const SUPERUSER =
  "the account's key opens everything, whatever the access list says, as in Azure Files";
const ANONYMOUS = "nobody logs on without a key";
const AT_ONCE =
  "a write changes the time at once, as Windows does and later versions of this test ask for";

/** Where we answer otherwise than Samba, and mean to: docs/smb.md tells the same. */
export const differences: Readonly<Record<string, string>> = {
  "smb2.session.reauth2": ANONYMOUS,
  "smb2.session.reauth3": ANONYMOUS,
  "smb2.create.nulldacl": SUPERUSER,
  "smb2.compound.related4": SUPERUSER,
  "smb2.compound.related7": SUPERUSER,
  "smb2.delete-on-close-perms.OVERWRITE_IF Existing": SUPERUSER,
  "smb2.delete-on-close-perms.CREATE_IF Existing": SUPERUSER,
  "smb2.timestamps.delayed-write-vs-seteof": AT_ONCE,
  "smb2.timestamps.delayed-write-vs-flush": AT_ONCE,
  "smb2.timestamps.delayed-write-vs-setbasic": AT_ONCE,
  "smb2.timestamps.delayed-2write": AT_ONCE,
};
