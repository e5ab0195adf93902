import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  timingSafeEqual,
} from "node:crypto";
import { Cmac } from "../base/cmac.ts";
import { FLAG_SIGNED } from "./wire/header.ts";

export const SMB_202 = 0x0202;
export const SMB_210 = 0x0210;
export const SMB_300 = 0x0300;
export const SMB_302 = 0x0302;
export const SMB_311 = 0x0311;
export type Dialect =
  | typeof SMB_202
  | typeof SMB_210
  | typeof SMB_300
  | typeof SMB_302
  | typeof SMB_311;

/** The numbers that negotiate contexts have for them (MS-SMB2 2.2.3.1.7 and 2.2.3.1.2). */
export const signings = { hmac: 0, cmac: 1, gmac: 2 } as const;
export type Signing = (typeof signings)[keyof typeof signings];

type CipherName = "aes-128-ccm" | "aes-128-gcm" | "aes-256-ccm" | "aes-256-gcm";
export type Cipher = 1 | 2 | 3 | 4;
const cipherNames: Readonly<Record<Cipher, CipherName>> = {
  1: "aes-128-ccm",
  2: "aes-128-gcm",
  3: "aes-256-ccm",
  4: "aes-256-gcm",
};

/** The hash over everything said before the keys are made, one message further. */
export const hashedOn = (hash: Buffer, message: Uint8Array): Buffer =>
  createHash("sha512").update(hash).update(message).digest();

export const NO_HASH: Buffer = Buffer.alloc(64);

/** One block of the counter mode of SP800-108 with HMAC-SHA256. */
export function derivedKey(
  key: Uint8Array,
  label: string,
  context: Uint8Array,
  bits: number,
): Buffer {
  const size = Buffer.alloc(4);
  size.writeUInt32BE(bits);
  return createHmac("sha256", key)
    .update(Buffer.of(0, 0, 0, 1))
    .update(`${label}\0`, "latin1")
    .update(Buffer.of(0))
    .update(context)
    .update(size)
    .digest()
    .subarray(0, bits / 8);
}

const ended = (text: string) => Buffer.from(`${text}\0`, "latin1");

export type Keys = {
  readonly signing: Buffer;
  readonly toServer: Buffer;
  readonly toClient: Buffer;
};

/** The keys of a session (MS-SMB2 3.3.5.5.3); `hash` counts in 3.1.1 only. */
export function sessionKeys(
  key: Buffer,
  { dialect, cipher, hash }: { dialect: Dialect; cipher: Cipher | undefined; hash: Buffer },
): Keys {
  const bits = cipher === 3 || cipher === 4 ? 256 : 128;
  if (dialect === SMB_311) {
    return {
      signing: derivedKey(key, "SMBSigningKey", hash, 128),
      toServer: derivedKey(key, "SMBC2SCipherKey", hash, bits),
      toClient: derivedKey(key, "SMBS2CCipherKey", hash, bits),
    };
  }
  if (dialect < SMB_300) return { signing: key, toServer: key, toClient: key };
  return {
    signing: derivedKey(key, "SMB2AESCMAC", ended("SmbSign"), 128),
    toServer: derivedKey(key, "SMB2AESCCM", ended("ServerIn "), 128), // the blank belongs to it
    toClient: derivedKey(key, "SMB2AESCCM", ended("ServerOut"), 128),
  };
}

const SIGNATURE_AT = 48;
const SIGNATURE_SIZE = 16;
const CANCEL = 12;

/** Signs messages with one key, and checks signatures. */
export class Signer {
  readonly #key: Buffer;
  readonly #algorithm: Signing;
  readonly #cmac: Cmac | undefined;

  constructor(key: Buffer, algorithm: Signing) {
    this.#key = key;
    this.#algorithm = algorithm;
    this.#cmac = algorithm === signings.cmac ? new Cmac(key) : undefined;
  }

  /** Puts the signature in its place in a message, padding included. */
  sign(message: Buffer): void {
    message.writeUInt32LE((message.readUInt32LE(16) | FLAG_SIGNED) >>> 0, 16);
    message.fill(0, SIGNATURE_AT, SIGNATURE_AT + SIGNATURE_SIZE);
    this.#signatureOf(message).copy(message, SIGNATURE_AT);
  }

