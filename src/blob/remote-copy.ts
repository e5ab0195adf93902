import type { Received, Reply } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { PAGE_SIZE, sequenceNumber } from "../rules/pages.ts";
import { copies } from "../store/keys.ts";
import type { BlobRecord, Piece } from "../store/records.ts";
import {
  type CopyCall,
  copyReply,
  copyState,
  finished,
  isSealed,
  sumHeaders,
  writtenCopy,
} from "./copied-blob.ts";
import { facts } from "./copy-source.ts";

/** Begins a copy from elsewhere: the blob is there, empty, until the copier has filled it. */
export async function begunCopy(
  call: CopyCall,
  source: NonNullable<Received["source"]>,
): Promise<Reply> {
  const { tx, request, place, found, input, received, around } = call;
  const sent = source.header("x-ms-blob-type");
  const type = (["PageBlob", "AppendBlob"] as const).find((name) => name === sent) ?? "BlockBlob";
  if (found !== undefined && found.type !== type) throw new StorageError("InvalidBlobType");
  const copy = copyState(call, Number(source.header("content-length")));
  const record = await writtenCopy(call, {
    ...facts(source),
    type,
    size: 0,
    content: { pieces: [] },
    ...(type === "PageBlob" ? emptyPages(call, source, copy.total) : {}),
    ...(type === "AppendBlob" ? emptyAppends(call, source) : {}),
    ...(received.copiedTags === undefined ? {} : { tags: received.copiedTags }),
    copy,
  });
  const etag = source.header("etag");
  copies.put(tx, [place.container, place.name], {
    id: copy.id,
    url: input.url.href,
    endpoint: request.endpoint,
    account: request.account,
    containerName: place.containerName,
    ...(etag === undefined ? {} : { etag }),
    startedAt: tx.now,
  });
  tx.afterCommit(() => around.copies.wake());
  return copyReply(record);
}

/** A page blob has its whole length from the begin, as zeros. */
function emptyPages(
  { tx, around }: CopyCall,
  { header }: NonNullable<Received["source"]>,
  size: number,
): Pick<BlobRecord, "size" | "content" | "sequenceNumber"> {
  if (size % PAGE_SIZE !== 0) {
    const Reason = "The source is not made of whole pages.";
    throw new StorageError("CannotVerifyCopySource", { Reason }, 409);
  }
  const NUMBER = "x-ms-blob-sequence-number";
  const number = sequenceNumber(NUMBER, header(NUMBER) ?? "0").toString();
  return { size, content: around.contents.sparse.create(tx), sequenceNumber: number };
}

/** An append blob knows of how many blocks it was made. */
function emptyAppends(
  { tx, input, around }: CopyCall,
  { header }: NonNullable<Received["source"]>,
): Pick<BlobRecord, "content" | "blockCount" | "sealed"> {
  const wasSealed = header("x-ms-blob-sealed") === "true";
  const count = Number(header("x-ms-blob-committed-block-count") ?? 1);
  const blockCount = Number.isSafeInteger(count) && count > 0 ? count : 1;
  return {
    content: around.contents.sparse.create(tx),
    blockCount,
    ...(isSealed("AppendBlob", wasSealed, input) ? { sealed: true as const } : {}),
  };
}

/** A copy whose bytes have been fetched from elsewhere: it is done. */
export async function fetchedCopy(call: CopyCall): Promise<Reply> {
  const { tx, found, received, around } = call;
  if (found !== undefined && found.type !== "BlockBlob") throw new StorageError("InvalidBlobType");
  const source = received.source as NonNullable<Received["source"]>;
  if ((source.header("x-ms-blob-type") ?? "BlockBlob") !== "BlockBlob") {
    throw new StorageError("InvalidSourceBlobType");
  }
  const size = received.staged.size;
  const record = await writtenCopy(call, {
    ...facts(source),
    ...(received.copiedTags === undefined ? {} : { tags: received.copiedTags }),
    type: "BlockBlob",
    size,
    content: around.contents.made(
      tx,
      around.contents.keep(tx, received.staged).map((chunk): Piece => ({ chunk })),
    ),
    copy: finished(copyState(call, size), tx.now),
  });
  return copyReply(record, sumHeaders(received));
}
