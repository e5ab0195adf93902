import assert from "node:assert/strict";
import { test } from "node:test";
import { StorageError } from "../rules/errors.ts";
import { tablePlace, tableVerb } from "./place.ts";

const rows: [path: string, want: unknown[] | string][] = [
  ["", ["service"]],
  ["/", ["service"]],
  ["$batch", ["batch"]],
  ["$metadata", ["metadata"]],
  ["Tables", ["tables"]],
  ["tables", ["tables"]],
  ["Tables()", ["tables"]],
  ["Tables('abc')", ["table", "abc"]],
  ["Tables('a''c')", ["table", "a'c"]],
  ["abc", ["entities", "abc"]],
  ["abc()", ["entities", "abc"]],
  ["abc/", ["entities", "abc"]],
  ["abc(PartitionKey='p',RowKey='r')", ["entity", "abc", "p", "r"]],
  ["abc(PartitionKey='p', RowKey='r')", ["entity", "abc", "p", "r"]],
  ["abc(RowKey='r',PartitionKey='p')", ["entity", "abc", "p", "r"]],
  ["abc(PartitionKey='',RowKey='')", ["entity", "abc", "", ""]],
  ["abc(RowKey='',PartitionKey='')", ["entity", "abc", "", ""]],
  ["abc(PartitionKey='it''s',RowKey='''')", ["entity", "abc", "it's", "'"]],
  ["abc(PartitionKey='a,b',RowKey='),(')", ["entity", "abc", "a,b", "),("]],
  ["abc(PartitionKey='x'',RowKey=''y',RowKey='z')", ["entity", "abc", "x',RowKey='y", "z"]],
  ["abc(PartitionKey='p')", "InvalidInput"],
  ["abc('p')", "InvalidInput"],
  ["abc(PartitionKey='p',RowKey='r'", ["entities", "abc(PartitionKey='p',RowKey='r'"]],
  ["abc(PartitionKey='p',RowKey='r')x", ["entities", "abc(PartitionKey='p',RowKey='r')x"]],
  ["abc(PartitionKey=p,RowKey=r)", "InvalidInput"],
  ["abc(PartitionKey='p'x',RowKey='r')", "InvalidInput"],
  ["abc/def", "InvalidUri"],
  ["abc/def/ghi", "InvalidUri"],
];
for (const [path, want] of rows) {
  test(`tablePlace(): /${path}`, () => {
    const place = () => tablePlace(path.split("/"));
    if (typeof want !== "string") {
      const { level, names } = place();
      assert.deepEqual([level, ...names], want);
    } else {
      assert.throws(place, (error) => error instanceof StorageError && error.code === want);
    }
  });
}

test("tablePlace(): a long key takes no longer than it should", () => {
  const begin = performance.now();
  assert.throws(() => tablePlace([`abc(PartitionKey='${"''".repeat(15_000)}x)`]));
  assert.equal(
    tablePlace([`abc(PartitionKey='${"''".repeat(15_000)}',RowKey='')`]).level,
    "entity",
  );
  assert.ok(performance.now() - begin < 500);
});

const verbs: [method: string, header: string | undefined, want: string][] = [
  ["POST", undefined, "POST"],
  ["PATCH", undefined, "PATCH"],
  ["POST", "MERGE", "MERGE"],
  ["POST", "PUT", "PUT"],
  ["POST", "PATCH", "PATCH"],
  ["POST", "DELETE", "DELETE"],
  ["POST", "GET", "XMethodIncorrectValue"],
  ["POST", "merge", "XMethodIncorrectValue"],
  ["POST", "", "XMethodIncorrectValue"],
  ["POST", "MERGE, PUT", "XMethodIncorrectCount"],
  ["PUT", "MERGE", "XMethodNotUsingPost"],
  ["GET", "DELETE", "XMethodNotUsingPost"],
];
for (const [method, header, want] of verbs) {
  test(`tableVerb(): ${method} with ${header}`, () => {
    const verb = () => tableVerb(method, () => header);
    if (!want.startsWith("X")) assert.equal(verb(), want);
    else assert.throws(verb, (error) => error instanceof StorageError && error.code === want);
  });
}
