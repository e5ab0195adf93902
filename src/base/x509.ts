import { createHash, type KeyObject, sign } from "node:crypto";
import { isIPv4, isIPv6 } from "node:net";
import type { Instant } from "./time.ts";

/** What a certificate says. */
export type Certificate = {
  readonly subject: string;
  readonly issuer: string;
  /** Positive; 16 bytes at most, in hexadecimal. */
  readonly serial: string;
  readonly from: Instant;
  readonly to: Instant;
  readonly publicKey: KeyObject;
  /** The key that signs it, P-256, and the public key that belongs to it. */
  readonly signer: { readonly privateKey: KeyObject; readonly publicKey: KeyObject };
  readonly use:
    | { readonly kind: "authority"; readonly names: readonly Subtree[] }
    | { readonly kind: "server"; readonly hosts: readonly string[] };
};

/** Names that an authority may vouch for: a domain with all below it, or a block of addresses. */
export type Subtree =
  | { readonly domain: string }
  | { readonly address: string; readonly bits: number };

/** A certificate of X.509 version 3 (RFC 5280), signed with ECDSA and SHA-256, in PEM. */
export function certificatePem(certificate: Certificate): string {
  const { subject, issuer, serial, from, to, publicKey, signer } = certificate;
  const algorithm = sequence(oid("1.2.840.10045.4.3.2")); // ecdsa-with-SHA256
  const body = sequence(
    tagged(0, integer(Buffer.from([2]))),
    integer(Buffer.from(serial.padStart(32, "0"), "hex")),
    algorithm,
    commonName(issuer),
    sequence(time(from), time(to)),
    commonName(subject),
    publicKey.export({ type: "spki", format: "der" }),
    tagged(3, sequence(...extensions(certificate))),
  );
  const signature = sign("sha256", body, signer.privateKey);
  const bytes = sequence(body, algorithm, bits(signature));
  const lines = bytes.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

function extensions({ use, publicKey, signer }: Certificate): Buffer[] {
  const common = [
    extension("2.5.29.14", octets(keyId(publicKey))),
    extension("2.5.29.35", sequence(primitive(0, keyId(signer.publicKey)))),
  ];
  if (use.kind === "authority") {
    const allowed = use.names.map((name) => sequence(subtreeName(name)));
    return [
      extension("2.5.29.19", sequence(TRUE, integer(Buffer.from([0]))), true), // an authority, of leaves only
      extension("2.5.29.15", tlv(0x03, Buffer.from([1, 0b0000_0110])), true), // signs certificates and lists
      extension("2.5.29.30", sequence(tagged(0, ...allowed)), true),
      ...common,
    ];
  }
  return [
    extension("2.5.29.19", sequence(), true),
    extension("2.5.29.15", tlv(0x03, Buffer.from([7, 0b1000_0000])), true), // digitalSignature
    extension("2.5.29.37", sequence(oid("1.3.6.1.5.5.7.3.1"))), // serverAuth
    extension("2.5.29.17", sequence(...use.hosts.map(hostName))),
    ...common,
  ];
}

const hostName = (host: string): Buffer =>
  isIPv4(host) || isIPv6(host) ? primitive(7, addressBytes(host)) : primitive(2, Buffer.from(host));

function subtreeName(name: Subtree): Buffer {
  if ("domain" in name) return primitive(2, Buffer.from(name.domain));
  const address = addressBytes(name.address);
  const mask = Buffer.alloc(address.length);
  for (let i = 0; i < name.bits; i++) mask[i >> 3] = (mask[i >> 3] ?? 0) | (0x80 >> (i & 7));
  return primitive(7, Buffer.concat([address, mask]));
}

/** The bytes of an IP address. */
export function addressBytes(text: string): Buffer {
  if (isIPv4(text)) return Buffer.from(text.split(".").map(Number));
  const groups = (half: string) => (half === "" ? [] : half.split(":"));
  const [head = "", tail] = text.split("::");
  const before = groups(head);
  const after = groups(tail ?? "");
  const zeros = Array<string>(8 - before.length - after.length).fill("0");
  const all = [...before, ...zeros, ...after].map((group) => group.padStart(4, "0"));
  return Buffer.from(all.join(""), "hex");
}

/** SHA-1 over the point that the key is, as RFC 5280, 4.2.1.2 has it; it names the key and secures nothing. */
function keyId(key: KeyObject): Buffer {
  const point = key.export({ type: "spki", format: "der" }).subarray(-65);
  return createHash("sha1").update(point).digest();
}

const extension = (id: string, value: Buffer, critical = false): Buffer =>
  sequence(oid(id), ...(critical ? [TRUE] : []), octets(value));

// DER, as far as certificates need it (X.690): a tag, the length, the content.

function tlv(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const size = content.length;
  const length =
    size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : [0x82, size >> 8, size & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), content]);
}

const sequence = (...parts: readonly Buffer[]): Buffer => tlv(0x30, ...parts);
const octets = (content: Buffer): Buffer => tlv(0x04, content);
const bits = (content: Buffer): Buffer => tlv(0x03, Buffer.from([0]), content);
const tagged = (number: number, ...parts: readonly Buffer[]): Buffer =>
  tlv(0xa0 | number, ...parts);
const primitive = (number: number, content: Buffer): Buffer => tlv(0x80 | number, content);
const TRUE = tlv(0x01, Buffer.from([0xff]));

/** A number that is not negative: a zero stands first where its first bit is set, and no other zero does. */
function integer(bytes: Buffer): Buffer {
  let from = 0;
  while (from < bytes.length - 1 && bytes[from] === 0) from++;
  const digits = bytes.subarray(from);
  const sign = (digits[0] ?? 0) >= 0x80 ? Buffer.from([0]) : Buffer.alloc(0);
  return tlv(0x02, sign, digits);
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  const bytes = [first * 40 + second];
  for (const part of rest) {
    const groups = [part & 0x7f];
    for (let left = part >> 7; left > 0; left >>= 7) groups.unshift((left & 0x7f) | 0x80);
    bytes.push(...groups);
  }
  return tlv(0x06, Buffer.from(bytes));
}

const commonName = (text: string): Buffer =>
  sequence(tlv(0x31, sequence(oid("2.5.4.3"), tlv(0x0c, Buffer.from(text, "utf8")))));

function time(at: Instant): Buffer {
  const text = new Date(at).toISOString().replace(/[-:T]|\.\d+/g, ""); // 20260102030405Z
  return text < "2050" ? tlv(0x17, Buffer.from(text.slice(2))) : tlv(0x18, Buffer.from(text));
}
