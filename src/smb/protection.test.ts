import assert from "node:assert/strict";
import { createSecretKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { NtlmAccounts, ntlmSignature } from "../auth/ntlm.ts";
import {
  type Cipher,
  type Dialect,
  derivedKey,
  Sealer,
  Signer,
  type Signing,
  sealedSession,
  sessionKeys,
} from "./protection.ts";

// Sessions of smbclient with Samba, as they went over the wire; the password was "Passw0rd!".
type Session = {
  readonly capture: string;
  readonly dialect: Dialect;
  readonly signing: Signing;
  readonly cipher: Cipher | 0;
  readonly negotiate: string;
  readonly challenge: string;
  readonly authenticate: string;
  readonly mechTypes: string;
  readonly mic: string;
  readonly preauth: string;
  readonly sessionKey: string;
  readonly signed: readonly { readonly from: "client" | "server"; readonly message: string }[];
  readonly sealed: readonly {
    readonly from: "client" | "server";
    readonly message: string;
    readonly plain: string;
  }[];
};
const sessions: readonly Session[] = JSON.parse(
  readFileSync(new URL("../../test/vectors/smb.json", import.meta.url), "utf8"),
);
const bytes = (hex: string) => Buffer.from(hex, "hex");

const keysOf = ({ dialect, cipher, sessionKey, preauth }: Session) =>
  sessionKeys(bytes(sessionKey), {
    dialect,
    cipher: cipher === 0 ? undefined : cipher,
    hash: bytes(preauth),
  });

// The account's password is the base64 text of its key; this one has no such form, so a key stands in for it.
const password = { export: () => ({ toString: () => "Passw0rd!" }) };
const accounts = new Map([
  ["smbtest", { name: "smbtest", keys: [password as never], sharedKey: true, publicAccess: false }],
]);

for (const session of sessions) {
  const { capture, dialect, signing, cipher } = session;
  suite(`captured session ${capture}`, () => {
    const sent = { negotiate: bytes(session.negotiate), challenge: bytes(session.challenge) };

    test("the logon proves the account and gives its key", () => {
      const proved = new NtlmAccounts(() => accounts).proved(bytes(session.authenticate), sent);
      assert.equal(proved?.account.name, "smbtest");
      assert.equal(proved?.sessionKey.toString("hex"), session.sessionKey);
    });

    test("a logon that is changed in one byte proves nothing", () => {
      for (const at of [60, 72, 90, 120, 200]) {
        const changed = bytes(session.authenticate);
        changed[at] = (changed[at] ?? 0) ^ 1;
        assert.equal(new NtlmAccounts(() => accounts).proved(changed, sent), undefined, `${at}`);
      }
    });

    test("the client's code over the mechanisms", () => {
      const made = ntlmSignature(
        bytes(session.sessionKey),
        "client-to-server",
        bytes(session.mechTypes),
      );
      assert.equal(made.toString("hex"), session.mic);
    });

    for (const [index, { from, message }] of session.signed.entries()) {
      test(`signature ${index} of the ${from}`, () => {
        const signer = new Signer(keysOf(session).signing, signing);
        const whole = bytes(message);
        assert.ok(signer.isSigned(whole));
        assert.equal(whole.toString("hex"), message, "checking leaves it as it was");
        whole[whole.length - 1] = (whole[whole.length - 1] ?? 0) ^ 1;
        assert.ok(!signer.isSigned(whole));
        whole[whole.length - 1] = (whole[whole.length - 1] ?? 0) ^ 1;
        whole.fill(0, 48, 64);
        signer.sign(whole);
        assert.equal(whole.toString("hex"), message);
      });
    }

    for (const { from, message, plain } of session.sealed) {
      test(`a sealed message of the ${from}`, () => {
        assert.notEqual(cipher, 0);
        const keys = keysOf(session);
        const own = from === "client" ? keys : { ...keys, toServer: keys.toClient };
        const whole = bytes(message);
        const sealer = new Sealer(own, cipher as Cipher, sealedSession(whole));
        assert.equal(sealer.open(whole)?.toString("hex"), plain);
        for (const at of [4, 20, 44, whole.length - 1]) {
          const changed = bytes(message);
          changed[at] = (changed[at] ?? 0) ^ 1;
          assert.equal(sealer.open(changed), undefined, `byte ${at}`);
        }
      });
    }
    assert.ok(dialect >= 0x0202);
  });
}

test("what is sealed for a client opens with the keys turned round, and never twice by the same number", () => {
  const key = (text: string) => derivedKey(Buffer.alloc(16), text, Buffer.alloc(0), 256);
  const short = (text: string) => key(text).subarray(0, 16);
  for (const cipher of [1, 2, 3, 4] as const) {
    const half = cipher > 2 ? key : short;
    const keys = { signing: short("s"), toServer: half("a"), toClient: half("b") };
    const turned = { ...keys, toServer: keys.toClient, toClient: keys.toServer };
    const server = new Sealer(keys, cipher, 7n);
    const client = new Sealer(turned, cipher, 7n);
    const numbers = new Set<string>();
    for (let i = 0; i < 3; i++) {
      const sealed = Buffer.concat(server.seal([Buffer.from("one "), Buffer.from("message")]));
      numbers.add(sealed.toString("hex", 20, 36));
      assert.equal(client.open(sealed)?.toString(), "one message");
      assert.equal(server.open(sealed), undefined, "not what one sealed oneself");
    }
    assert.equal(numbers.size, 3);
  }
});

test("NtlmAccounts: the base64 text of either key is the password, and only if keys are taken", () => {
  const [session] = sessions;
  assert.ok(session !== undefined);
  const sent = { negotiate: bytes(session.negotiate), challenge: bytes(session.challenge) };
  const other = createSecretKey(Buffer.alloc(64, 1));
  const made = (keys: readonly unknown[], sharedKey: boolean) =>
    new NtlmAccounts(
      () =>
        new Map([
          ["smbtest", { name: "smbtest", keys: keys as never, sharedKey, publicAccess: false }],
        ]),
    ).proved(bytes(session.authenticate), sent);
  assert.notEqual(made([other, password], true), undefined);
  assert.equal(made([other], true), undefined);
  assert.equal(made([password], false), undefined);
  assert.equal(
    new NtlmAccounts(() => new Map()).proved(bytes(session.authenticate), sent),
    undefined,
  );
});
