import { createHash, createHmac, type KeyObject, timingSafeEqual } from "node:crypto";
import { md4 } from "../base/md4.ts";
import { rc4 } from "../base/rc4.ts";
import type { Account, Accounts } from "./accounts.ts";

const SIGNATURE = Buffer.from("NTLMSSP\0", "latin1");

// Flags of NEGOTIATE_MESSAGE and its answers (MS-NLMP 2.2.2.5).
const UNICODE = 0x1;
const REQUEST_TARGET = 0x4;
const KEY_EXCHANGE = 0x40000000;
const TARGET_TYPE_SERVER = 0x20000;
const TARGET_INFO = 0x800000;
/** What is agreed to when the client offers it: SIGN, SEAL, NTLM, ALWAYS_SIGN, extended security, VERSION, 128, KEY_EXCH, 56. */
const ECHOED =
  UNICODE |
  0x10 |
  0x20 |
  0x200 |
  0x8000 |
  0x80000 |
  0x2000000 |
  0x20000000 |
  KEY_EXCHANGE |
  0x80000000;

const hmacMd5 = (key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer => {
  const mac = createHmac("md5", key);
  for (const part of parts) mac.update(part);
  return mac.digest();
};

export const isNtlm = (blob: Buffer): boolean => blob.subarray(0, 8).equals(SIGNATURE);

/** Which of the three messages of a logon this is; undefined if it is none. */
export const messageTypeOf = (blob: Buffer): number | undefined =>
  isNtlm(blob) && blob.length >= 12 ? blob.readUInt32LE(8) : undefined;

/** CHALLENGE_MESSAGE, the answer to NEGOTIATE_MESSAGE (MS-NLMP 2.2.1.2). */
export function challengeOf(
  negotiate: Buffer,
  { nonce, name, time }: { readonly nonce: Buffer; readonly name: string; readonly time: bigint },
): Buffer | undefined {
  if (negotiate.length < 16) return undefined;
  const asked = negotiate.readUInt32LE(12);
  const target = Buffer.from(name.toUpperCase(), "utf16le");
  const stamp = Buffer.alloc(8);
  stamp.writeBigUInt64LE(time);
  const lower = Buffer.from(name.toLowerCase(), "utf16le");
  const info = Buffer.concat([
    pair(2, target),
    pair(1, target),
    pair(4, lower),
    pair(3, lower),
    pair(7, stamp),
    pair(0, Buffer.alloc(0)),
  ]);
  const head = Buffer.alloc(56);
  SIGNATURE.copy(head);
  head.writeUInt32LE(2, 8);
  head.writeUInt16LE(target.length, 12);
  head.writeUInt16LE(target.length, 14);
  head.writeUInt32LE(56, 16);
  const flags = (asked & ECHOED) | UNICODE | REQUEST_TARGET | TARGET_TYPE_SERVER | TARGET_INFO;
  head.writeUInt32LE(flags >>> 0, 20);
  nonce.copy(head, 24);
  head.writeUInt16LE(info.length, 40);
  head.writeUInt16LE(info.length, 42);
  head.writeUInt32LE(56 + target.length, 44);
  head.set([10, 0, 0, 0, 0, 0, 0, 15], 48); // a version that clients know the rules of
  return Buffer.concat([head, target, info]);
}

function pair(id: number, value: Buffer): Buffer {
  const head = Buffer.alloc(4);
  head.writeUInt16LE(id, 0);
  head.writeUInt16LE(value.length, 2);
  return Buffer.concat([head, value]);
}

/** What a client sent to log on, as far as it matters (MS-NLMP 2.2.1.3). */
type Authenticate = {
  readonly user: string;
  readonly domain: string;
  readonly response: Buffer;
  readonly encryptedKey: Buffer;
  readonly flags: number;
  /** Where the message has a code over all three messages. */
  readonly hasMic: boolean;
};

const MIC_AT = 72;
const MIC_SIZE = 16;
/** The fixed part of an NTLMv2 response before its pairs: proof, version, time, the client's nonce. */
const PAIRS_AT = 16 + 28;

function parse(message: Buffer): Authenticate | undefined {
  if (messageTypeOf(message) !== 3 || message.length < 64) return undefined;
  const field = (at: number): Buffer | undefined => {
    const size = message.readUInt16LE(at);
    const start = message.readUInt32LE(at + 4);
    return start + size <= message.length ? message.subarray(start, start + size) : undefined;
  };
  const [response, domain, user, key] = [field(20), field(28), field(36), field(52)];
  if (response === undefined || domain === undefined || user === undefined) return undefined;
  const flags = message.readUInt32LE(60);
  const text = (bytes: Buffer) => bytes.toString((flags & UNICODE) !== 0 ? "utf16le" : "latin1");
  const hasMic = ((flagsOfPairs(response) ?? 0) & 2) !== 0;
  if (hasMic && message.length < MIC_AT + MIC_SIZE) return undefined;
  return {
    user: text(user),
    domain: text(domain),
    response,
    encryptedKey: key ?? Buffer.alloc(0),
    flags,
    hasMic,
  };
}

/** The pair MsvAvFlags of a response, 0 where there is none; undefined if the pairs do not add up. */
function flagsOfPairs(response: Buffer): number | undefined {
  let flags = 0;
  for (let at = PAIRS_AT; at + 4 <= response.length; ) {
    const id = response.readUInt16LE(at);
    const size = response.readUInt16LE(at + 2);
    if (id === 0) return flags;
    if (at + 4 + size > response.length) return undefined;
    if (id === 6 && size === 4) flags = response.readUInt32LE(at + 4);
    at += 4 + size;
  }
  return undefined;
}

/** Whether a message claims to be of NTLMv2 and is not written as such. */
export function isMangled(authenticate: Buffer): boolean {
  const given = parse(authenticate);
  if (given === undefined) return true;
  return given.response.length >= PAIRS_AT && flagsOfPairs(given.response) === undefined;
}

export type Proved = { readonly account: Account; readonly sessionKey: Buffer };

/** The accounts as NTLM knows them: the base64 text of a key is the password. */
export class NtlmAccounts {
  readonly #accounts: () => Accounts;
  /** What NTLM makes of a key, which takes longer than the rest of a logon. */
  readonly #hashes = new WeakMap<KeyObject, Buffer>();

  constructor(accounts: () => Accounts) {
    this.#accounts = accounts;
  }

  #hashOf(key: KeyObject): Buffer {
    const known = this.#hashes.get(key);
    if (known !== undefined) return known;
    const hash = md4(Buffer.from(key.export().toString("base64"), "utf16le"));
    this.#hashes.set(key, hash);
    return hash;
  }

  /** Who the three messages of a logon prove the client to be; undefined if they prove nothing. NTLMv2 only. */
  proved(
    authenticate: Buffer,
    sent: { readonly negotiate: Buffer; readonly challenge: Buffer },
  ): Proved | undefined {
    const given = parse(authenticate);
    if (given === undefined || given.response.length < PAIRS_AT) return undefined;
    const account = this.#accounts().get(given.user.toLowerCase());
    if (account === undefined || !account.sharedKey) return undefined;
    const nonce = sent.challenge.subarray(24, 32);
    for (const secret of account.keys) {
      const key = hmacMd5(
        this.#hashOf(secret),
        Buffer.from(given.user.toUpperCase() + given.domain, "utf16le"),
      );
      const proof = hmacMd5(key, nonce, given.response.subarray(16));
      if (!timingSafeEqual(proof, given.response.subarray(0, 16))) continue;
      const base = hmacMd5(key, proof);
      const isExchanged = (given.flags & KEY_EXCHANGE) !== 0 && given.encryptedKey.length === 16;
      const sessionKey = isExchanged ? rc4(base, given.encryptedKey) : base;
      if (given.hasMic && !isMic(authenticate, sent, sessionKey)) return undefined;
      return { account, sessionKey };
    }
    return undefined;
  }
}

function isMic(
  authenticate: Buffer,
  { negotiate, challenge }: { readonly negotiate: Buffer; readonly challenge: Buffer },
  sessionKey: Buffer,
): boolean {
  const blank = Buffer.from(authenticate);
  blank.fill(0, MIC_AT, MIC_AT + MIC_SIZE);
  const mic = hmacMd5(sessionKey, negotiate, challenge, blank);
  return timingSafeEqual(mic, authenticate.subarray(MIC_AT, MIC_AT + MIC_SIZE));
}

/** The first signature of one side over a message, with extended session security (MS-NLMP 3.4.4.2). */
export function ntlmSignature(
  sessionKey: Buffer,
  side: "client-to-server" | "server-to-client",
  message: Buffer,
): Buffer {
  const derived = (use: string) =>
    createHash("md5")
      .update(sessionKey)
      .update(`session key to ${side} ${use} key magic constant\0`, "latin1")
      .digest();
  const sequence = Buffer.alloc(4);
  const sum = hmacMd5(derived("signing"), sequence, message).subarray(0, 8);
  return Buffer.concat([Buffer.of(1, 0, 0, 0), rc4(derived("sealing"), sum), sequence]);
}
