import { command, type Reply } from "../command.ts";
import type { Connection, Negotiated } from "../connection.ts";
import {
  type Cipher,
  type Dialect,
  hashedOn,
  type Signing,
  SMB_202,
  SMB_210,
  SMB_300,
  SMB_302,
  SMB_311,
  signings,
} from "../protection.ts";
import { offer } from "../spnego.ts";
import { ProtocolViolation, SmbError } from "../status.ts";
import { fileTimeAt } from "../times.ts";
import { layout, padded, partOf, raw, u16, u32, u64 } from "../wire/layout.ts";

const DIALECTS: readonly Dialect[] = [SMB_311, SMB_302, SMB_300, SMB_210, SMB_202];
const DIALECTS_MAX = 64;
const CONTEXTS_MAX = 64;

const SIGNING_ENABLED = 1;
const LEASING = 0x2;
const LARGE_MTU = 0x4;
const ENCRYPTION = 0x40;

const SMALL_SIZE = 64 * 1024;
const LARGE_SIZE = 8 * 1024 * 1024;

// Kinds of negotiate contexts (MS-SMB2 2.2.3.1).
const PREAUTH = 1;
const ENCRYPTIONS = 2;
const SIGNINGS = 8;

/** GCM before CCM and the longer key first; GMAC before CMAC: each is the faster one by far. */
const CIPHERS: readonly Cipher[] = [2, 4, 1, 3];
const SIGNING_CHOICE: readonly Signing[] = [signings.gmac, signings.cmac, signings.hmac];

const answerLayout = layout({
  structureSize: u16,
  securityMode: u16,
  dialectRevision: u16,
  contextCount: u16,
  serverGuid: raw(16),
  capabilities: u32,
  maxTransactSize: u32,
  maxReadSize: u32,
  maxWriteSize: u32,
  systemTime: u64,
  serverStartTime: u64,
  securityBufferOffset: u16,
  securityBufferLength: u16,
  contextOffset: u32,
});

const contextLayout = layout({ type: u16, size: u16, reserved: u32 });

export const negotiate = command({
  code: 0x0000,
  name: "NEGOTIATE",
  needs: "connection",
  structureSize: 36,
  request: {
    structureSize: u16,
    dialectCount: u16,
    securityMode: u16,
    reserved: u16,
    capabilities: u32,
    clientGuid: raw(16),
    contextOffset: u32,
    contextCount: u16,
    reserved2: u16,
  },
  async handle({ connection, message }, request) {
    if (connection.negotiated !== undefined) throw new ProtocolViolation("it negotiated twice");
    const { dialectCount } = request;
    if (dialectCount === 0 || dialectCount > DIALECTS_MAX) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    const list = partOf(message, 100, dialectCount * 2);
    const dialects = Array.from({ length: dialectCount }, (_, i) => list.readUInt16LE(i * 2));
    const dialect = DIALECTS.find((each) => dialects.includes(each));
    if (dialect === undefined) throw new SmbError("STATUS_NOT_SUPPORTED");
    const contexts =
      dialect === SMB_311
        ? contextsOf(message, request.contextOffset, request.contextCount)
        : undefined;
    const cipher = cipherOf(dialect, request.capabilities, contexts);
    const negotiated: Negotiated = {
      dialect,
      dialects,
      clientGuid: Buffer.from(request.clientGuid),
      clientCapabilities: request.capabilities,
      clientSecurityMode: request.securityMode,
      securityMode: SIGNING_ENABLED,
      capabilities:
        dialect === SMB_202
          ? 0
          : LEASING | LARGE_MTU | (cipher !== undefined && dialect < SMB_311 ? ENCRYPTION : 0),
      cipher,
      signing: signingOf(dialect, contexts),
      sizeMax: dialect === SMB_202 ? SMALL_SIZE : LARGE_SIZE,
    };
    const answers = contexts === undefined ? [] : contextAnswers(connection, negotiated, contexts);
    const body = negotiateBody(connection, negotiated, answers);
    connection.negotiated = negotiated;
    if (dialect === SMB_311) connection.hash = hashedOn(connection.hash, message);
    return {
      body: [body],
      sent: (answer) => {
        if (dialect === SMB_311) connection.hash = hashedOn(connection.hash, answer);
      },
    };
  },
});

/** The answer to SMB1's negotiate: go on with SMB2's, or with 2.0.2 at once. */
export function negotiateUpgrade(connection: Connection, dialect: number): Reply {
  const agreed: Negotiated = {
    dialect: SMB_202,
    dialects: [SMB_202],
    clientGuid: Buffer.alloc(16),
    clientCapabilities: 0,
    clientSecurityMode: SIGNING_ENABLED,
    capabilities: 0,
    securityMode: SIGNING_ENABLED,
    cipher: undefined,
    signing: signings.hmac,
    sizeMax: SMALL_SIZE,
  };
  if (dialect === SMB_202) connection.negotiated = agreed;
  const body = negotiateBody(connection, agreed, []);
  body.writeUInt16LE(dialect, 4);
  return { body: [body] };
}

