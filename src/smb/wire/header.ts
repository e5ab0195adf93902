import type { NtStatus } from "../status.ts";
import { statuses } from "../status.ts";

export const HEADER_SIZE = 64;
const MAGIC = 0x424d53fe;

export const isSmb2 = (message: Buffer): boolean =>
  message.length >= HEADER_SIZE && message.readUInt32LE(0) === MAGIC;

// Bits of the header's flags (MS-SMB2 2.2.1).
export const FLAG_RESPONSE = 0x1;
export const FLAG_ASYNC = 0x2;
export const FLAG_RELATED = 0x4;
export const FLAG_SIGNED = 0x8;
const FLAG_PRIORITY = 0x70;
export const FLAG_REPLAY = 0x20000000;

/** A request's header, as far as the server looks at it. */
export type Header = {
  readonly creditCharge: number;
  readonly channelSequence: number;
  readonly command: number;
  readonly creditRequest: number;
  readonly flags: number;
  readonly nextCommand: number;
  readonly messageId: bigint;
  readonly processId: number;
  readonly treeId: number;
  readonly asyncId: bigint;
  readonly sessionId: bigint;
};

export const readHeader = (message: Buffer): Header => ({
  creditCharge: message.readUInt16LE(6),
  channelSequence: message.readUInt16LE(8),
  command: message.readUInt16LE(12),
  creditRequest: message.readUInt16LE(14),
  flags: message.readUInt32LE(16),
  nextCommand: message.readUInt32LE(20),
  messageId: message.readBigUInt64LE(24),
  processId: message.readUInt32LE(32),
  treeId: message.readUInt32LE(36),
  asyncId: message.readBigUInt64LE(32),
  sessionId: message.readBigUInt64LE(40),
});

/** What an answer's header says beside what it repeats. */
export type Answered = {
  readonly status: NtStatus;
  readonly credits: number;
  readonly asyncId?: bigint | undefined;
  readonly treeId?: number | undefined;
  readonly sessionId?: bigint | undefined;
};

export function answerHeader(request: Header, answered: Answered): Buffer {
  const header = Buffer.alloc(HEADER_SIZE);
  header.writeUInt32LE(MAGIC, 0);
  header.writeUInt16LE(HEADER_SIZE, 4);
  header.writeUInt16LE(request.creditCharge, 6);
  header.writeUInt32LE(statuses[answered.status], 8);
  header.writeUInt16LE(request.command, 12);
  header.writeUInt16LE(answered.credits, 14);
  const kept = request.flags & (FLAG_RELATED | FLAG_PRIORITY);
  const flags = FLAG_RESPONSE | kept | (answered.asyncId === undefined ? 0 : FLAG_ASYNC);
  header.writeUInt32LE(flags, 16);
  header.writeBigUInt64LE(request.messageId, 24);
  if (answered.asyncId !== undefined) header.writeBigUInt64LE(answered.asyncId, 32);
  else {
    header.writeUInt32LE(request.processId, 32);
    header.writeUInt32LE(answered.treeId ?? request.treeId, 36);
  }
  header.writeBigUInt64LE(answered.sessionId ?? request.sessionId, 40);
  return header;
}

/** The header of a message that answers nothing: the news that an oplock breaks. */
export function newsHeader(command: number): Buffer {
  const header = Buffer.alloc(HEADER_SIZE);
  header.writeUInt32LE(MAGIC, 0);
  header.writeUInt16LE(HEADER_SIZE, 4);
  header.writeUInt16LE(command, 12);
  header.writeUInt32LE(FLAG_RESPONSE, 16);
  header.fill(0xff, 24, 32);
  return header;
}
