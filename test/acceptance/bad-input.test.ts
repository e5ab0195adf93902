import { createHash } from "node:crypto";
import { after, before, suite } from "node:test";
import type { RawRequest } from "./raw.ts";
import {
  at,
  HEADER,
  MIB,
  put,
  putBlob,
  type Row,
  refuses,
  startTarget,
  type Target,
  testUntouched,
} from "./refused.ts";

// Every request here is refused with the code of Azure's error tables, and leaves nothing behind.

let target: Target;

before(async () => {
  target = await startTarget();
});

after(() => target.server.stop());

const refused = (rows: readonly Row[]) => refuses(() => target, rows);

suite("Names", () => {
  const container = (name: string): RawRequest => put(`/${name}`, { restype: "container" });
  refused([
    [
      "a container of 2 characters",
      container("ab"),
      "400 OutOfRangeInput or 400 InvalidResourceName",
    ],
    [
      "a container of 64 characters",
      container("n".repeat(64)),
      "400 OutOfRangeInput or 400 InvalidResourceName",
    ],
    ["a container in upper case", container("ABC"), "400 InvalidResourceName"],
    ["a container with two dashes", container("a--b"), "400 InvalidResourceName"],
    ["a container that begins with a dash", container("-ab"), "400 InvalidResourceName"],
    ["a container that ends with a dash", container("ab-"), "400 InvalidResourceName"],
    ["a container with an underscore", container("a_b"), "400 InvalidResourceName"],
    ["a container beyond ASCII", container("a\u00e4b"), "400 InvalidResourceName"],
    ["a blob in a container with a bad name", putBlob({}, "/A_B/new"), "400 InvalidResourceName"],
    [
      "a blob of 1025 characters",
      putBlob({}, `/bad/${"n".repeat(1_025)}`),
      "400 OutOfRangeInput or 400 InvalidResourceName or 400 InvalidUri",
    ],
    [
      "a blob of 255 segments",
      putBlob({}, `/bad/${"n/".repeat(254)}n`),
      "400 OutOfRangeInput or 400 InvalidResourceName or 400 InvalidUri",
    ],
    [
      "a blob with a control character",
      putBlob({}, "/bad/a\u0001b"),
      "400 InvalidResourceName or 400 InvalidUri",
    ],
    ["a blob with NUL", putBlob({}, "/bad/a\u0000b"), "400 InvalidResourceName or 400 InvalidUri"],
  ]);
});

const BAD_ID = "400 InvalidQueryParameterValue or 400 InvalidBlockId";
const BAD_NODE = "400 InvalidXmlDocument or 400 UnsupportedXmlNode or 400 InvalidXmlNodeValue";
const id = (bytes: number) => Buffer.alloc(bytes, "i").toString("base64");

suite("Blocks", () => {
  const block = (blockid: string): RawRequest =>
    put("/bad/new", { comp: "block", blockid }, {}, "text");
  const list = (body: string): RawRequest => put("/bad/new", { comp: "blocklist" }, {}, body);
  const entities = '<!DOCTYPE l [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>';
  refused([
    ["a block id that is not Base64", block("!!!"), BAD_ID],
    ["a block id without its padding", block("YWE"), BAD_ID],
    [
      "a block id of 65 bytes",
      block(id(65)),
      `${BAD_ID} or 400 OutOfRangeQueryParameterValue or 400 OutOfRangeInput`,
    ],
    ["an empty block id", block(""), `${BAD_ID} or 400 MissingRequiredQueryParameter`],
    [
      "no block id",
      put("/bad/new", { comp: "block" }, {}, "text"),
      `${BAD_ID} or 400 MissingRequiredQueryParameter`,
    ],
    ["a block list that ends early", list("<BlockList><Latest>"), "400 InvalidXmlDocument"],
    ["a block list of JSON", list('{"Latest":["YQ=="]}'), "400 InvalidXmlDocument"],
    ["an empty block list body", list(""), "400 InvalidXmlDocument"],
    ["another root", list("<Blocks><Latest>YQ==</Latest></Blocks>"), BAD_NODE],
    ["an unknown element", list("<BlockList><Recent>YQ==</Recent></BlockList>"), BAD_NODE],
    [
      "entities in a block list",
      list(`${entities}<BlockList><Latest>&b;</Latest></BlockList>`),
      "400 InvalidXmlDocument",
    ],
    [
      "a block list 200 deep",
      list(`<BlockList>${"<Latest>".repeat(200)}${"</Latest>".repeat(200)}</BlockList>`),
      BAD_NODE,
    ],
    [
      "a block list with a block that is not there",
      list(`<BlockList><Latest>${id(8)}</Latest></BlockList>`),
      "400 InvalidBlockList",
    ],
    [
      "a block list with an id that is not Base64",
      list("<BlockList><Latest>!!!</Latest></BlockList>"),
      "400 InvalidBlockList or 400 InvalidBlockId or 400 InvalidXmlNodeValue",
    ],
    [
      "an unknown block list type",
      at("/bad/b", { comp: "blocklist", blocklisttype: "some" }),
      "400 InvalidQueryParameterValue",
    ],
  ]);
});

