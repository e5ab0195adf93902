import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { parseFlatJson } from "../base/flat-json.ts";
import {
  badEntity,
  badKey,
  merged,
  type Property,
  parseEntity,
  propertiesJson,
  storedProperties,
} from "./entity.ts";
import { type ErrorCode, StorageError } from "./errors.ts";
import { badTableName } from "./table-names.ts";

const read = (text: string) =>
  parseEntity(text).properties.map(({ type, json }) => `${type} ${json}`);

suite("parseEntity()", () => {
  const types: [text: string, want: string][] = [
    ['"x"', 'String "x"'],
    ['""', 'String ""'],
    ["1", "Int32 1"],
    ["-1", "Int32 -1"],
    ["2147483647", "Int32 2147483647"],
    ["2147483648", "Double 2147483648.0"],
    ["1.0", "Double 1.0"],
    ["1e2", "Double 100.0"],
    ["1.25", "Double 1.25"],
    ["true", "Boolean true"],
    ["false", "Boolean false"],
  ];
  for (const [json, want] of types) {
    test(`${json} alone is ${want}`, () => assert.deepEqual(read(`{"P":${json}}`), [want]));
  }

  const annotated: [type: string, json: string, want: string][] = [
    ["Int64", '"12"', 'Int64 "12"'],
    ["Int64", "12", 'Int64 "12"'],
    ["Int32", '"12"', "Int32 12"],
    ["Double", "1", "Double 1.0"],
    ["Double", '"1.5"', "Double 1.5"],
    ["Double", '"NaN"', 'Double "NaN"'],
    ["Boolean", '"true"', "Boolean true"],
    ["Boolean", "true", "Boolean true"],
    ["String", '"12"', 'String "12"'],
    ["DateTime", '"2020-01-01T00:00:00Z"', 'DateTime "2020-01-01T00:00:00Z"'],
    ["Guid", '"c9da6455213d42c99a793e9149a57833"', 'Guid "c9da6455-213d-42c9-9a79-3e9149a57833"'],
    ["Binary", '"AQID"', 'Binary "AQID"'],
  ];
  for (const [type, json, want] of annotated) {
    test(`${json} as Edm.${type} is ${want}`, () => {
      assert.deepEqual(read(`{"P@odata.type":"Edm.${type}","P":${json}}`), [want]);
      assert.deepEqual(read(`{"P":${json},"P@odata.type":"Edm.${type}"}`), [want]);
    });
  }

  const repeated = (count: number) =>
    `{${Array.from({ length: count }, (_, i) => `"p${i}":1`).join(",")}}`;
  const refused: [what: string, text: string, code: ErrorCode][] = [
    ["nothing", "", "InvalidInput"],
    ["a list", "[]", "InvalidInput"],
    ["an object in it", '{"a":{}}', "InvalidInput"],
    ["a property twice", '{"a":1,"a":2}', "DuplicatePropertiesSpecified"],
    ["an unknown type", '{"a@odata.type":"Edm.Foo","a":1}', "InvalidInput"],
    ["a type that is no text", '{"a@odata.type":1,"a":1}', "InvalidInput"],
    ["a number as String", '{"a@odata.type":"Edm.String","a":1}', "InvalidInput"],
    ["a number as Guid", '{"a@odata.type":"Edm.Guid","a":1}', "InvalidInput"],
    ["true as Int32", '{"a@odata.type":"Edm.Int32","a":true}', "InvalidInput"],
    ["a text as Int32", '{"a@odata.type":"Edm.Int32","a":"x"}', "InvalidInput"],
    ["an Int32 too large", '{"a@odata.type":"Edm.Int32","a":2147483648}', "InvalidInput"],
    ["a Double too large", '{"a":1e309}', "InvalidInput"],
    ["a bad Guid", '{"a@odata.type":"Edm.Guid","a":"x"}', "InvalidInput"],
    ["bad base64", '{"a@odata.type":"Edm.Binary","a":"x"}', "InvalidInput"],
    [
      "a time before 1601",
      '{"a@odata.type":"Edm.DateTime","a":"1600-01-01T00:00:00Z"}',
      "OutOfRangeInput",
    ],
    ["a name with a dash", '{"a-b":1}', "PropertyNameInvalid"],
    ["a name with a space", '{"a b":1}', "PropertyNameInvalid"],
    ["a name that begins with a digit", '{"1a":1}', "PropertyNameInvalid"],
    ["an empty name", '{"":1}', "PropertyNameInvalid"],
    ["a name of 256 characters", `{"${"a".repeat(256)}":1}`, "PropertyNameTooLong"],
    ["a text of 32,769 characters", `{"a":"${"x".repeat(32_769)}"}`, "PropertyValueTooLarge"],
    ["an escaped text of 32,769", `{"a":"${"\\n".repeat(32_769)}"}`, "PropertyValueTooLarge"],
    [
      "65,537 bytes",
      `{"a@odata.type":"Edm.Binary","a":"${Buffer.alloc(65_537).toString("base64")}"}`,
      "PropertyValueTooLarge",
    ],
    ["a key that is a number", '{"PartitionKey":1}', "InvalidInput"],
  ];
  for (const [what, text, code] of refused) {
    test(`refuses ${what}`, () => {
      assert.throws(
        () => parseEntity(text),
        (error) => error instanceof StorageError && error.code === code,
      );
    });
  }

  test("takes what is just within the limits", () => {
    parseEntity(`{"${"a".repeat(255)}":"${"x".repeat(32_768)}"}`);
    parseEntity(`{"a@odata.type":"Edm.Binary","a":"${Buffer.alloc(65_536).toString("base64")}"}`);
    parseEntity(`{"a":"${"\\n".repeat(32_768)}"}`);
    assert.equal(parseEntity(repeated(252)).properties.length, 252);
    assert.equal(badEntity("p", "r", parseEntity(repeated(252)).properties), undefined);
    assert.equal(badEntity("p", "r", parseEntity(repeated(253)).properties), "TooManyProperties");
  });

  test("leaves aside annotations, the Timestamp and null", () => {
    const entity = parseEntity(
      '{"odata.etag":"x","odata.metadata":"y","PartitionKey":"p","RowKey":"","Timestamp":"t","n":null,"m@odata.type":"Edm.Guid","m":null,"_é":1}',
    );
    assert.deepEqual(entity, {
      partitionKey: "p",
      rowKey: "",
      properties: [{ name: "_é", type: "Int32", json: "1" }],
    });
  });
});

