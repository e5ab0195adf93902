import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProtocolSettings } from "../store/records.ts";
import type { Cipher, Dialect } from "./protection.ts";
import { isAllowed } from "./settings.ts";

const rows: [settings: ProtocolSettings, Dialect, Cipher | undefined, want: boolean][] = [
  [{}, 0x0202, undefined, true],
  [{}, 0x0311, 4, true],
  [{ versions: "SMB2.1" }, 0x0202, undefined, false],
  [{ versions: "SMB2.1" }, 0x0210, undefined, true],
  [{ versions: "SMB2.1; SMB3.0" }, 0x0300, 1, true],
  [{ versions: "SMB2.1,SMB3.0" }, 0x0302, 1, true],
  [{ versions: "SMB2.1;SMB3.0" }, 0x0311, 2, false],
  [{ versions: "SMB3.1.1" }, 0x0311, undefined, true],
  [{ authenticationMethods: "NTLMv2;Kerberos" }, 0x0311, 2, true],
  [{ authenticationMethods: "Kerberos" }, 0x0311, 2, false],
  [{ encryptionRequired: true }, 0x0210, undefined, false],
  [{ encryptionRequired: true }, 0x0311, 2, true],
  [{ encryptionRequired: false }, 0x0210, undefined, true],
  [{ channelEncryption: "AES-256-GCM" }, 0x0311, 4, true],
  [{ channelEncryption: "AES-256-GCM" }, 0x0311, 2, false],
  [{ channelEncryption: "AES-128-CCM;AES-128-GCM;AES-256-GCM" }, 0x0311, 3, false],
  [{ channelEncryption: "AES-128-CCM" }, 0x0300, 1, true],
  [{ channelEncryption: "AES-128-CCM" }, 0x0210, undefined, true],
];
for (const [settings, dialect, cipher, want] of rows) {
  test(`isAllowed(): ${JSON.stringify(settings)}, dialect ${dialect.toString(16)}, cipher ${cipher}`, () => {
    assert.equal(isAllowed(settings, { dialect, cipher }), want);
  });
}