suite("Ranges", () => {
  const md5 = { "x-ms-range-get-content-md5": "true" };
  const crc64 = { "x-ms-range-get-content-crc64": "true" };
  const range = (last: number) => ({ "x-ms-range": `bytes=0-${last}` });
  refused([
    [
      "MD5 of a range without a range",
      at("/bad/big", {}, md5),
      `${HEADER} or 400 MissingRequiredHeader`,
    ],
    [
      "MD5 of a range over 4 MiB",
      at("/bad/big", {}, { ...md5, ...range(4 * MIB) }),
      `${HEADER} or 400 OutOfRangeInput`,
    ],
    ["CRC64 without a range", at("/bad/big", {}, crc64), `${HEADER} or 400 MissingRequiredHeader`],
    [
      "CRC64 of a range over 4 MiB",
      at("/bad/big", {}, { ...crc64, ...range(4 * MIB) }),
      `${HEADER} or 400 OutOfRangeInput`,
    ],
    ["MD5 and CRC64 of a range", at("/bad/big", {}, { ...md5, ...crc64, ...range(9) }), "400"],
    ["a range past the end", at("/bad/b", {}, { "x-ms-range": "bytes=5-9" }), "416 InvalidRange"],
  ]);
});

const DAY = "Thu, 01 Jan 2026 00:00:00 GMT";
const MULTIPLE = "400 MultipleConditionHeadersNotSupported";
const TAG = '"0x8D0000000000000"';

suite("Conditions", () => {
  const rows: Row[] = ["if-modified-since", "if-unmodified-since"].flatMap((name): Row[] => [
    [`${name} that is no date on Get Blob`, at("/bad/b", {}, { [name]: "yesterday" }), HEADER],
    [`${name} that is no date on Put Blob`, putBlob({ [name]: "yesterday" }), HEADER],
    [`${name} with two dates`, at("/bad/b", {}, { [name]: `${DAY}, ${DAY}` }), HEADER],
  ]);
  refused([
    ...rows,
    ["If-Match beside If-None-Match", putBlob({ "if-match": TAG, "if-none-match": TAG }), MULTIPLE],
    [
      "If-Modified-Since beside If-Unmodified-Since",
      putBlob({ "if-modified-since": DAY, "if-unmodified-since": DAY }),
      MULTIPLE,
    ],
    [
      "If-Match beside If-Modified-Since",
      putBlob({ "if-match": TAG, "if-modified-since": DAY }),
      MULTIPLE,
    ],
    ["two ETags on a write", putBlob({ "if-match": `${TAG}, "0x1"` }), `${HEADER} or ${MULTIPLE}`],
    [
      "If-None-Match: * on Get Blob",
      at("/bad/b", {}, { "if-none-match": "*" }),
      "400 UnsatisfiableCondition",
    ],
    [
      "If-None-Match: * on Get Blob Properties",
      { ...at("/bad/b", {}, { "if-none-match": "*" }), method: "HEAD" },
      "400 UnsatisfiableCondition",
    ],
  ]);
});

suite("Put Blob", () => {
  const md5 = createHash("md5").update("text").digest("base64");
  const crc64 = Buffer.alloc(8).toString("base64");
  const keptMd5 = { "x-ms-blob-content-md5": id(15) };
  const PAGES = { "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": "512" };
  refused([
    ["no blob type", put("/bad/new", {}, {}, "text"), "400 MissingRequiredHeader"],
    ["an unknown blob type", putBlob({ "x-ms-blob-type": "Blob" }), HEADER],
    ["a size on a block blob", putBlob({ "x-ms-blob-content-length": "512" }), "400"],
    ["an MD5 that is not Base64", putBlob({ "content-md5": "!!!" }), "400 InvalidMd5"],
    ["an MD5 of 15 bytes", putBlob({ "content-md5": id(15) }), "400 InvalidMd5"],
    ["the MD5 of something else", putBlob({ "content-md5": id(16) }), "400 Md5Mismatch"],
    ["a CRC64 of 7 bytes", putBlob({ "x-ms-content-crc64": id(7) }), HEADER],
    ["the CRC64 of something else", putBlob({ "x-ms-content-crc64": crc64 }), "400 Crc64Mismatch"],
    [
      "MD5 and CRC64",
      putBlob({ "content-md5": md5, "x-ms-content-crc64": crc64 }),
      "400 BothCrc64AndMd5HeaderPresent",
    ],
    [
      "the MD5 of something else on a block",
      put("/bad/new", { comp: "block", blockid: id(4) }, { "content-md5": id(16) }, "text"),
      "400 Md5Mismatch",
    ],
    [
      "an MD5 to be kept that is none, on a page blob",
      put("/bad/new", {}, { ...PAGES, ...keptMd5 }),
      "400 InvalidMd5",
    ],
    [
      "an MD5 to be kept that is none, on an append blob",
      put("/bad/new", {}, { "x-ms-blob-type": "AppendBlob", ...keptMd5 }),
      "400 InvalidMd5",
    ],
    [
      "an MD5 to be kept that is none, on a block list",
      put("/bad/new", { comp: "blocklist" }, keptMd5, "<BlockList/>"),
      "400 InvalidMd5",
    ],
    [
      "an MD5 to be kept that is none, as a property",
      put("/bad/b", { comp: "properties" }, keptMd5),
      "400 InvalidMd5",
    ],
    ["a metadata name with a dash", putBlob({ "x-ms-meta-a-b": "1" }), "400 InvalidMetadata"],
    ["a metadata name with a digit first", putBlob({ "x-ms-meta-1a": "1" }), "400 InvalidMetadata"],
    [
      "an empty metadata name",
      putBlob({ "x-ms-meta-": "1" }),
      "400 EmptyMetadataKey or 400 InvalidMetadata",
    ],
    ["metadata over 8 KiB", putBlob({ "x-ms-meta-a": "v".repeat(8_200) }), "400 MetadataTooLarge"],
    [
      "an unknown tier",
      putBlob({ "x-ms-access-tier": "Warm" }),
      `${HEADER} or 400 InvalidBlobTier`,
    ],
  ]);
});

testUntouched(() => target);
