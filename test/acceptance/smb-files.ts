import {
  type Answer,
  type Begun,
  commands,
  type RequestOptions,
  type SmbClient,
} from "./smb-client.ts";

export const access = {
  read: 0x1,
  write: 0x2,
  readAttributes: 0x80,
  writeAttributes: 0x100,
  delete: 0x10000,
  all: 0x1f01ff,
} as const;

export const share = { read: 1, write: 2, delete: 4, all: 7 } as const;
export const disposition = {
  supersede: 0,
  open: 1,
  create: 2,
  openIf: 3,
  overwrite: 4,
  overwriteIf: 5,
};
export const options = {
  directory: 1,
  writeThrough: 2,
  nonDirectory: 0x40,
  deleteOnClose: 0x1000,
} as const;

export type CreateOptions = {
  readonly access?: number;
  readonly share?: number;
  readonly disposition?: number;
  readonly options?: number;
  readonly attributes?: number;
  readonly oplock?: number;
  readonly contexts?: readonly (readonly [name: string, data: Buffer])[];
};

const utf16 = (text: string) => Buffer.from(text, "utf16le");

export function createBody(name: string, given: CreateOptions = {}): Buffer {
  const fixed = Buffer.alloc(56);
  fixed.writeUInt16LE(57, 0);
  fixed[3] = given.oplock ?? 0;
  fixed.writeUInt32LE(2, 4);
  fixed.writeUInt32LE(given.access ?? access.all, 24);
  fixed.writeUInt32LE(given.attributes ?? 0x80, 28);
  fixed.writeUInt32LE(given.share ?? share.all, 32);
  fixed.writeUInt32LE(given.disposition ?? disposition.openIf, 36);
  fixed.writeUInt32LE(given.options ?? 0, 40);
  const bytes = utf16(name);
  fixed.writeUInt16LE(64 + 56, 44);
  fixed.writeUInt16LE(bytes.length, 46);
  const filled = Buffer.concat([bytes, Buffer.alloc(bytes.length === 0 ? 8 : -bytes.length & 7)]);
  const contexts = given.contexts ?? [];
  const list = Buffer.concat(
    contexts.map(([tag, data], index) => {
      const head = Buffer.alloc(24);
      const size = Math.ceil((24 + data.length) / 8) * 8;
      head.writeUInt32LE(index === contexts.length - 1 ? 0 : size, 0);
      head.writeUInt16LE(16, 4);
      head.writeUInt16LE(4, 6);
      head.writeUInt16LE(24, 10);
      head.writeUInt32LE(data.length, 12);
      head.write(tag, 16, "latin1");
      return Buffer.concat([head, data, Buffer.alloc(size - 24 - data.length)]);
    }),
  );
  if (list.length > 0) {
    fixed.writeUInt32LE(64 + 56 + filled.length, 48);
    fixed.writeUInt32LE(list.length, 52);
  }
  return Buffer.concat([fixed, filled, list]);
}

/** An open file, by its number on the wire. */
export type Handle = Buffer;
export const LAST: Handle = Buffer.alloc(16, 0xff);
export const handleOf = ({ body }: Answer): Handle => Buffer.from(body.subarray(64, 80));

export const create = (client: SmbClient, name: string, given?: CreateOptions): Promise<Answer> =>
  client.request(commands.create, createBody(name, given));

/** Opens a file that must open. */
export async function open(
  client: SmbClient,
  name: string,
  given?: CreateOptions,
): Promise<Handle> {
  const answer = await create(client, name, given);
  if (answer.status !== 0) throw new Error(`${name}: ${answer.status.toString(16)}`);
  return handleOf(answer);
}

export function closeBody(handle: Handle, flags = 0): Buffer {
  const body = Buffer.alloc(24);
  body.writeUInt16LE(24, 0);
  body.writeUInt16LE(flags, 2);
  handle.copy(body, 8);
  return body;
}

export const close = (client: SmbClient, handle: Handle): Promise<Answer> =>
  client.request(commands.close, closeBody(handle));

export const flush = (client: SmbClient, handle: Handle): Promise<Answer> =>
  client.request(commands.flush, closeBody(handle));

