import { hash } from "node:crypto";
import { crc64 } from "../base/crc64.ts";
import type { Reply } from "../http/operation.ts";
import type { Opened } from "../store/content.ts";

/** The sums a client may ask for with a range. */
export type Sum = "md5" | "crc64";

/** A reply whose body, of few MiB at most, is fetched now, because a header must tell its sum. */
export async function withSum(reply: Reply, sum: Sum): Promise<Reply> {
  const opened = reply.body as Opened;
  const parts: Uint8Array[] = [...(opened.bytes ?? [])];
  try {
    if (opened.bytes === undefined) for await (const part of opened.stream()) parts.push(part);
  } finally {
    opened.close();
  }
  const bytes = Buffer.concat(parts);
  const told =
    sum === "md5"
      ? { "Content-MD5": hash("md5", bytes, "base64") }
      : { "x-ms-content-crc64": crc64(bytes) };
  const body: Opened = { ...opened, bytes: [bytes], close: () => {} };
  return { ...reply, headers: { ...reply.headers, ...told }, body };
}
