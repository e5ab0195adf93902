import { httpDate, instantOf } from "../base/time.ts";
import {
  child,
  element,
  escapeXml,
  isBeyondXml,
  XML_DECLARATION,
  type XmlElement,
} from "../base/xml.ts";
import { StorageError } from "../rules/errors.ts";
import { receiptText, TEXT_SIZE_MAX } from "../rules/messages.ts";
import type { Placed } from "../store/messages.ts";

/** Room for the longest text even if each of its characters is written as an entity. */
export const MESSAGE_XML_MAX: number = 8 * TEXT_SIZE_MAX;

/**
 * The text of a request's message, in UTF-8. Markup in it is dropped, and what is between stays ("Put
 * Message", remarks: markup that is not escaped is removed).
 */
export function messageTextOf(xml: XmlElement | undefined): Buffer {
  if (xml?.name !== "QueueMessage") throw new StorageError("InvalidXmlDocument");
  const text = child(xml, "MessageText")?.inner;
  if (text === undefined) {
    throw new StorageError("MissingRequiredXmlNode", { XmlNodeName: "MessageText" });
  }
  // A document of XML 1.1 may hold what no reply could give back.
  if (isBeyondXml(text)) throw new StorageError("InvalidXmlDocument");
  const bytes = Buffer.from(text, "utf8");
  if (bytes.length > TEXT_SIZE_MAX) throw new StorageError("MessageTooLarge");
  return bytes;
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
