import assert from "node:assert/strict";
import { test } from "node:test";
import { child, childText, element, escapeXml, isBeyondXml, parseXml, XmlError } from "./xml.ts";

const parse = (text: string) => parseXml(Buffer.from(text));

// What a document is read as: children in order, text joined, entities and CDATA resolved.
const texts: [what: string, document: string, want: string][] = [
  ["plain text", "<a>text</a>", "text"],
  ["nothing", "<a/>", ""],
  ["white space stays", "<a> x\n</a>", " x\n"],
  ["the five entities", "<a>&lt;&gt;&amp;&quot;&apos;</a>", "<>&\"'"],
  ["characters by number", "<a>&#65;&#x1F600;</a>", "A😀"],
  ["CDATA", "<a><![CDATA[<b>&amp;]]></a>", "<b>&amp;"],
  ["text and CDATA together", "<a>x<![CDATA[y]]>z</a>", "xyz"],
  ["comments are passed over", "<a>x<!-- no -->y</a>", "xy"],
  ["a declaration", '<?xml version="1.0" encoding="utf-8"?><a>x</a>', "x"],
  ["a byte order mark", "\ufeff<a>x</a>", "x"],
  ["attributes are passed over", '<a b="c">x</a>', "x"],
  ["text beyond ASCII", "<a>größe 😀</a>", "größe 😀"],
];
for (const [what, document, want] of texts) {
  test(`parseXml(): ${what}`, () => {
    const root = parse(document);
    assert.equal(root.name, "a");
    assert.equal(root.text, want);
  });
}

test("parseXml(): children stand in order, and are found by name", () => {
  const root = parse("<r><a>1</a><b><a>2</a></b><a>3</a></r>");
  assert.deepEqual(
    root.children.map(({ name, text }) => [name, text]),
    [
      ["a", "1"],
      ["b", ""],
      ["a", "3"],
    ],
  );
  assert.equal(childText(root, "a"), "1");
  assert.equal(childText(child(root, "b"), "a"), "2");
  assert.equal(child(root, "c"), undefined);
  assert.equal(childText(undefined, "a"), undefined);
});

test("parseXml(): the inner text is all of it in order, whatever stands around it", () => {
  const root = parse("<r>a<b>c<i>d</i>e</b>f<b/>&lt;g&gt;</r>");
  assert.deepEqual([root.text, root.inner], ["af<g>", "acdef<g>"]);
  assert.equal(child(root, "b")?.inner, "cde");
});

const nested = (depth: number) => `${"<a>".repeat(depth)}${"</a>".repeat(depth)}`;
const wide = (count: number) => `<r>${"<a/>".repeat(count - 1)}</r>`;
const limits = { depthMax: 4, elementsMax: 10 };

test("parseXml(): takes as many elements, and as deep, as the limits say", () => {
  parseXml(Buffer.from(nested(4)), limits);
  parseXml(Buffer.from(wide(10)), limits);
});

const laughs = '<!DOCTYPE a [<!ENTITY l "ha"><!ENTITY m "&l;&l;&l;&l;">]><a>&m;</a>';
const bad: [what: string, document: string | Buffer][] = [
  ["elements nested too deep", nested(5)],
  ["too many elements", wide(11)],
  ["a document type", "<!DOCTYPE a><a/>"],
  ["a document type with entities", laughs],
  ["a document type with a file", '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'],
  ["an entity nobody declared", "<a>&nbsp;</a>"],
  ["bytes that are not UTF-8", Buffer.from([0x3c, 0x61, 0x3e, 0xff, 0x3c, 0x2f, 0x61, 0x3e])],
  [
    "half a UTF-8 sequence",
    Buffer.concat([Buffer.from("<a>"), Buffer.of(0xc3), Buffer.from("</a>")]),
  ],
  [
    "a surrogate in UTF-8",
    Buffer.concat([Buffer.from("<a>"), Buffer.of(0xed, 0xa0, 0x80), Buffer.from("</a>")]),
  ],
  ["nothing", ""],
  ["white space only", " \n "],
  ["no element", "text"],
  ["an element left open", "<a><b></b>"],
  ["elements crossed", "<a><b></a></b>"],
  ["two roots", "<a/><b/>"],
  ["text after the root", "<a/>x"],
  ["a bare ampersand", "<a>x & y</a>"],
  ["a bare less-than", "<a>x < y</a>"],
  ["a control character", "<a>\u0001</a>"],
  ["a control character by number", "<a>&#1;</a>"],
  ["CDATA left open", "<a><![CDATA[x</a>"],
  ["an attribute twice", '<a b="1" b="2"/>'],
];
for (const [what, document] of bad) {
  test(`parseXml(): ${what} is refused`, () =>
    assert.throws(() => parseXml(Buffer.from(document), limits), XmlError));
}

test("parseXml(): the usual limits take the longest block list, and no endless one", () => {
  const list = (count: number) => `<BlockList>${"<Latest>AA==</Latest>".repeat(count)}</BlockList>`;
  assert.equal(parse(list(50_001)).children.length, 50_001);
  assert.throws(() => parse(list(1_000_000)), XmlError);
});

const escapes: [text: string, want: string][] = [
  ["plain", "plain"],
  ["", ""],
  ["a & b", "a &amp; b"],
  ["<a>", "&lt;a&gt;"],
  ['"', "&quot;"],
  ["&amp;", "&amp;amp;"],
  ["]]>", "]]&gt;"],
  ["größe 😀", "größe 😀"],
];
for (const [text, want] of escapes) {
  test(`escapeXml(): ${JSON.stringify(text)}`, () => assert.equal(escapeXml(text), want));
}

test("escapeXml(): a reader gets back what was written", () => {
  for (const text of ["<&>\"'", "a\rb", "a\r\nb", "]]>", "\t\n", " x ", "&#65;", "\u0085\u2028"]) {
    assert.equal(parse(element("a", text)).text, text, JSON.stringify(text));
  }
});

test("element(): writes text, numbers and truths, and nothing for undefined", () => {
  assert.equal(element("A", "x<y"), "<A>x&lt;y</A>");
  assert.equal(element("A", 0), "<A>0</A>");
  assert.equal(element("A", false), "<A>false</A>");
  assert.equal(element("A", ""), "<A></A>");
  assert.equal(element("A", undefined), "");
});

// XML 1.0, production Char: #x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF].
const beyond: [text: string, want: boolean][] = [
  ["plain", false],
  ["", false],
  ["\t\n\r", false],
  [" ", false],
  ["\u007f\u0085", false],
  ["\ud7ff", false],
  ["\ue000", false],
  ["\ufffd", false],
  ["\u{10000}\u{10ffff}", false],
  ["\u0000", true],
  ["a\u0008b", true],
  ["\u000b", true],
  ["\u000c", true],
  ["\u000e", true],
  ["\u001f", true],
  ["\ufffe", true],
  ["\uffff", true],
  ["\ud800", true],
];
for (const [text, want] of beyond) {
  const codes = [...text].map((char) => `U+${char.codePointAt(0)?.toString(16)}`).join(" ");
  test(`isBeyondXml(): ${codes || "nothing"} is ${want}`, () =>
    assert.equal(isBeyondXml(text), want));
}
