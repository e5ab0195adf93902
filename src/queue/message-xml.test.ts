import assert from "node:assert/strict";
import { test } from "node:test";
import { child, parseXml } from "../base/xml.ts";
import { StorageError } from "../rules/errors.ts";
import { gottenXml, messagesXml, messageTextOf } from "./message-xml.ts";

const documentOf = (inner: string) =>
  Buffer.from(`<QueueMessage><MessageText>${inner}</MessageText></QueueMessage>`);
const textOf = (inner: string) => messageTextOf(documentOf(inner)).toString("utf8");

const texts: [what: string, written: string, want: string][] = [
  ["plain text", "hello", "hello"],
  ["Base64", "aGVsbG8=", "aGVsbG8="],
  ["nothing", "", ""],
  ["white space around", " \n\ta \n", " \n\ta \n"],
  ["entities", "&lt;a b=&quot;c&quot;&gt; &amp;amp;", '<a b="c"> &amp;'],
  ["CDATA", "<![CDATA[<a>]]>", "<a>"],
  ["carriage returns by number", "a&#xD;&#xA;b", "a\r\nb"],
  ["ends of lines, as XML has them", "a\r\nb\rc\nd", "a\nb\nc\nd"],
  ["ends of lines beside markup", "a\r\nb<i/>\rc\nd", "a\nb\nc\nd"],
  ["characters by number", "&#65;&#x42;&#x1F600;&#128512;&#9;", "AB😀😀\t"],
  ["a name that is no entity once it is read", "&amp;lt;", "&lt;"],
  ["comments", "a<!-- b -->c", "ac"],
  ["markup that is not escaped", "a<b>c<i/>d</b>e", "acde"],
];
for (const [what, written, want] of texts) {
  test(`messageTextOf(): ${what}`, () => assert.equal(textOf(written), want));
}

const bad: [what: string, document: string | Buffer, code: string][] = [
  ["another document", "<a/>", "InvalidXmlDocument"],
  ["no document", "", "InvalidXmlDocument"],
  ["half a document", "<QueueMessage><MessageText>a</MessageText>", "InvalidXmlDocument"],
  ["more than a document", `${documentOf("a")}<a/>`, "InvalidXmlDocument"],
  ["no text", "<QueueMessage/>", "MissingRequiredXmlNode"],
  ["an entity that is none", documentOf("&nbsp;"), "InvalidXmlDocument"],
  ["a lone ampersand", documentOf("a & b"), "InvalidXmlDocument"],
  ["the end of no CDATA", documentOf("a]]>b"), "InvalidXmlDocument"],
  ["a control character", documentOf("a\u0001"), "InvalidXmlDocument"],
  ["a control character by number", documentOf("&#1;"), "InvalidXmlDocument"],
  ["half a pair by number", documentOf("&#xD83D;"), "InvalidXmlDocument"],
  ["a number that no character has", documentOf("&#x110000;"), "InvalidXmlDocument"],
  [
    "bytes that are no UTF-8",
    Buffer.concat([documentOf("a"), Buffer.of(0xff)]),
    "InvalidXmlDocument",
  ],
  ["a document type", `<!DOCTYPE a>${documentOf("a")}`, "InvalidXmlDocument"],
  ["64 KiB and a byte", documentOf("x".repeat(65_537)), "MessageTooLarge"],
  ["too long in UTF-8", documentOf("ö".repeat(32_769)), "MessageTooLarge"],
  [
    "a control character by XML 1.1",
    `<?xml version="1.1"?>${documentOf("&#1;<i/>")}`,
    "InvalidXmlDocument",
  ],
];
for (const [what, document, code] of bad) {
  test(`messageTextOf(): ${what} is ${code}`, () =>
    assert.throws(
      () => messageTextOf(Buffer.from(document)),
      (error) => error instanceof StorageError && error.code === code,
    ));
}

test("messageTextOf(): takes 64 KiB, however they are written", () => {
  assert.equal(textOf("&quot;".repeat(65_536)).length, 65_536);
  assert.equal(textOf("ö".repeat(32_768)).length, 32_768);
});

test("messageTextOf(): what stands around the text does not matter", () => {
  for (const document of [
    `\ufeff<?xml version="1.0" encoding="utf-8"?>\r\n${documentOf("a")}\n`,
    '<?xml version="1.0" encoding="utf-8" standalone="yes"?><QueueMessage>\n  <MessageText>a</MessageText>\n</QueueMessage>',
    '<QueueMessage xmlns="urn:a"><!-- b --><MessageText c="d">a</MessageText></QueueMessage>',
    "<QueueMessage><Other>b</Other><MessageText>a</MessageText></QueueMessage>",
  ]) {
    assert.equal(messageTextOf(Buffer.from(document)).toString("utf8"), "a", document);
  }
});

/** Every character that XML can hold, but for those above the first plane, of which some stand for all. */
const everything = () => {
  let all = "\t\n\r";
  for (let code = 0x20; code < 0xd800; code++) all += String.fromCharCode(code);
  for (let code = 0xe000; code < 0xfffe; code++) all += String.fromCharCode(code);
  return `${all}\u{10000}\u{1f600}\u{10ffff}]]> &amp; <![CDATA[ \r\n \r`;
};

test("gottenXml(): a reader gets the very text, whichever characters it has", () => {
  const text = everything();
  const record = {
    id: "01234567-89ab-4def-a123-456789abcdef",
    number: 638_000_000_000_000_001n,
    expiresAt: 2_000_000_000_000,
    dequeueCount: 1,
    text: { bytes: Buffer.alloc(0) },
  };
  const xml = gottenXml({ place: { visibleAt: 1_900_000_000_000, tick: 5n }, record }, text);
  const [message] = parseXml(Buffer.from(messagesXml([xml]))).children;
  assert.equal(child(message, "MessageText")?.text, text);
  assert.equal(child(message, "DequeueCount")?.text, "1");
});
