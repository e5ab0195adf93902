import assert from "node:assert/strict";
import { ShareServiceClient, StorageSharedKeyCredential } from "@azure/storage-file-share";
import { type RawReply, type RawRequest, send } from "./raw.ts";
import { at, type StartOptions, startServer, type TestServer } from "./server.ts";

export type Fields = Record<string, string>;

/** The File service of a started server: by hand, and through the SDK. */
export type FileServer = {
  readonly server: TestServer;
  readonly service: ShareServiceClient;
  ask(request: RawRequest): Promise<RawReply>;
  /** A share with a name of its own. */
  share(headers?: Fields): Promise<string>;
  stop(): Promise<unknown>;
};

let count = 0;

/** A name that no other test of this process uses. */
export const freshName = (): string => `s-${process.pid}-${++count}`;

export async function startFiles(options: StartOptions = {}): Promise<FileServer> {
  const started = await startServer(options);
  const server = at(started, "file");
  const credential = new StorageSharedKeyCredential(server.account, server.key);
  const ask = (request: RawRequest) => send(server, request);
  return {
    server,
    service: new ShareServiceClient(server.url, credential),
    ask,
    async share(headers = {}) {
      const name = freshName();
      answered(await ask({ method: "PUT", path: `/${name}`, query: onShare(), headers }), 201);
      return name;
    },
    stop: () => started.stop(),
  };
}

export const onShare = (comp = "", more: Fields = {}): Fields => ({
  restype: "share",
  ...(comp === "" ? {} : { comp }),
  ...more,
});

export const onDirectory = (comp = "", more: Fields = {}): Fields => ({
  restype: "directory",
  ...(comp === "" ? {} : { comp }),
  ...more,
});

export const createFile = (path: string, size: number, headers: Fields = {}): RawRequest => ({
  method: "PUT",
  path,
  headers: { "x-ms-type": "file", "x-ms-content-length": String(size), ...headers },
});

export const createDirectory = (path: string, headers: Fields = {}): RawRequest => ({
  method: "PUT",
  path,
  query: onDirectory(),
  headers,
});

export const putRange = (
  path: string,
  start: number,
  body: string | Buffer,
  headers: Fields = {},
): RawRequest => ({
  method: "PUT",
  path,
  query: { comp: "range" },
  headers: {
    "x-ms-write": "update",
    "x-ms-range": `bytes=${start}-${start + body.length - 1}`,
    ...headers,
  },
  body,
});

export const clearRange = (path: string, start: number, end: number): RawRequest => ({
  method: "PUT",
  path,
  query: { comp: "range" },
  headers: { "x-ms-write": "clear", "x-ms-range": `bytes=${start}-${end}` },
});

export const lease = (action: string, path: string, headers: Fields = {}): RawRequest => ({
  method: "PUT",
  path,
  query: { comp: "lease" },
  headers: { "x-ms-lease-action": action, ...headers },
});

export const rename = (
  server: TestServer,
  { from, to, isDirectory = false }: { from: string; to: string; isDirectory?: boolean },
  headers: Fields = {},
): RawRequest => ({
  method: "PUT",
  path: to,
  query: isDirectory ? onDirectory("rename") : { comp: "rename" },
  headers: {
    "x-ms-file-rename-source": `${server.url}${from.split("/").map(encodeURIComponent).join("/")}`,
    ...headers,
  },
});

export function answered(reply: RawReply, status: number, code?: string): RawReply {
  assert.deepEqual([reply.status, reply.code], [status, code], reply.text);
  return reply;
}

/** The names of a list, files and directories in the order they came. */
export const namesIn = (text: string): string[] =>
  [...text.matchAll(/<Name>([^<]*)</g)].map(([, name = ""]) => name);

/** Ranges of a list, as [start, end]; cleared ones by their own name. */
export const rangesIn = (text: string, name = "Range"): number[][] =>
  [...text.matchAll(new RegExp(`<${name}><Start>(\\d+)</Start><End>(\\d+)</End>`, "g"))].map(
    ([, start, end]) => [Number(start), Number(end)],
  );