export function writeBody(handle: Handle, offset: number, data: Buffer, isThrough = false): Buffer {
  const body = Buffer.alloc(48);
  body.writeUInt16LE(49, 0);
  body.writeUInt16LE(64 + 48, 2);
  body.writeUInt32LE(data.length, 4);
  body.writeBigUInt64LE(BigInt(offset), 8);
  handle.copy(body, 16);
  body.writeUInt32LE(isThrough ? 1 : 0, 44);
  return Buffer.concat([body, data]);
}

export function write(
  client: SmbClient,
  handle: Handle,
  offset: number,
  data: Buffer,
): Promise<Answer> {
  const body = writeBody(handle, offset, data);
  return client.request(commands.write, body, { payload: data.length });
}

/** Asks for a file's size and whether it is to be deleted (FileStandardInformation). */
export function standardQuery(handle: Handle): Buffer {
  const body = Buffer.alloc(41);
  body.writeUInt16LE(41, 0);
  body[2] = 1;
  body[3] = 5;
  body.writeUInt32LE(24, 4);
  handle.copy(body, 24);
  return body;
}

export function readBody(handle: Handle, offset: number, length: number): Buffer {
  const body = Buffer.alloc(49);
  body.writeUInt16LE(49, 0);
  body[2] = 0x50;
  body.writeUInt32LE(length, 4);
  body.writeBigUInt64LE(BigInt(offset), 8);
  handle.copy(body, 16);
  return body;
}

export const read = (client: SmbClient, handle: Handle, offset: number, length: number) =>
  client.request(commands.read, readBody(handle, offset, length), { payload: length });

/** The bytes of an answer to READ. */
export const dataOf = ({ message, body }: Answer): Buffer =>
  message.subarray(body[2] ?? 0, (body[2] ?? 0) + body.readUInt32LE(4));

export function lock(
  client: SmbClient,
  handle: Handle,
  { start, count, flags }: { start: number; count: number; flags: number },
): Promise<Begun> {
  const body = Buffer.alloc(48);
  body.writeUInt16LE(48, 0);
  body.writeUInt16LE(1, 2);
  handle.copy(body, 8);
  body.writeBigUInt64LE(BigInt(start), 24);
  body.writeBigUInt64LE(BigInt(count), 32);
  body.writeUInt32LE(flags, 40);
  return client.begin(commands.lock, body);
}

export function setInfoBody(handle: Handle, infoClass: number, data: Buffer): Buffer {
  const body = Buffer.alloc(32);
  body.writeUInt16LE(33, 0);
  body[2] = 1;
  body[3] = infoClass;
  body.writeUInt32LE(data.length, 4);
  body.writeUInt16LE(64 + 32, 8);
  handle.copy(body, 16);
  return Buffer.concat([body, data]);
}

export const setInfo = (
  client: SmbClient,
  handle: Handle,
  infoClass: number,
  data: Buffer,
): Promise<Answer> => client.request(commands.setInfo, setInfoBody(handle, infoClass, data));

export const setDelete = (client: SmbClient, handle: Handle, deletes: boolean): Promise<Answer> =>
  setInfo(client, handle, 13, Buffer.of(deletes ? 1 : 0));

export function renameBody(handle: Handle, name: string, replaces = false): Buffer {
  const bytes = utf16(name);
  const head = Buffer.alloc(20);
  head[0] = replaces ? 1 : 0;
  head.writeUInt32LE(bytes.length, 16);
  return setInfoBody(handle, 10, Buffer.concat([head, bytes]));
}

export const rename = (
  client: SmbClient,
  handle: Handle,
  name: string,
  replaces = false,
): Promise<Answer> => client.request(commands.setInfo, renameBody(handle, name, replaces));

export function setAttributes(
  client: SmbClient,
  handle: Handle,
  attributes: number,
): Promise<Answer> {
  const data = Buffer.alloc(40);
  data.writeUInt32LE(attributes, 32);
  return setInfo(client, handle, 4, data);
}

export function queryInfo(
  client: SmbClient,
  handle: Handle,
  {
    type = 1,
    infoClass,
    room = 65536,
    parts = 0,
  }: { type?: number; infoClass: number; room?: number; parts?: number },
): Promise<Answer> {
  const body = Buffer.alloc(41);
  body.writeUInt16LE(41, 0);
  body[2] = type;
  body[3] = infoClass;
  body.writeUInt32LE(room, 4);
  body.writeUInt32LE(parts, 16);
  handle.copy(body, 24);
  return client.request(commands.queryInfo, body, { payload: room });
}

