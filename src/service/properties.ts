import { child, childText, element, XML_DECLARATION, type XmlElement } from "../base/xml.ts";
import { type Operation, readOperation, theService, writeOperation } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { isServiceVersion } from "../rules/versions.ts";
import { services } from "../store/keys.ts";
import type {
  CorsRule,
  LoggingSetting,
  MetricsSetting,
  ProtocolSettings,
  RetentionSetting,
  ServiceRecord,
} from "../store/records.ts";

const XML_SIZE_MAX = 64 * 1024;
const CORS_RULES_MAX = 5;
const CORS_TEXT_MAX = 256;
const CORS_SIZE_MAX = 2 * 1024;
const CORS_HEADERS_MAX = 64;
const CORS_PREFIXES_MAX = 2;
const DAYS_MAX = 365;
/** The forms that Storage Analytics writes logs and metrics in. */
const LOGGING_VERSIONS = ["1.0", "2.0"];
const METRICS_VERSIONS = ["1.0"];
const CORS_METHODS = "DELETE GET HEAD MERGE POST PATCH OPTIONS PUT".split(" ");

/** The two rows of a service's properties; `roots` are the settings it has. */
export const servicePropertiesRows = (
  service: string,
  roots: readonly string[],
): readonly Operation[] => [
  readOperation({
    name: `Get ${service} Service Properties`,
    match: { method: "GET", on: "service", restype: "service", comp: "properties" },
    allow: { sas: "r", resource: "s" },
    guard: { on: theService, conditions: "none", lease: "own" },
    async apply({ tx, request }) {
      const record = (await services.get(tx, request.account, request.service)) ?? {};
      const headers = { "Content-Type": "application/xml" };
      return { status: 200, headers, body: propertiesXml(record, roots) };
    },
  }),
  writeOperation({
    name: `Set ${service} Service Properties`,
    match: { method: "PUT", on: "service", restype: "service", comp: "properties" },
    allow: { sas: "w", resource: "s" },
    body: { kind: "xml", sizeMax: XML_SIZE_MAX },
    guard: { on: theService, conditions: "none", lease: "own" },
    input: (_request, { xml }) => propertiesOf(xml, roots),
    async apply({ tx, request, input: given }) {
      // What is not given keeps its setting ("Set Blob Service Properties", remarks).
      const before = await services.get(tx, request.account, request.service);
      services.put(tx, [request.account, request.service], { ...before, ...given });
      return { status: 202, headers: {} };
    },
  }),
];

function propertiesOf(xml: XmlElement | undefined, roots: readonly string[]): ServiceRecord {
  if (xml?.name !== "StorageServiceProperties") throw new StorageError("InvalidXmlDocument");
  let record: ServiceRecord = {};
  for (const root of xml.children) {
    const read = readers[root.name];
    if (read === undefined || !roots.includes(root.name)) {
      throw new StorageError("UnsupportedXmlNode", { XmlNodeName: root.name });
    }
    record = { ...record, ...read(root) };
  }
  return record;
}

const readers: Readonly<Record<string, (root: XmlElement) => ServiceRecord>> = {
  Logging: (root) => ({ logging: loggingOf(root) }),
  HourMetrics: (root) => ({ hourMetrics: metricsOf(root) }),
  MinuteMetrics: (root) => ({ minuteMetrics: metricsOf(root) }),
  Cors: (root) => ({ cors: corsOf(root) }),
  DefaultServiceVersion(root) {
    if (!isServiceVersion(root.text)) throw badValue("DefaultServiceVersion", root.text);
    return { defaultServiceVersion: root.text };
  },
  DeleteRetentionPolicy: (root) => ({
    deleteRetention: {
      ...retentionOf(root),
      ...(child(root, "AllowPermanentDelete") === undefined
        ? {}
        : { allowPermanentDelete: flag(root, "AllowPermanentDelete") }),
    },
  }),
  StaticWebsite: (root) => ({ staticWebsite: websiteOf(root) }),
  ShareDeleteRetentionPolicy: (root) => ({ shareDeleteRetention: retentionOf(root) }),
  ProtocolSettings: (root) => ({ protocolSettings: protocolsOf(root) }),
};

/** The lists of SMB's settings, and the values each may hold ("Set File Service Properties"). */
const SMB_LISTS = [
  ["Versions", "versions", ["SMB2.1", "SMB3.0", "SMB3.1.1"]],
  ["AuthenticationMethods", "authenticationMethods", ["NTLMv2", "Kerberos"]],
  ["KerberosTicketEncryption", "kerberosTicketEncryption", ["RC4-HMAC", "AES-256"]],
  ["ChannelEncryption", "channelEncryption", ["AES-128-CCM", "AES-128-GCM", "AES-256-GCM"]],
] as const;

