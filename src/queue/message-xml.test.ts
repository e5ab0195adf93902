import assert from "node:assert/strict";
import { test } from "node:test";
import { child, parseXml } from "../base/xml.ts";
import { StorageError } from "../rules/errors.ts";
import { gottenXml, messagesXml, messageTextOf } from "./message-xml.ts";

const textOf = (inner: string) =>
  messageTextOf(
    parseXml(Buffer.from(`<QueueMessage><MessageText>${inner}</MessageText></QueueMessage>`)),
  ).toString("utf8");

const texts: [what: string, written: string, want: string][] = [
  ["plain text", "hello", "hello"],
  ["Base64", "aGVsbG8=", "aGVsbG8="],
  ["nothing", "", ""],
  ["white space around", " \n\ta \n", " \n\ta \n"],
  ["entities", "&lt;a b=&quot;c&quot;&gt; &amp;amp;", '<a b="c"> &amp;'],
  ["CDATA", "<![CDATA[<a>]]>", "<a>"],
  ["carriage returns by number", "a&#xD;&#xA;b", "a\r\nb"],
  ["markup that is not escaped", "a<b>c<i/>d</b>e", "acde"],
];
for (const [what, written, want] of texts) {
  test(`messageTextOf(): ${what}`, () => assert.equal(textOf(written), want));
}

const document = (text: string) => parseXml(Buffer.from(text));
const bad: [what: string, body: () => unknown, code: string][] = [
  ["another document", () => messageTextOf(document("<a/>")), "InvalidXmlDocument"],
  ["no document", () => messageTextOf(undefined), "InvalidXmlDocument"],
  ["no text", () => messageTextOf(document("<QueueMessage/>")), "MissingRequiredXmlNode"],
  ["64 KiB and a byte", () => textOf("x".repeat(65_537)), "MessageTooLarge"],
  ["too long in UTF-8", () => textOf("ö".repeat(32_769)), "MessageTooLarge"],
  [
    "a control character by XML 1.1",
    () =>
      messageTextOf(
        document(
          '<?xml version="1.1"?><QueueMessage><MessageText>&#1;</MessageText></QueueMessage>',
        ),
      ),
    "InvalidXmlDocument",
  ],
];
for (const [what, body, code] of bad) {
  test(`messageTextOf(): ${what} is ${code}`, () =>
    assert.throws(body, (error) => error instanceof StorageError && error.code === code));
}

test("messageTextOf(): takes 64 KiB, however they are written", () => {
  assert.equal(textOf("&quot;".repeat(65_536)).length, 65_536);
  assert.equal(textOf("ö".repeat(32_768)).length, 32_768);
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
