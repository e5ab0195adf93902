import { FlatJsonError, type Member, parseFlatJson, unquoted } from "../base/flat-json.ts";
import { canonicalJson, type EdmType, edmTypeOf, needsAnnotation } from "./edm.ts";
import { type ErrorCode, explained, StorageError } from "./errors.ts";

/** A property as a request or a record has it; `json` is the value as replies write it. */
export type Property = { readonly name: string; readonly type: EdmType; readonly json: string };

/** What a request says of an entity: its keys, where it names them, and its own properties. */
export type EntityInput = {
  readonly partitionKey: string | undefined;
  readonly rowKey: string | undefined;
  readonly properties: readonly Property[];
};

const PROPERTIES_MAX = 252;
const ENTITY_SIZE_MAX = 1024 * 1024;
const VALUE_SIZE_MAX = 64 * 1024;
const NAME_LENGTH_MAX = 255;
const KEY_LENGTH_MAX = 512;
const ANNOTATION = "@odata.type";

/** Reads an entity from a request's body, and refuses what no entity may hold. */
export function parseEntity(text: string): EntityInput {
  const members = membersOf(text);
  const annotations = annotationsOf(members);
  const seen = new Set<string>();
  const properties: Property[] = [];
  let partitionKey: string | undefined;
  let rowKey: string | undefined;
  for (const { name, json } of members) {
    if (seen.has(name)) throw new StorageError("DuplicatePropertiesSpecified");
    seen.add(name);
    if (name.includes("odata.") && (name.startsWith("odata.") || name.includes("@odata.")))
      continue;
    if (name === "Timestamp") continue; // the server's alone
    if (json === "null") continue; // not stored; a merge leaves what was there
    const property = propertyOf(name, annotations?.get(name), json);
    if (name === "PartitionKey") partitionKey = keyOf(property);
    else if (name === "RowKey") rowKey = keyOf(property);
    else {
      refuseName(name);
      if (sizeOfValue(property) > VALUE_SIZE_MAX + VALUE_OVERHEAD) {
        throw new StorageError("PropertyValueTooLarge");
      }
      properties.push(property);
    }
  }
  return { partitionKey, rowKey, properties };
}

/** The members of a flat object in a body, whatever they are. */
export function membersOf(text: string): Member[] {
  try {
    return parseFlatJson(text);
  } catch (error) {
    if (error instanceof FlatJsonError) throw new StorageError("InvalidInput");
    throw error;
  }
}

function annotationsOf(members: readonly Member[]): ReadonlyMap<string, EdmType> | undefined {
  let all: Map<string, EdmType> | undefined;
  for (const { name, json } of members) {
    if (!name.endsWith(ANNOTATION)) continue;
    const type = edmTypeOf(json.slice(1, -1));
    if (type === undefined) throw new StorageError("InvalidInput");
    all ??= new Map();
    all.set(name.slice(0, -ANNOTATION.length), type);
  }
  return all;
}

/** A value with the type it is said to have, or the one that JSON tells. */
function propertyOf(name: string, said: EdmType | undefined, json: string): Property {
  const isText = json.charCodeAt(0) === 0x22;
  if (said === undefined || said === "String") {
    if (isText) return { name, type: "String", json };
    if (said === "String") throw new StorageError("InvalidInput");
    if (json === "true" || json === "false") return { name, type: "Boolean", json };
  }
  if (said !== undefined) {
    const isNumber = said === "Int32" || said === "Int64" || said === "Double";
    const isPlain = json === "true" || json === "false" ? said === "Boolean" : isNumber;
    const canonical =
      isText || isPlain ? canonicalJson(said, isText ? unquoted(json) : json) : undefined;
    if (canonical !== undefined) return { name, type: said, json: canonical };
    throw said === "DateTime" ? outOfRange() : new StorageError("InvalidInput");
  }
  // A number is an Int32 if it can be one, and a Double otherwise.
  const whole = canonicalJson("Int32", json);
  if (whole !== undefined) return { name, type: "Int32", json: whole };
  const double = canonicalJson("Double", json);
  if (double === undefined) throw new StorageError("InvalidInput");
  return { name, type: "Double", json: double };
}

function keyOf({ type, json }: Property): string {
  if (type !== "String") throw new StorageError("InvalidInput");
  return unquoted(json);
}