/** The buffer of an answer to QUERY_INFO, QUERY_DIRECTORY or CHANGE_NOTIFY. */
export const bufferOf = ({ message, body }: Answer): Buffer =>
  message.subarray(body.readUInt16LE(2), body.readUInt16LE(2) + body.readUInt32LE(4));

/** All names of a directory that match. */
export async function list(client: SmbClient, path: string, pattern = "*"): Promise<string[]> {
  const handle = await open(client, path, { access: access.read, disposition: 1, options: 1 });
  const names: string[] = [];
  for (;;) {
    const bytes = utf16(pattern);
    const body = Buffer.alloc(32);
    body.writeUInt16LE(33, 0);
    body[2] = 0x25;
    handle.copy(body, 8);
    body.writeUInt16LE(64 + 32, 24);
    body.writeUInt16LE(bytes.length, 26);
    body.writeUInt32LE(65536, 28);
    const answer = await client.request(commands.queryDirectory, Buffer.concat([body, bytes]));
    if (answer.status !== 0) break;
    const buffer = bufferOf(answer);
    for (let at = 0; ; ) {
      const size = buffer.readUInt32LE(at + 60);
      names.push(buffer.toString("utf16le", at + 104, at + 104 + size));
      const next = buffer.readUInt32LE(at);
      if (next === 0) break;
      at += next;
    }
  }
  await close(client, handle);
  return names.filter((name) => name !== "." && name !== "..");
}

export function notify(
  client: SmbClient,
  handle: Handle,
  filter: number,
  isDeep: boolean,
): Promise<Begun> {
  const body = Buffer.alloc(32);
  body.writeUInt16LE(32, 0);
  body.writeUInt16LE(isDeep ? 1 : 0, 2);
  body.writeUInt32LE(4096, 4);
  handle.copy(body, 8);
  body.writeUInt32LE(filter, 24);
  return client.begin(commands.changeNotify, body);
}

/** What an answer to CHANGE_NOTIFY tells: action and path. */
export function changesOf(answer: Answer): [action: number, path: string][] {
  const buffer = bufferOf(answer);
  const changes: [number, string][] = [];
  for (let at = 0; ; ) {
    const size = buffer.readUInt32LE(at + 8);
    changes.push([
      buffer.readUInt32LE(at + 4),
      buffer.toString("utf16le", at + 12, at + 12 + size),
    ]);
    const next = buffer.readUInt32LE(at);
    if (next === 0) return changes;
    at += next;
  }
}

export function ioctlBody(
  handle: Handle,
  code: number,
  { input = Buffer.alloc(0), room = 65536 }: { input?: Buffer; room?: number } = {},
): Buffer {
  const body = Buffer.alloc(56);
  body.writeUInt16LE(57, 0);
  body.writeUInt32LE(code, 4);
  handle.copy(body, 8);
  body.writeUInt32LE(64 + 56, 24);
  body.writeUInt32LE(input.length, 28);
  body.writeUInt32LE(room, 44);
  body.writeUInt32LE(1, 48);
  return Buffer.concat([body, input]);
}

export const ioctl = (
  client: SmbClient,
  handle: Handle,
  code: number,
  { input, room, ...more }: { input?: Buffer; room?: number } & RequestOptions = {},
): Promise<Answer> =>
  client.request(
    commands.ioctl,
    ioctlBody(handle, code, {
      ...(input === undefined ? {} : { input }),
      ...(room === undefined ? {} : { room }),
    }),
    more,
  );

/** The output of an answer to IOCTL. */
export const outputOf = ({ message, body }: Answer): Buffer =>
  message.subarray(body.readUInt32LE(32), body.readUInt32LE(32) + body.readUInt32LE(36));

/** Answers the break of an oplock with what the client keeps. */
export function acknowledge(client: SmbClient, handle: Handle, level: number): Promise<Answer> {
  const body = Buffer.alloc(24);
  body.writeUInt16LE(24, 0);
  body[2] = level;
  handle.copy(body, 8);
  return client.request(commands.oplockBreak, body);
}