  isSigned(message: Buffer): boolean {
    const sent = Buffer.from(message.subarray(SIGNATURE_AT, SIGNATURE_AT + SIGNATURE_SIZE));
    message.fill(0, SIGNATURE_AT, SIGNATURE_AT + SIGNATURE_SIZE);
    const isSame = timingSafeEqual(sent, this.#signatureOf(message));
    sent.copy(message, SIGNATURE_AT);
    return isSame;
  }

  #signatureOf(message: Buffer): Buffer {
    if (this.#cmac !== undefined) return this.#cmac.of(message);
    if (this.#algorithm === signings.hmac) {
      return createHmac("sha256", this.#key).update(message).digest().subarray(0, SIGNATURE_SIZE);
    }
    const nonce = Buffer.alloc(12);
    message.copy(nonce, 0, 24, 32);
    const isAnswer = (message.readUInt32LE(16) & 1) !== 0;
    nonce[8] = (isAnswer ? 1 : 0) | (message.readUInt16LE(12) === CANCEL ? 2 : 0);
    const cipher = createCipheriv("aes-128-gcm", this.#key, nonce);
    cipher.setAAD(message);
    cipher.final();
    return cipher.getAuthTag();
  }
}

export const TRANSFORM_SIZE = 52;
const TRANSFORM = 0x424d53fd;
const TAG_SIZE = 16;

export const isSealed = (message: Buffer): boolean =>
  message.length >= 4 && message.readUInt32LE(0) === TRANSFORM;

export const sealedSession = (message: Buffer): bigint => message.readBigUInt64LE(44);

/** Seals what goes to the client of a session, and opens what comes from it. */
export class Sealer {
  readonly #keys: Keys;
  readonly #name: CipherName;
  readonly #session: bigint;
  /** No number is used twice with one key. */
  #count = 0n;

  constructor(keys: Keys, cipher: Cipher, session: bigint) {
    this.#keys = keys;
    this.#name = cipherNames[cipher];
    this.#session = session;
  }

  /** The transform header and the sealed bytes of a message that is given in parts. */
  seal(parts: readonly Uint8Array[]): Buffer[] {
    const size = parts.reduce((sum, { length }) => sum + length, 0);
    const header = Buffer.alloc(TRANSFORM_SIZE);
    header.writeUInt32LE(TRANSFORM, 0);
    header.writeBigUInt64LE(this.#count++, 20);
    header.writeUInt32LE(size, 36);
    header.writeUInt16LE(1, 42);
    header.writeBigUInt64LE(this.#session, 44);
    const nonce = header.subarray(20, 20 + this.#nonceSize);
    const associated = header.subarray(20);
    const sealed: Buffer[] = [header];
    // TypeScript knows the modes by the literal type of the name.
    if (this.#name === "aes-128-gcm" || this.#name === "aes-256-gcm") {
      const cipher = createCipheriv(this.#name, this.#keys.toClient, nonce);
      cipher.setAAD(associated);
      for (const part of parts) sealed.push(cipher.update(part));
      cipher.final();
      cipher.getAuthTag().copy(header, 4);
    } else {
      const cipher = createCipheriv(this.#name, this.#keys.toClient, nonce, {
        authTagLength: TAG_SIZE,
      });
      cipher.setAAD(associated, { plaintextLength: size });
      // CCM takes its message in one piece.
      sealed.push(
        cipher.update(parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts)),
      );
      cipher.final();
      cipher.getAuthTag().copy(header, 4);
    }
    return sealed;
  }

  /** What was sealed; undefined if it was not sealed with this session's key. */
  open(message: Buffer): Buffer | undefined {
    const sealed = message.subarray(TRANSFORM_SIZE);
    if (sealed.length === 0 || message.readUInt32LE(36) !== sealed.length) return undefined;
    if (message.readUInt16LE(42) !== 1) return undefined;
    const nonce = message.subarray(20, 20 + this.#nonceSize);
    const associated = message.subarray(20, TRANSFORM_SIZE);
    const tag = message.subarray(4, 20);
    try {
      if (this.#name === "aes-128-gcm" || this.#name === "aes-256-gcm") {
        const cipher = createDecipheriv(this.#name, this.#keys.toServer, nonce);
        cipher.setAuthTag(tag).setAAD(associated);
        const plain = cipher.update(sealed);
        cipher.final();
        return plain;
      }
      const cipher = createDecipheriv(this.#name, this.#keys.toServer, nonce, {
        authTagLength: TAG_SIZE,
      });
      cipher.setAuthTag(tag).setAAD(associated, { plaintextLength: sealed.length });
      const plain = cipher.update(sealed);
      cipher.final();
      return plain;
    } catch {
      return undefined; // the tag does not fit
    }
  }

  get #nonceSize(): number {
    return this.#name.endsWith("gcm") ? 12 : 11;
  }
}
