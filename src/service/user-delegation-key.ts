import { delegationKey } from "../auth/delegation.ts";
import { type Instant, parseIsoDate } from "../base/time.ts";
import { childText, element, XML_DECLARATION, type XmlElement } from "../base/xml.ts";
import { type Operation, readOperation, theService } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { parseGuid } from "../rules/names.ts";

const XML_SIZE_MAX = 4 * 1024;
const WEEK_MS = 7 * 24 * 60 * 60 * 1000;

/** Gives a user with a token a key to sign URLs with; `letter` is that of the service. */
export const userDelegationKeyRow = (letter: "b" | "q" | "f"): Operation =>
  readOperation({
    name: "Get User Delegation Key",
    match: { method: "POST", on: "service", restype: "service", comp: "userdelegationkey" },
    allow: { sas: "", resource: "s", user: "g" },
    body: { kind: "xml", sizeMax: XML_SIZE_MAX },
    guard: { on: theService, conditions: "none", lease: "own" },
    input: (_request, { xml }) => keyInfoOf(xml),
    async apply({ tx, request, input: { start, expiry, boundTenant }, around }) {
      const { caller, account: name, version } = request;
      const account = around.authority.accounts().get(name);
      const [key] = account?.keys ?? [];
      if (caller.kind !== "user" || key === undefined) {
        throw new StorageError("AuthenticationFailed", {
          AuthenticationErrorDetail: "Only authentication scheme Bearer is supported.",
        });
      }
      const from = start ?? tx.now;
      if (expiry <= from || expiry <= tx.now || expiry > Math.max(from, tx.now) + WEEK_MS) {
        throw badValue("Expiry", secondText(expiry));
      }
      const { id: user, tenant } = caller.user;
      const delegation = {
        ...{ user, tenant, start: secondText(from), expiry: secondText(expiry) },
        ...{ service: letter, version, boundTenant },
      };
      const value = delegationKey(key, name, delegation).toString("base64");
      const fields =
        element("SignedOid", user) +
        element("SignedTid", tenant) +
        element("SignedStart", delegation.start) +
        element("SignedExpiry", delegation.expiry) +
        element("SignedService", letter) +
        element("SignedVersion", version) +
        element("SignedDelegatedUserTid", boundTenant) +
        element("Value", value);
      const body = `${XML_DECLARATION}<UserDelegationKey>${fields}</UserDelegationKey>`;
      return { status: 200, headers: { "Content-Type": "application/xml" }, body };
    },
  });

/** As the SDKs write times into a SAS: whole seconds, so that the key is the same when it comes back. */
const secondText = (at: Instant): string => `${new Date(at).toISOString().slice(0, 19)}Z`;

function keyInfoOf(xml: XmlElement | undefined) {
  if (xml?.name !== "KeyInfo") throw new StorageError("InvalidXmlDocument");
  const expiry = timeOf(xml, "Expiry");
  if (expiry === undefined) {
    throw new StorageError("MissingRequiredXmlNode", { XmlNodeName: "Expiry" });
  }
  const text = childText(xml, "DelegatedUserTid");
  const boundTenant = text ? parseGuid(text) : undefined;
  if (text && boundTenant === undefined) throw badValue("DelegatedUserTid", text);
  return { start: timeOf(xml, "Start"), expiry, boundTenant };
}

function timeOf(xml: XmlElement, name: string): Instant | undefined {
  const text = childText(xml, name);
  if (text === undefined || text === "") return undefined;
  const at = parseIsoDate(text);
  if (at === undefined) throw badValue(name, text);
  return at;
}

const badValue = (name: string, value: string) =>
  new StorageError("InvalidXmlNodeValue", { XmlNodeName: name, XmlNodeValue: value });