function protocolsOf(root: XmlElement): ProtocolSettings {
  const smb = child(root, "SMB");
  const nfs = child(root, "NFS");
  const lists = SMB_LISTS.flatMap(([name, key, values]) => {
    const text = childText(smb, name);
    if (text === undefined) return [];
    const known: readonly string[] = values;
    if (text.split(/[;,]/).some((each) => !known.includes(each.trim()))) throw badValue(name, text);
    return [[key, text] as const];
  });
  const flags = [
    ["multichannel", child(smb, "Multichannel"), "Enabled"],
    ["encryptionRequired", child(smb, "EncryptionInTransit"), "Required"],
    ["nfsEncryptionRequired", child(nfs, "EncryptionInTransit"), "Required"],
  ] as const;
  const given = flags.flatMap(([key, node, name]) =>
    node === undefined || child(node, name) === undefined ? [] : [[key, flag(node, name)] as const],
  );
  return Object.fromEntries([...lists, ...given]);
}

const loggingOf = (root: XmlElement): LoggingSetting => ({
  version: versionOf(root, LOGGING_VERSIONS),
  delete: flag(root, "Delete"),
  read: flag(root, "Read"),
  write: flag(root, "Write"),
  retention: retentionOf(requiredChild(root, "RetentionPolicy")),
});

/** SDKs may leave out the version and what is said of retention. */
function metricsOf(root: XmlElement): MetricsSetting {
  const enabled = flag(root, "Enabled");
  const retention = child(root, "RetentionPolicy");
  return {
    version: child(root, "Version") === undefined ? "1.0" : versionOf(root, METRICS_VERSIONS),
    enabled,
    ...(enabled || child(root, "IncludeAPIs") ? { includeApis: flag(root, "IncludeAPIs") } : {}),
    retention: retention === undefined ? { enabled: false } : retentionOf(retention),
  };
}

function versionOf(root: XmlElement, known: readonly string[]): string {
  const version = required(root, "Version").trim();
  if (!known.includes(version)) throw badValue("Version", version);
  return version;
}

function retentionOf(root: XmlElement): RetentionSetting {
  const enabled = flag(root, "Enabled");
  const text = childText(root, "Days");
  if (text === undefined) {
    if (enabled) throw new StorageError("MissingRequiredXmlNode", { XmlNodeName: "Days" });
    return { enabled };
  }
  const days = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (days < 1 || days > DAYS_MAX) throw badValue("Days", text);
  return { enabled, days };
}

function corsOf(root: XmlElement): CorsRule[] {
  if (root.children.length > CORS_RULES_MAX) throw badValue("Cors", String(root.children.length));
  const size = root.children.flatMap(({ children }) => children.map(({ text }) => text)).join("");
  if (size.length > CORS_SIZE_MAX) throw badValue("Cors", `${size.length} characters`);
  return root.children.map((rule) => {
    if (rule.name !== "CorsRule") {
      throw new StorageError("UnsupportedXmlNode", { XmlNodeName: rule.name });
    }
    const methods = required(rule, "AllowedMethods");
    for (const method of methods.split(",")) {
      if (!CORS_METHODS.includes(method.trim())) throw badValue("AllowedMethods", methods);
    }
    const age = required(rule, "MaxAgeInSeconds");
    if (!/^\d{1,9}$/.test(age)) throw badValue("MaxAgeInSeconds", age);
    const origins = limited(rule, "AllowedOrigins");
    if (origins.trim() === "") throw badValue("AllowedOrigins", origins);
    return {
      origins,
      methods,
      allowedHeaders: headerNames(rule, "AllowedHeaders"),
      exposedHeaders: headerNames(rule, "ExposedHeaders"),
      maxAgeSeconds: Number(age),
    };
  });
}

/** A list in one text; none of its entries may be longer than 256 characters. */
function limited(rule: XmlElement, name: string): string {
  const text = required(rule, name);
  if (text.split(",").some((entry) => entry.trim().length > CORS_TEXT_MAX))
    throw badValue(name, text);
  return text;
}

/** At most 64 names of headers and two beginnings of names. */
function headerNames(rule: XmlElement, name: string): string {
  const text = limited(rule, name);
  const entries = text.split(",").map((entry) => entry.trim());
  const prefixes = entries.filter((entry) => entry.endsWith("*")).length;
  if (prefixes > CORS_PREFIXES_MAX || entries.length - prefixes > CORS_HEADERS_MAX) {
    throw badValue(name, text);
  }
  return text;
}

function websiteOf(root: XmlElement): NonNullable<ServiceRecord["staticWebsite"]> {
  const indexDocument = childText(root, "IndexDocument");
  const defaultIndexDocumentPath = childText(root, "DefaultIndexDocumentPath");
  const errorDocument404Path = childText(root, "ErrorDocument404Path");
  if (indexDocument !== undefined && defaultIndexDocumentPath !== undefined) {
    throw badValue("DefaultIndexDocumentPath", defaultIndexDocumentPath);
  }
  return {
    enabled: flag(root, "Enabled"),
    ...(indexDocument === undefined ? {} : { indexDocument }),
    ...(defaultIndexDocumentPath === undefined ? {} : { defaultIndexDocumentPath }),
    ...(errorDocument404Path === undefined ? {} : { errorDocument404Path }),
  };
}