function negotiateBody(
  { around }: Connection,
  { dialect, securityMode, capabilities, sizeMax }: Negotiated,
  contexts: readonly Buffer[],
): Buffer {
  const blobAt = 64 + answerLayout.size;
  const contextOffset = Math.ceil((blobAt + offer.length) / 8) * 8;
  const fixed = answerLayout.bytes({
    structureSize: 65,
    securityMode,
    dialectRevision: dialect,
    contextCount: contexts.length,
    serverGuid: around.serverGuid,
    capabilities,
    maxTransactSize: sizeMax,
    maxReadSize: sizeMax,
    maxWriteSize: sizeMax,
    systemTime: fileTimeAt(around.clock.now()),
    securityBufferOffset: blobAt,
    securityBufferLength: offer.length,
    contextOffset: contexts.length === 0 ? 0 : contextOffset,
  });
  if (contexts.length === 0) return Buffer.concat([fixed, offer]);
  const gap = Buffer.alloc(contextOffset - blobAt - offer.length);
  const last = contexts.length - 1;
  const listed = contexts.map((context, i) => (i === last ? context : padded(context, 8)));
  return Buffer.concat([fixed, offer, gap, ...listed]);
}

function contextsOf(message: Buffer, offset: number, count: number): ReadonlyMap<number, Buffer> {
  if (count > CONTEXTS_MAX) throw new SmbError("STATUS_INVALID_PARAMETER");
  const contexts = new Map<number, Buffer>();
  let at = offset;
  for (let i = 0; i < count; i++) {
    const { type, size } = contextLayout.read(message, at);
    const known = type === PREAUTH || type === ENCRYPTIONS || type === SIGNINGS;
    if (known && contexts.has(type)) throw new SmbError("STATUS_INVALID_PARAMETER");
    contexts.set(type, partOf(message, at + contextLayout.size, size));
    at += Math.ceil((contextLayout.size + size) / 8) * 8;
  }
  return contexts;
}

/** The numbers at the beginning of a context that lists them. */
function listed(context: Buffer, at: number): number[] {
  const count = context.length >= 2 ? context.readUInt16LE(0) : 0;
  if (count === 0 || at + 2 * count > context.length)
    throw new SmbError("STATUS_INVALID_PARAMETER");
  return Array.from({ length: count }, (_, i) => context.readUInt16LE(at + i * 2));
}

function cipherOf(
  dialect: Dialect,
  capabilities: number,
  contexts: ReadonlyMap<number, Buffer> | undefined,
): Cipher | undefined {
  if (dialect === SMB_300 || dialect === SMB_302) {
    return (capabilities & ENCRYPTION) !== 0 ? 1 : undefined;
  }
  const context = contexts?.get(ENCRYPTIONS);
  if (context === undefined) return undefined;
  const offered = listed(context, 2);
  // The client's order counts among those that are fast alike: who puts AES-256 first wants it.
  const wanted = offered.find((id): id is Cipher => id === 2 || id === 4);
  return wanted ?? CIPHERS.find((id) => offered.includes(id));
}

function signingOf(dialect: Dialect, contexts: ReadonlyMap<number, Buffer> | undefined): Signing {
  if (dialect < SMB_300) return signings.hmac;
  const context = contexts?.get(SIGNINGS);
  if (context === undefined) return signings.cmac;
  const offered = listed(context, 2);
  return SIGNING_CHOICE.find((id) => offered.includes(id)) ?? signings.cmac;
}

function contextAnswers(
  { around }: Connection,
  { cipher, signing }: Negotiated,
  contexts: ReadonlyMap<number, Buffer>,
): Buffer[] {
  const preauth = contexts.get(PREAUTH);
  if (preauth === undefined || preauth.length < 4) throw new SmbError("STATUS_INVALID_PARAMETER");
  if (!listed(preauth, 4).includes(1)) {
    throw new SmbError("STATUS_SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP");
  }
  const made = (type: number, data: Buffer) =>
    Buffer.concat([contextLayout.bytes({ type, size: data.length }), data]);
  const salt = around.random(32);
  const answers = [made(PREAUTH, Buffer.concat([Buffer.of(1, 0, 32, 0, 1, 0), salt]))];
  if (contexts.has(ENCRYPTIONS)) answers.push(made(ENCRYPTIONS, Buffer.of(1, 0, cipher ?? 0, 0)));
  if (contexts.has(SIGNINGS)) answers.push(made(SIGNINGS, Buffer.of(1, 0, signing, 0)));
  return answers;
}
