import { hash } from "node:crypto";
import type { Reply } from "../http/operation.ts";
import type { Opened } from "../store/content.ts";

/** A reply whose body, of few MiB at most, is fetched now, because a header must tell its MD5. */
export async function withMd5(reply: Reply): Promise<Reply> {
  const opened = reply.body as Opened;
  const parts: Uint8Array[] = [...(opened.bytes ?? [])];
  try {
    if (opened.bytes === undefined) for await (const part of opened.stream()) parts.push(part);
  } finally {
    opened.close();
  }
  const bytes = Buffer.concat(parts);
  const headers = { ...reply.headers, "Content-MD5": hash("md5", bytes, "base64") };
  return { ...reply, headers, body: { ...opened, bytes: [bytes], close: () => {} } };
}