const outOfRange = () => explained("OutOfRangeInput", "One of the request inputs is out of range.");

const PLAIN_NAME = /^[A-Za-z_]\w*$/;
const NAME = /^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Nd}\p{Pc}\p{Mn}\p{Mc}\p{Cf}]*$/u;

function refuseName(name: string): void {
  if (name.length > NAME_LENGTH_MAX) throw new StorageError("PropertyNameTooLong");
  if (!PLAIN_NAME.test(name) && !NAME.test(name)) throw new StorageError("PropertyNameInvalid");
}

const FORBIDDEN_IN_KEY = /[/\\#?\u0000-\u001f\u007f-\u009f]/;

/** What is wrong with a key's value; the empty text is a key like any other. */
export function badKey(value: string): ErrorCode | undefined {
  if (value.length > KEY_LENGTH_MAX) return "KeyValueTooLarge";
  return FORBIDDEN_IN_KEY.test(value) ? "OutOfRangeInput" : undefined;
}

/** Throws if a key's value is none. */
export function refuseKey(name: "PartitionKey" | "RowKey", value: string): void {
  const code = badKey(value);
  if (code === undefined) return;
  if (code === "KeyValueTooLarge") throw new StorageError(code);
  const message = `The '${name}' parameter of value '${value}' is out of range.`;
  throw explained(code, message);
}

const VALUE_OVERHEAD = 4;
const FIXED_SIZES: Readonly<Partial<Record<EdmType, number>>> = {
  Boolean: 1,
  DateTime: 8,
  Double: 8,
  Guid: 16,
  Int32: 4,
  Int64: 8,
};

/** What a value counts: texts two bytes a character and bytes as they are, both with a length. */
function sizeOfValue({ type, json }: Property): number {
  const fixed = FIXED_SIZES[type];
  if (fixed !== undefined) return fixed;
  if (type === "Binary") {
    const padding = json.endsWith('=="') ? 2 : json.endsWith('="') ? 1 : 0;
    return ((json.length - 2) / 4) * 3 - padding + VALUE_OVERHEAD;
  }
  const length = json.includes("\\") ? unquoted(json).length : json.length - 2;
  return 2 * length + VALUE_OVERHEAD;
}

/** What is wrong with an entity as a whole: too many properties, or more than 1 MiB of them. */
export function badEntity(
  partitionKey: string,
  rowKey: string,
  properties: readonly Property[],
): ErrorCode | undefined {
  if (properties.length > PROPERTIES_MAX) return "TooManyProperties";
  let size = 4 + 2 * (partitionKey.length + rowKey.length);
  for (const property of properties) size += 8 + 2 * property.name.length + sizeOfValue(property);
  return size > ENTITY_SIZE_MAX ? "EntityTooLarge" : undefined;
}

/** The properties of an entity after a merge: new ones replace those of their name, the rest stays. */
export function merged(before: readonly Property[], changes: readonly Property[]): Property[] {
  const byName = new Map(changes.map((property) => [property.name, property]));
  const result = before.map((property) => {
    const change = byName.get(property.name);
    if (change === undefined) return property;
    byName.delete(property.name);
    return change;
  });
  for (const property of byName.values()) result.push(property);
  return result;
}

/** Properties as members of a JSON object, each with a comma before it and its type where JSON does not tell it. */
export function propertiesJson(properties: readonly Property[]): string {
  let text = "";
  for (const { name, type, json } of properties) {
    if (needsAnnotation(type, json)) text += `,"${name}${ANNOTATION}":"Edm.${type}"`;
    text += `,"${name}":${json}`;
  }
  return text;
}

/** Reads back what `propertiesJson` wrote, among the members of an entity as it is stored. */
export function storedProperties(members: readonly Member[]): Property[] {
  const properties: Property[] = [];
  let type: EdmType | undefined;
  for (const { name, json } of members) {
    if (name.endsWith(ANNOTATION)) type = edmTypeOf(json.slice(1, -1));
    else {
      properties.push({ name, type: type ?? plainType(json), json });
      type = undefined;
    }
  }
  return properties;
}

/** The type of a value that stands without an annotation. */
function plainType(json: string): EdmType {
  const first = json.charCodeAt(0);
  if (first === 0x22) return "String";
  if (first === 0x74 || first === 0x66) return "Boolean";
  return /[.e]/.test(json) ? "Double" : "Int32";
}
