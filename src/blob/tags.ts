import { childText, element, XML_DECLARATION, type XmlElement } from "../base/xml.ts";
import { readOperation, writeOperation } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { checkedTags, type Tags } from "../rules/tags.ts";
import { putTaggedRecord, theBlob } from "./resource.ts";

const XML_SIZE_MAX = 64 * 1024;

export const getBlobTags = readOperation({
  name: "Get Blob Tags",
  match: { method: "GET", on: "blob", comp: "tags" },
  allow: { sas: "t", resource: "o" },
  snapshots: true,
  versions: true,
  guard: { on: theBlob, conditions: "read", prefix: "x-ms-blob-", lease: "free" },
  async apply({ found }) {
    const headers = { "Content-Type": "application/xml" };
    return { status: 200, headers, body: `${XML_DECLARATION}${tagsXml(found.tags ?? {})}` };
  },
});

/** Changes neither ETag nor time of change ("Set Blob Tags", remarks). */
export const setBlobTags = writeOperation({
  name: "Set Blob Tags",
  match: { method: "PUT", on: "blob", comp: "tags" },
  allow: { sas: "t", resource: "o" },
  versions: true,
  body: { kind: "xml", sizeMax: XML_SIZE_MAX },
  guard: { on: theBlob, conditions: "write", prefix: "x-ms-blob-", lease: "guarded" },
  input: (_request, { xml }) => tagsOf(xml),
  async apply({ tx, place, found, input: tags }) {
    const { tags: _before, ...rest } = found;
    const given = Object.keys(tags).length === 0 ? {} : { tags };
    putTaggedRecord(tx, place, found, { ...rest, ...given });
    return { status: 204, headers: {} };
  },
});

function tagsOf(xml: XmlElement | undefined): Tags {
  const [set, ...others] = xml?.children ?? [];
  if (xml?.name !== "Tags" || set?.name !== "TagSet" || others.length > 0) {
    throw new StorageError("InvalidXmlDocument");
  }
  return checkedTags(
    set.children.map((tag) => {
      const key = childText(tag, "Key");
      const value = childText(tag, "Value");
      if (tag.name !== "Tag" || key === undefined || value === undefined) {
        throw new StorageError("InvalidXmlDocument");
      }
      return [key, value];
    }),
  );
}

export function tagsXml(tags: Tags): string {
  const all = Object.entries(tags).map(
    ([key, value]) => `<Tag>${element("Key", key)}${element("Value", value)}</Tag>`,
  );
  return `<Tags><TagSet>${all.join("")}</TagSet></Tags>`;
}
