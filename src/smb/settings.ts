import type { ProtocolSettings } from "../store/records.ts";
import {
  type Cipher,
  type Dialect,
  SMB_202,
  SMB_210,
  SMB_300,
  SMB_302,
  SMB_311,
} from "./protection.ts";

/** What the lists of an account's settings call them; what has no name there is in no list. */
const versionNames: Readonly<Record<Dialect, string | undefined>> = {
  [SMB_202]: undefined,
  [SMB_210]: "SMB2.1",
  [SMB_300]: "SMB3.0",
  [SMB_302]: "SMB3.0",
  [SMB_311]: "SMB3.1.1",
};
const cipherNames: Readonly<Record<Cipher, string | undefined>> = {
  1: "AES-128-CCM",
  2: "AES-128-GCM",
  3: undefined,
  4: "AES-256-GCM",
};

/** A list that is not there lets all pass. */
const isIn = (list: string | undefined, name: string | undefined): boolean =>
  list === undefined ||
  list
    .split(/[;,]/)
    .map((each) => each.trim())
    .includes(name ?? "");

/**
 * Whether an account lets SMB be spoken so, by what Set File Service Properties said. Logons are by NTLMv2,
 * so an account that leaves that out lets nobody in; there is no Kerberos whose tickets could be encrypted.
 */
export function isAllowed(
  settings: ProtocolSettings,
  { dialect, cipher }: { readonly dialect: Dialect; readonly cipher: Cipher | undefined },
): boolean {
  if (!isIn(settings.versions, versionNames[dialect])) return false;
  if (!isIn(settings.authenticationMethods, "NTLMv2")) return false;
  if (cipher === undefined) return settings.encryptionRequired !== true;
  return isIn(settings.channelEncryption, cipherNames[cipher]);
}