function requiredChild(root: XmlElement, name: string): XmlElement {
  const found = child(root, name);
  if (found === undefined) throw new StorageError("MissingRequiredXmlNode", { XmlNodeName: name });
  return found;
}

const required = (root: XmlElement, name: string): string => requiredChild(root, name).text;

function flag(root: XmlElement, name: string): boolean {
  const text = required(root, name).trim().toLowerCase();
  if (text !== "true" && text !== "false") throw badValue(name, text);
  return text === "true";
}

const badValue = (name: string, value: string) =>
  new StorageError("InvalidXmlNodeValue", { XmlNodeName: name, XmlNodeValue: value });

const retentionXml = ({ enabled, days }: RetentionSetting) =>
  element("Enabled", enabled) + element("Days", days);

const metricsXml = (name: string, setting: MetricsSetting | undefined) => {
  const {
    version = "1.0",
    enabled = false,
    includeApis,
    retention = { enabled: false },
  } = setting ?? {};
  return `<${name}>${element("Version", version)}${element("Enabled", enabled)}${element("IncludeAPIs", includeApis)}<RetentionPolicy>${retentionXml(retention)}</RetentionPolicy></${name}>`;
};

function loggingXml(setting: LoggingSetting | undefined): string {
  const {
    version = "1.0",
    delete: deletes = false,
    read = false,
    write = false,
    retention = { enabled: false },
  } = setting ?? {};
  return `<Logging>${element("Version", version)}${element("Delete", deletes)}${element("Read", read)}${element("Write", write)}<RetentionPolicy>${retentionXml(retention)}</RetentionPolicy></Logging>`;
}

const corsXml = (rules: readonly CorsRule[]): string =>
  `<Cors>${rules
    .map(
      (rule) =>
        `<CorsRule>${element("AllowedOrigins", rule.origins)}${element("AllowedMethods", rule.methods)}${element("AllowedHeaders", rule.allowedHeaders)}${element("ExposedHeaders", rule.exposedHeaders)}${element("MaxAgeInSeconds", rule.maxAgeSeconds)}</CorsRule>`,
    )
    .join("")}</Cors>`;

/** Each setting as a reply writes it, also where it was never set. */
const writers: Readonly<Record<string, (record: ServiceRecord) => string>> = {
  Logging: ({ logging }) => loggingXml(logging),
  HourMetrics: ({ hourMetrics }) => metricsXml("HourMetrics", hourMetrics),
  MinuteMetrics: ({ minuteMetrics }) => metricsXml("MinuteMetrics", minuteMetrics),
  Cors: ({ cors = [] }) => corsXml(cors),
  DefaultServiceVersion: ({ defaultServiceVersion: version }) =>
    element("DefaultServiceVersion", version),
  DeleteRetentionPolicy: ({ deleteRetention = { enabled: false } }) =>
    `<DeleteRetentionPolicy>${retentionXml(deleteRetention)}${element("AllowPermanentDelete", deleteRetention.allowPermanentDelete)}</DeleteRetentionPolicy>`,
  StaticWebsite: ({ staticWebsite: website }) =>
    `<StaticWebsite>${element("Enabled", website?.enabled ?? false)}${element("IndexDocument", website?.indexDocument)}${element("DefaultIndexDocumentPath", website?.defaultIndexDocumentPath)}${element("ErrorDocument404Path", website?.errorDocument404Path)}</StaticWebsite>`,
  ShareDeleteRetentionPolicy: ({ shareDeleteRetention = { enabled: false } }) =>
    `<ShareDeleteRetentionPolicy>${retentionXml(shareDeleteRetention)}</ShareDeleteRetentionPolicy>`,
  ProtocolSettings: ({ protocolSettings }) => protocolsXml(protocolSettings),
};

function protocolsXml(setting: ProtocolSettings = {}): string {
  const { multichannel = false, encryptionRequired, nfsEncryptionRequired } = setting;
  const lists = SMB_LISTS.map(([name, key]) => element(name, setting[key])).join("");
  const transit = (required: boolean | undefined) =>
    required === undefined
      ? ""
      : `<EncryptionInTransit>${element("Required", required)}</EncryptionInTransit>`;
  const nfs =
    nfsEncryptionRequired === undefined ? "" : `<NFS>${transit(nfsEncryptionRequired)}</NFS>`;
  return `<ProtocolSettings><SMB><Multichannel>${element("Enabled", multichannel)}</Multichannel>${transit(encryptionRequired)}${lists}</SMB>${nfs}</ProtocolSettings>`;
}

function propertiesXml(record: ServiceRecord, roots: readonly string[]): string {
  const settings = roots.map((root) => writers[root]?.(record) ?? "");
  return `${XML_DECLARATION}<StorageServiceProperties>${settings.join("")}</StorageServiceProperties>`;
}
