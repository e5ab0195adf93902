import { isUtf8 } from "node:buffer";
import { httpDate, instantOf } from "../base/time.ts";
import {
  child,
  element,
  escapeXml,
  isBeyondXml,
  XML_DECLARATION,
  type XmlElement,
} from "../base/xml.ts";
import { readXml } from "../http/receive.ts";
import { StorageError } from "../rules/errors.ts";
import { receiptText, TEXT_SIZE_MAX } from "../rules/messages.ts";
import type { Placed } from "../store/messages.ts";

/** Room for the longest text even if each of its characters is written as an entity. */
export const MESSAGE_XML_MAX: number = 8 * TEXT_SIZE_MAX;

/**
 * The text of a request's message, in UTF-8. Markup in it is dropped, and what is between stays ("Put
 * Message", remarks: markup that is not escaped is removed).
 */
export function messageTextOf(document: Buffer): Buffer {
  const text = plainTextOf(document) ?? markedTextOf(readXml(document));
  // By number, or in XML 1.1, a document may hold what no reply could give back.
  if (isBeyondXml(text)) throw new StorageError("InvalidXmlDocument");
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length > TEXT_SIZE_MAX) throw new StorageError("MessageTooLarge");
  return bytes;
}

// A byte order mark and a declaration may come first; between the tags there is no markup.
const PLAIN =
  /^\ufeff?(?:<\?xml [^<>]*\?>)?\s*<QueueMessage>\s*<MessageText>([^<]*)<\/MessageText>\s*<\/QueueMessage>\s*$/;
const REFERENCE = /&(?:#(\d{1,7})|#x([0-9a-fA-F]{1,6})|(lt|gt|amp|quot|apos));/g;
const NAMED: Readonly<Record<string, string>> = {
  lt: "<",
  gt: ">",
  amp: "&",
  quot: '"',
  apos: "'",
};
const CODE_MAX = 0x10ffff;

/** The text of a message as clients write it, which needs no parser; undefined if there is more to it. */
function plainTextOf(document: Buffer): string | undefined {
  if (!isUtf8(document)) return undefined;
  const [, sent] = PLAIN.exec(document.toString("utf8")) ?? [];
  if (sent === undefined || sent.includes("]]>")) return undefined;
  // Every reader of XML takes the end of a line for a line feed; a carriage return to be kept has a number.
  const written = sent.includes("\r") ? sent.replace(/\r\n?/g, "\n") : sent;
  if (!written.includes("&")) return written;
  if (written.replace(REFERENCE, "").includes("&")) return undefined;
  return written.replace(REFERENCE, (_all, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return NAMED[name] ?? "";
    const code = decimal === undefined ? Number.parseInt(hex ?? "", 16) : Number(decimal);
    return code > CODE_MAX ? "\0" : String.fromCodePoint(code); // which is beyond XML, and refused
  });
}

function markedTextOf(xml: XmlElement): string {
  if (xml.name !== "QueueMessage") throw new StorageError("InvalidXmlDocument");
  const text = child(xml, "MessageText")?.inner;
  if (text !== undefined) return text;
  throw new StorageError("MissingRequiredXmlNode", { XmlNodeName: "MessageText" });
}

const headXml = ({ id, number, expiresAt }: Placed["record"]): string =>
  `<MessageId>${id}</MessageId><InsertionTime>${httpDate(instantOf(number))}</InsertionTime><ExpirationTime>${httpDate(expiresAt)}</ExpirationTime>`;

const receiptXml = (place: Placed["place"]): string =>
  `<PopReceipt>${receiptText(place)}</PopReceipt><TimeNextVisible>${httpDate(place.visibleAt)}</TimeNextVisible>`;

const textXml = ({ dequeueCount }: Placed["record"], text: string): string =>
  `${element("DequeueCount", dequeueCount)}<MessageText>${escapeXml(text)}</MessageText>`;

/** A message as Put Message gives it: without its text, which the client has. */
export const putXml = ({ place, record }: Placed): string =>
  `<QueueMessage>${headXml(record)}${receiptXml(place)}</QueueMessage>`;

/** A message as Get Messages gives it. */
export const gottenXml = ({ place, record }: Placed, text: string): string =>
  `<QueueMessage>${headXml(record)}${receiptXml(place)}${textXml(record, text)}</QueueMessage>`;

/** A message as Peek Messages gives it: nothing that would let it be changed. */
export const peekedXml = ({ record }: Placed, text: string): string =>
  `<QueueMessage>${headXml(record)}${textXml(record, text)}</QueueMessage>`;

export const messagesXml = (items: readonly string[]): string =>
  items.length === 0
    ? `${XML_DECLARATION}<QueueMessagesList />`
    : `${XML_DECLARATION}<QueueMessagesList>${items.join("")}</QueueMessagesList>`;
