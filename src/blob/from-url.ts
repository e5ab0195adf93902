import { tagCondition } from "../http/conditions.ts";
import { createOperation, type Request } from "../http/operation.ts";
import { sourceUrlOf } from "../http/source.ts";
import { invalidHeader } from "../rules/errors.ts";
import { noMetadata } from "../rules/metadata.ts";
import { bodySizeMax } from "../rules/versions.ts";
import { FROM_URL_HEADERS, fetchSource } from "../service/from-url.ts";
import { uncommitted } from "../store/keys.ts";
import type { Piece } from "../store/records.ts";
import { dropBlocks } from "../store/sweep.ts";
import { httpHeadersOf, stateHeaders } from "./blob-headers.ts";
import { blockInput, keptBlock, newBlobOf, overwrite, refuseArchived } from "./block-blob.ts";
import { copiesTags, facts, refuseTagCondition, sourceTags } from "./copy-source.ts";
import { encryptedHeaders, keyNoted } from "./customer-key.ts";
import { theBlob } from "./resource.ts";

const BLOCK_SIZE_MAX = 4000 * 1024 * 1024;

function propertiesWanted(request: Request): boolean {
  const name = "x-ms-copy-source-blob-properties";
  const text = request.header(name)?.toLowerCase();
  if (text !== undefined && text !== "true" && text !== "false") throw invalidHeader(name, text);
  return text !== "false";
}

/** A whole block blob of what a URL gives; the source's properties come along unless they are declined. */
export const putBlobFromUrl = createOperation({
  name: "Put Blob From URL",
  match: {
    method: "PUT",
    on: "blob",
    header: { name: "x-ms-blob-type", value: "BlockBlob" },
    also: { name: "x-ms-copy-source" },
  },
  allow: { sas: "cw", resource: "o", overwrite: "w" },
  heeds: [...FROM_URL_HEADERS, "x-ms-source-if-tags"],
  givesEtag: true,
  guard: { on: theBlob, conditions: "create", lease: "guarded" },
  input(request) {
    copiesTags(request);
    return {
      ...newBlobOf(request),
      given: httpHeadersOf(request, false),
      withProperties: propertiesWanted(request),
      ifTags: tagCondition(request.header, "x-ms-source-if-tags"),
    };
  },
  async prepare(request, input, around) {
    const own = around.sources.local(sourceUrlOf(request), request);
    if (own?.service !== "blob") refuseTagCondition(input);
    const sizeMax = bodySizeMax(request.version).blob;
    const copiedTags = await sourceTags(request, around);
    const received = await fetchSource(request, around, { sizeMax, withRange: false });
    return copiedTags === undefined ? received : { ...received, copiedTags };
  },
  async apply(call) {
    const { tx, place, found, input, received, around } = call;
    const { contents } = around;
    const { given, withProperties, ifTags: _ifTags, ...blob } = input;
    refuseArchived(found, tx.now, blob.tier);
    if ((await uncommitted.get(tx, place.container, place.name)) !== undefined) {
      await dropBlocks(tx, contents, place.container, place.name);
    }
    const pieces = contents.keep(tx, received.staged).map((chunk): Piece => ({ chunk }));
    const source = received.source === undefined ? undefined : facts(received.source);
    const record = await overwrite(call, found, {
      ...blob,
      type: "BlockBlob",
      tags: blob.tags ?? received.copiedTags,
      metadata: blob.metadata === noMetadata ? (source?.metadata ?? noMetadata) : blob.metadata,
      headers: {
        contentType: "application/octet-stream",
        ...(withProperties ? source?.headers : {}),
        ...(received.md5 === undefined ? {} : { contentMd5: received.md5 }),
        ...given,
      },
      ...keyNoted(call.request),
      size: received.staged.size,
      content: contents.made(tx, pieces),
    });
    const headers = {
      ...stateHeaders(record),
      "Content-MD5": received.md5,
      "x-ms-content-crc64": received.crc64,
      ...encryptedHeaders(record),
    };
    return { status: 201, headers };
  },
});

export const putBlockFromUrl = createOperation({
  name: "Put Block From URL",
  match: { method: "PUT", on: "blob", comp: "block", header: { name: "x-ms-copy-source" } },
  allow: { sas: "w", resource: "o" },
  heeds: [...FROM_URL_HEADERS, "x-ms-source-range"],
  guard: { on: theBlob, conditions: "none", lease: "guarded" },
  input: blockInput,
  prepare: (request, _input, around) =>
    fetchSource(request, around, { sizeMin: 1, sizeMax: BLOCK_SIZE_MAX, withRange: true }),
  apply: keptBlock,
});
