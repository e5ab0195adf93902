import { SaxesParser } from "saxes";

/** An element of a document that was read: its children in order, and the text directly in it. */
export type XmlElement = {
  readonly name: string;
  readonly children: readonly XmlElement[];
  readonly text: string;
  /** The text in it and in all below it, in order, without the markup. */
  readonly inner: string;
};

export type XmlLimits = { readonly depthMax: number; readonly elementsMax: number };

const DEFAULT_LIMITS: XmlLimits = { depthMax: 16, elementsMax: 60_000 };

/** Why a text is no XML, or none that we take. */
export class XmlError extends Error {}

/**
 * Reads a small XML document. Document types are refused, so no entity can expand; namespaces and
 * attributes are passed over, as no request of Azure Storage uses them.
 */
export function parseXml(bytes: Uint8Array, limits: XmlLimits = DEFAULT_LIMITS): XmlElement {
  const parser = new SaxesParser();
  const root = open("");
  const path = [root];
  let elements = 0;
  parser.on("error", (error) => {
    throw new XmlError(error.message);
  });
  parser.on("doctype", () => {
    throw new XmlError("a document type is not allowed");
  });
  parser.on("opentag", ({ name }) => {
    if (path.length > limits.depthMax) throw new XmlError("the elements are nested too deep");
    if (++elements > limits.elementsMax) throw new XmlError("there are too many elements");
    const element = open(name);
    path.at(-1)?.children.push(element);
    path.push(element);
  });
  parser.on("closetag", () => {
    const { inner } = path.pop() ?? root;
    const parent = path.at(-1);
    if (parent !== undefined) parent.inner += inner;
  });
  const addText = (text: string) => {
    const element = path.at(-1);
    if (element === undefined) return;
    element.text += text;
    element.inner += text;
  };
  parser.on("text", addText);
  parser.on("cdata", addText);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new XmlError("the text is not UTF-8");
  }
  parser.write(text).close();
  const [document] = root.children;
  if (document === undefined) throw new XmlError("there is no element");
  return document;
}

const open = (name: string) => ({ name, children: [] as XmlElement[], text: "", inner: "" });

/** The first child of that name. */
export const child = (element: XmlElement | undefined, name: string): XmlElement | undefined =>
  element?.children.find((candidate) => candidate.name === name);

/** The text of the first child of that name. */
export const childText = (element: XmlElement | undefined, name: string): string | undefined =>
  child(element, name)?.text;

const ESCAPED: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\r": "&#xD;",
};

const NEEDS_ESCAPE = /[&<>"\r]/;

/** Text as it may stand in an element or an attribute. */
export const escapeXml = (text: string): string =>
  NEEDS_ESCAPE.test(text) ? text.replace(/[&<>"\r]/g, (char) => ESCAPED[char] ?? char) : text;

/** Whether XML 1.0 cannot hold this text at all, escaped or not. */
export const isBeyondXml = (text: string): boolean =>
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff\p{Surrogate}]/u.test(text);

/** `<name>text</name>`, or nothing if there is no text. */
export const element = (name: string, text: string | number | boolean | undefined): string =>
  text === undefined ? "" : `<${name}>${escapeXml(String(text))}</${name}>`;

export const XML_DECLARATION = '<?xml version="1.0" encoding="utf-8"?>';
