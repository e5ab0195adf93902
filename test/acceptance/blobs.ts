import assert from "node:assert/strict";
import { BlobServiceClient, type ContainerClient } from "@azure/storage-blob";
import { type RawReply, send } from "./raw.ts";
import type { TestServer } from "./server.ts";

type Headers = Readonly<Record<string, string>>;

/** A request to one blob; `query` and `headers` as in RawRequest. */
export type BlobCall = {
  readonly query?: Headers;
  readonly headers?: Headers;
  readonly body?: Buffer | string;
};

/** The SDK's client of one container; it does not repeat what fails. */
export const containerClient = (server: TestServer, container: string): ContainerClient =>
  BlobServiceClient.fromConnectionString(server.connectionString, {
    retryOptions: { maxTries: 1 },
  }).getContainerClient(container);

export async function createContainer(server: TestServer, container: string): Promise<void> {
  const query = { restype: "container" };
  assertReply(await send(server, { method: "PUT", path: `/${container}`, query }), 201);
}

/** Put Blob of a block blob; the reply is for the caller to judge. */
export const tryPutBlob = (
  server: TestServer,
  path: string,
  body: Buffer | string,
  headers: Headers = {},
): Promise<RawReply> =>
  send(server, {
    method: "PUT",
    path,
    headers: { "x-ms-blob-type": "BlockBlob", ...headers },
    body,
  });

/** Put Blob that must succeed. */
export async function putBlob(
  server: TestServer,
  path: string,
  body: Buffer | string,
  headers: Headers = {},
): Promise<RawReply> {
  return assertReply(await tryPutBlob(server, path, body, headers), 201);
}

export const getBlob = (server: TestServer, path: string, call: BlobCall = {}): Promise<RawReply> =>
  send(server, { method: "GET", path, ...call });

export const headBlob = (
  server: TestServer,
  path: string,
  call: BlobCall = {},
): Promise<RawReply> => send(server, { method: "HEAD", path, ...call });

export const deleteBlob = (
  server: TestServer,
  path: string,
  call: BlobCall = {},
): Promise<RawReply> => send(server, { method: "DELETE", path, ...call });

/** PUT with a `comp`: Set Blob Metadata, Lease Blob, Snapshot Blob and their like. */
export const putComp = (
  server: TestServer,
  path: string,
  comp: string,
  call: BlobCall = {},
): Promise<RawReply> =>
  send(server, { method: "PUT", path, ...call, query: { comp, ...call.query } });

/** Takes a snapshot and gives its time. */
export async function takeSnapshot(
  server: TestServer,
  path: string,
  headers: Headers = {},
): Promise<string> {
  const reply = assertReply(await putComp(server, path, "snapshot", { headers }), 201);
  return String(reply.headers["x-ms-snapshot"]);
}

/** A block id of fixed length for a number or a short name. */
export const blockId = (name: number | string): string =>
  Buffer.from(String(name).padStart(8, "0")).toString("base64");

export const tryPutBlock = (
  server: TestServer,
  path: string,
  id: string,
  call: BlobCall,
): Promise<RawReply> => putComp(server, path, "block", { ...call, query: { blockid: id } });

/** Put Block that must succeed; `name` is made a block id. */
export async function putBlock(
  server: TestServer,
  path: string,
  name: number | string,
  body: Buffer | string,
): Promise<RawReply> {
  return assertReply(await tryPutBlock(server, path, blockId(name), { body }), 201);
}

/** One entry of a block list: where to look, and the block's name. */
export type Entry = readonly [kind: "Latest" | "Committed" | "Uncommitted", name: number | string];

export const blockListXml = (entries: readonly Entry[]): string =>
  `<?xml version="1.0" encoding="utf-8"?><BlockList>${entries
    .map(([kind, name]) => `<${kind}>${blockId(name)}</${kind}>`)
    .join("")}</BlockList>`;

export const tryPutBlockList = (
  server: TestServer,
  path: string,
  entries: readonly Entry[],
  headers: Headers = {},
): Promise<RawReply> =>
  putComp(server, path, "blocklist", { headers, body: blockListXml(entries) });

/** Puts blocks and commits them in the order given. */
export async function putBlocks(
  server: TestServer,
  path: string,
  blocks: readonly (readonly [name: number | string, body: Buffer | string])[],
): Promise<RawReply> {
  for (const [name, body] of blocks) await putBlock(server, path, name, body);
  const entries = blocks.map(([name]) => ["Latest", name] as const);
  return assertReply(await tryPutBlockList(server, path, entries), 201);
}

/** Fails unless the reply has this status, and this error code if one is given. */
export function assertReply(
  reply: RawReply,
  status: number,
  code: string | undefined = status < 300 ? undefined : reply.code,
  what?: string,
): RawReply {
  const where = what === undefined ? "" : `${what}: `;
  assert.deepEqual(
    { status: reply.status, code: reply.code },
    { status, code },
    `${where}wanted ${status} ${code ?? ""}, got ${reply.status} ${reply.code ?? ""} ${reply.text.slice(0, 300)}`,
  );
  return reply;
}

/** Bytes that look random but are always the same, so that a misplaced piece is seen. */
export function bytes(size: number, seed = 1): Buffer {
  const data = Buffer.alloc(size);
  let state = seed;
  for (let index = 0; index < size; index++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    data[index] = state >>> 24;
  }
  return data;
}

/** The text of every element of this name, in document order, unescaped. */
export const texts = (xml: string, name: string): string[] =>
  [...xml.matchAll(new RegExp(`<${name}(?: [^>]*[^/>])?>([^<]*)</${name}>|<${name} ?/>`, "g"))].map(
    (match) => unescaped(match[1] ?? ""),
  );

const ENTITIES: Headers = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

const unescaped = (text: string) =>
  text.replace(/&(?:#x([0-9a-fA-F]+)|#(\d+)|(\w+));/g, (_, hex, decimal, name) => {
    if (name !== undefined) return ENTITIES[name] ?? "";
    return String.fromCodePoint(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16));
  });

/** Runs the tasks, at most `limit` at once, and gives their results in order. */
export async function atOnce<T>(limit: number, tasks: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const worker = async () => {
    for (let index = next++; index < tasks.length; index = next++) {
      const task = tasks[index];
      if (task !== undefined) results[index] = await task();
    }
  };
  await Promise.all(Array.from({ length: limit }, worker));
  return results;
}

const crcTable = Array.from({ length: 256 }, (_, index) => {
  let crc = BigInt(index);
  for (let bit = 0; bit < 8; bit++) crc = crc & 1n ? (crc >> 1n) ^ 0x9a6c9329ac4bc9b5n : crc >> 1n;
  return crc;
});
const LOW = Int32Array.from(crcTable, (crc) => Number(BigInt.asIntN(32, crc)));
const HIGH = Int32Array.from(crcTable, (crc) => Number(BigInt.asIntN(32, crc >> 32n)));

/** CRC-64/NVME as x-ms-content-crc64 carries it: Base64 of eight bytes, lowest first. */
export function crc64(data: Buffer): string {
  let low = -1;
  let high = -1;
  for (const byte of data) {
    const index = (low ^ byte) & 0xff;
    low = ((low >>> 8) | (high << 24)) ^ (LOW[index] ?? 0);
    high = (high >>> 8) ^ (HIGH[index] ?? 0);
  }
  const sum = Buffer.alloc(8);
  sum.writeInt32LE(~low, 0);
  sum.writeInt32LE(~high, 4);
  return sum.toString("base64");
}