test("badEntity(): 1 MiB of values is the limit", () => {
  const text = (length: number): Property => ({
    name: "a",
    type: "String",
    json: JSON.stringify("x".repeat(length)),
  });
  // 4 for the entity, 2 a character of its keys; 8 for each property, 2 a character of name and text, 4 for its length.
  const full = Array.from({ length: 15 }, () => text(32_768));
  const room = 1024 * 1024 - 4 - 4 - 15 * (8 + 2 + 4 + 65_536) - (8 + 2 + 4);
  assert.equal(badEntity("p", "r", [...full, text(room / 2)]), undefined);
  assert.equal(badEntity("p", "r", [...full, text(room / 2 + 1)]), "EntityTooLarge");
});

const keys: [value: string, want: ErrorCode | undefined][] = [
  ["", undefined],
  ["a b'c\"d%&+;:,.-_~!*()é😀\u2028\ue000", undefined],
  ["\ud800", undefined],
  ["x".repeat(512), undefined],
  ["x".repeat(513), "KeyValueTooLarge"],
  ...["/", "\\", "#", "?", "\0", "\t", "\u001f", "\u007f", "\u009f"].map(
    (character): [string, ErrorCode] => [`a${character}b`, "OutOfRangeInput"],
  ),
];
for (const [value, want] of keys) {
  test(`badKey(): ${JSON.stringify(value.slice(0, 30))}`, () => assert.equal(badKey(value), want));
}

const names: [name: string, want: ErrorCode | undefined][] = [
  ["abc", undefined],
  ["A1b", undefined],
  ["a".repeat(63), undefined],
  ["ab", "OutOfRangeInput"],
  ["", "OutOfRangeInput"],
  ["a".repeat(64), "OutOfRangeInput"],
  ["1ab", "InvalidResourceName"],
  ["a-b", "InvalidResourceName"],
  ["a_b", "InvalidResourceName"],
  ["täble", "InvalidResourceName"],
  ["tables", "InvalidInput"],
  ["TABLES", "InvalidInput"],
];
for (const [name, want] of names) {
  test(`badTableName(): ${JSON.stringify(name)}`, () => assert.equal(badTableName(name), want));
}

test("propertiesJson(): storedProperties() gives them back", () => {
  const { properties } = parseEntity(
    '{"i":1,"d":1.0,"n@odata.type":"Edm.Double","n":"NaN","l@odata.type":"Edm.Int64","l":"5","s":"a\\"@odata.type","b":true,"g@odata.type":"Edm.Guid","g":"c9da6455213d42c99a793e9149a57833","t@odata.type":"Edm.DateTime","t":"2020-01-01T00:00:00Z","x@odata.type":"Edm.Binary","x":"AQ=="}',
  );
  const text = propertiesJson(properties);
  assert.deepEqual(storedProperties(parseFlatJson(`{${text.slice(1)}}`)), properties);
});

test("merged(): replaces by name, keeps the rest in its place, adds behind", () => {
  const of = (name: string, json: string): Property => ({ name, type: "Int32", json });
  const before = [of("a", "1"), of("b", "2"), of("c", "3")];
  const changes = [of("d", "9"), of("b", "8"), of("A", "7")];
  assert.deepEqual(
    merged(before, changes).map(({ name, json }) => name + json),
    ["a1", "b8", "c3", "d9", "A7"],
  );
});
