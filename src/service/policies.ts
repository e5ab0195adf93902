import { parseIsoDate, tickText } from "../base/time.ts";
import { child, childText, element, XML_DECLARATION, type XmlElement } from "../base/xml.ts";
import { parseDateTime } from "../rules/edm.ts";
import { StorageError } from "../rules/errors.ts";
import type { AccessPolicy } from "../store/records.ts";

export const POLICIES_XML_MAX: number = 64 * 1024;
const POLICIES_MAX = 5;
const POLICY_ID_MAX = 64;

export function policiesXml(policies: readonly AccessPolicy[]): string {
  const all = policies.map(({ id, start, expiry, permission }) => {
    const fields =
      element("Start", timeText(start)) +
      element("Expiry", timeText(expiry)) +
      element("Permission", permission);
    const policy = fields === "" ? "" : `<AccessPolicy>${fields}</AccessPolicy>`;
    return `<SignedIdentifier>${element("Id", id)}${policy}</SignedIdentifier>`;
  });
  return `${XML_DECLARATION}<SignedIdentifiers>${all.join("")}</SignedIdentifiers>`;
}

/**
 * A time as the service gives it back, in whatever form it was set: to 100 ns, in UTC ("Get Container ACL",
 * sample). A client that sent a day alone need not be able to read one.
 */
function timeText(text: string | undefined): string | undefined {
  const tick = text === undefined ? undefined : parseDateTime(text);
  return tick === undefined ? text : tickText(tick);
}

/** Stored access policies of a request: at most five, ids up to 64 characters, permissions of these letters. */
export function policiesOf(xml: XmlElement, letters: string): AccessPolicy[] {
  if (xml.name !== "SignedIdentifiers") throw new StorageError("InvalidXmlDocument");
  if (xml.children.length > POLICIES_MAX) throw new StorageError("InvalidXmlDocument");
  const seen = new Set<string>();
  return xml.children.map((entry) => {
    const id = childText(entry, "Id");
    if (entry.name !== "SignedIdentifier") throw new StorageError("InvalidXmlDocument");
    if (id === undefined) throw new StorageError("MissingRequiredXmlNode");
    if (id === "" || id.length > POLICY_ID_MAX || seen.has(id)) throw invalidNode("Id", id);
    seen.add(id);
    const policy = child(entry, "AccessPolicy");
    return {
      id,
      ...dateOf(policy, "Start", "start"),
      ...dateOf(policy, "Expiry", "expiry"),
      ...permissionOf(policy, letters),
    };
  });
}

function dateOf<K extends string>(policy: XmlElement | undefined, node: string, key: K) {
  const text = childText(policy, node);
  if (text === undefined || text === "") return {};
  if (parseIsoDate(text) === undefined) throw invalidNode(node, text);
  return { [key]: text } as Record<K, string>;
}

function permissionOf(policy: XmlElement | undefined, letters: string): { permission?: string } {
  const text = childText(policy, "Permission");
  if (text === undefined || text === "") return {};
  if ([...text].some((letter) => !letters.includes(letter))) throw invalidNode("Permission", text);
  return { permission: text };
}

const invalidNode = (name: string, value: string) =>
  new StorageError("InvalidXmlNodeValue", { XmlNodeName: name, XmlNodeValue: value });
