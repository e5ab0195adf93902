import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { ownerOf } from "../auth/caller.ts";
import type { ReadTx } from "../engine/engine.ts";
import { memoryEngine } from "../engine/memory.ts";
import { StorageError } from "../rules/errors.ts";
import { entities } from "../store/keys.ts";
import { applyChange, changeOf } from "./change.ts";
import type { TableRequest } from "./format.ts";
import { answerQuery, queryOf } from "./query.ts";

const TABLE = 7n;

const requestOf = (
  more: Partial<TableRequest> & { options?: Record<string, string> },
): TableRequest => ({
  account: "a",
  caller: ownerOf("a"),
  endpoint: "http://h/a/",
  level: "entities",
  method: "GET",
  names: ["tab"],
  header: (name) => (name === "accept" ? "application/json;odata=nometadata" : undefined),
  query: new Map(Object.entries(more.options ?? {})),
  ...more,
});

async function filled(rows: Iterable<Record<string, unknown>>) {
  const engine = memoryEngine({ clock: { now: () => Date.UTC(2026, 0, 1) } });
  await engine.write(async (tx) => {
    for (const row of rows) {
      const request = requestOf({ method: "POST" });
      await applyChange(tx, TABLE, changeOf(request, Buffer.from(JSON.stringify(row))));
    }
  });
  const page = async (options: Record<string, string>) => {
    let read = 0;
    const reply = await engine.read((tx) => {
      const counting: ReadTx = {
        now: tx.now,
        get: (key) => tx.get(key),
        getHeap: (id) => tx.getHeap(id),
        heapIds: (after, limit) => tx.heapIds(after, limit),
        async range(query) {
          const rows = await tx.range(query);
          read += rows.length;
          return rows;
        },
      };
      return answerQuery(counting, TABLE, queryOf(requestOf({ options })));
    });
    const body = reply.body as { bytes: readonly Uint8Array[] };
    const { value } = JSON.parse(Buffer.concat(body.bytes).toString()) as {
      value: { PartitionKey: string; RowKey: string; n?: number }[];
    };
    const nextPartition = reply.headers["x-ms-continuation-NextPartitionKey"];
    const nextRow = reply.headers["x-ms-continuation-NextRowKey"];
    const next =
      nextPartition === undefined
        ? undefined
        : { nextpartitionkey: String(nextPartition), nextrowkey: String(nextRow) };
    return {
      keys: value.map(({ PartitionKey, RowKey }) => `${PartitionKey}|${RowKey}`),
      next,
      read,
    };
  };
  /** All pages, and how many there were. */
  const all = async (options: Record<string, string>) => {
    const keys: string[] = [];
    let pages = 0;
    let read = 0;
    for (let next: Record<string, string> | undefined = {}; next !== undefined; pages++) {
      const one = await page({ ...options, ...next });
      keys.push(...one.keys);
      read += one.read;
      next = one.next;
    }
    return { keys, pages, read };
  };
  return { page, all };
}

const key = (i: number) => String(i).padStart(5, "0");

suite("answerQuery()", async () => {
  const many = await filled(
    Array.from({ length: 30_000 }, (_, i) => ({
      PartitionKey: `p${key(Math.floor(i / 100))}`,
      RowKey: key(i % 100),
      n: i % 10,
    })),
  );

  const ranges: [filter: string, count: number, readMax: number][] = [
    ["PartitionKey eq 'p00007'", 100, 101],
    ["PartitionKey eq 'p00007' and RowKey eq '00050'", 1, 1],
    ["PartitionKey eq 'p00007' and RowKey ge '00050' and RowKey lt '00060'", 10, 10],
    ["PartitionKey eq 'p00007' and RowKey gt '00050' and RowKey le '00060'", 10, 10],
    ["PartitionKey eq 'p00007' and n eq 3", 10, 100],
    ["PartitionKey ge 'p00007' and PartitionKey lt 'p00009'", 200, 201],
    ["PartitionKey gt 'p00007' and PartitionKey le 'p00009'", 200, 201],
    ["PartitionKey ge 'p00298'", 200, 200],
    ["PartitionKey lt 'p00001'", 100, 101],
    ["PartitionKey eq 'p00001' or PartitionKey eq 'p00250'", 200, 202],
    [
      "(PartitionKey eq 'p00001' and RowKey eq '00001') or (PartitionKey eq 'p00250' and RowKey eq '00002')",
      2,
      2,
    ],
    [
      "PartitionKey eq 'p00001' and (RowKey eq '00001' or RowKey eq '00003' or RowKey eq 'x')",
      2,
      2,
    ],
    ["PartitionKey eq 'none'", 0, 0],
    ["PartitionKey eq 'p00001' and PartitionKey eq 'p00002'", 0, 0],
    ["not (PartitionKey ne 'p00001')", 100, 101],
    ["false", 0, 0],
  ];
  for (const [filter, count, readMax] of ranges) {
    test(`${filter} reads only what it needs`, async () => {
      const { keys, next, read } = await many.page({ $filter: filter });
      assert.equal(keys.length, count);
      assert.equal(next, undefined);
      assert.ok(read <= readMax, `${read} entities were read`);
      assert.deepEqual(keys, [...keys].sort());
    });
  }

  test("a page holds 1,000, and the pages together all, in order", async () => {
    const { keys, next } = await many.page({});
    assert.equal(keys.length, 1_000);
    assert.ok(next !== undefined);
    const all = await many.all({});
    assert.equal(all.keys.length, 30_000);
    assert.equal(all.pages, 30);
    assert.deepEqual(all.keys, [...all.keys].sort());
    assert.ok(all.read <= 30_000 + 30 * 1_001, `${all.read} entities were read`);
  });

  test("a scan that finds little is cut into pages, which may be empty", async () => {
    const { keys, pages } = await many.all({ $filter: "n eq 11" });
    assert.deepEqual(keys, []);
    assert.ok(pages >= 3 && pages <= 10, `${pages} pages`);
    const some = await many.all({ $filter: "RowKey eq '00050'" });
    assert.equal(some.keys.length, 300);
  });

  test("a dear filter is cut into smaller pages", async () => {
    const filter = Array.from({ length: 100 }, () => "n eq 11").join(" or ");
    const { keys, next, read } = await many.page({ $filter: filter });
    assert.equal(keys.length, 0);
    assert.ok(next !== undefined);
    assert.ok(read < 2_000, `${read} entities were read`);
  });

  test("$top bounds a page, and the next one goes on behind it", async () => {
    for (const $filter of ["PartitionKey eq 'p00007'", "PartitionKey eq 'p00007' and n ge 0"]) {
      const { keys, pages } = await many.all({ $top: "7", $filter });
      assert.equal(keys.length, 100);
      assert.equal(pages, 15);
      assert.equal(new Set(keys).size, 100);
    }
    assert.deepEqual((await many.page({ $top: "0" })).keys, []);
  });

  test("pages go on across the runs of an or", async () => {
    const names = ["p00250", "p00001", "p00100"];
    const $filter = names.map((name) => `PartitionKey eq '${name}'`).join(" or ");
    const { keys, pages } = await many.all({ $top: "30", $filter });
    assert.equal(keys.length, 300);
    assert.equal(pages, 10);
    assert.deepEqual(keys, [...keys].sort());
  });

  test("a page of large entities ends before it is too large", async () => {
    const large = await filled(
      Array.from({ length: 12 }, (_, i) => ({
        PartitionKey: "p",
        RowKey: key(i),
        ...Object.fromEntries(Array.from({ length: 15 }, (_, n) => [`v${n}`, "x".repeat(32_000)])),
      })),
    );
    const { keys, next } = await large.page({});
    assert.ok(keys.length >= 8 && keys.length < 12, `${keys.length} entities`);
    assert.ok(next !== undefined);
    assert.equal((await large.all({})).keys.length, 12);
  });

  test("keys sort by UTF-16 code units, and any of them can begin a page", async () => {
    const keys = [
      "",
      " ",
      "A",
      "a",
      "a ",
      "aa",
      "é",
      "\ud7ff",
      "😀",
      "😀a",
      "\ud83d",
      "\ue000",
      "\uffff",
    ];
    const odd = await filled(
      keys.flatMap((PartitionKey) => keys.map((RowKey) => ({ PartitionKey, RowKey }))),
    );
    const sorted = [...keys].sort();
    const want = sorted.flatMap((one) => sorted.map((other) => `${one}|${other}`));
    assert.deepEqual((await odd.all({ $top: "3" })).keys, want);
    for (const bound of keys) {
      const quoted = `'${bound}'`;
      const above = await odd.all({ $filter: `PartitionKey gt ${quoted}` });
      assert.deepEqual(
        above.keys,
        want.filter((each) => (each.split("|")[0] ?? "") > bound),
      );
      const below = await odd.all({ $filter: `PartitionKey eq 'a' and RowKey le ${quoted}` });
      const isWanted = (each: string) => each.startsWith("a|") && each.slice(2) <= bound;
      assert.deepEqual(below.keys, want.filter(isWanted));
    }
  });

  for (const options of [
    { nextpartitionkey: "x" },
    { nextpartitionkey: "1!3!YQ" },
    { nextpartitionkey: "1!2!Y*" },
    { nextpartitionkey: "2!2!YQ" },
    { nextrowkey: "1!2!YQ" },
    { $top: "-1" },
    { $top: "1001" },
    { $top: "x" },
    { $filter: "n eq" },
    { $select: "a-b" },
    { $select: Array.from({ length: 256 }, (_, i) => `n${i}`).join(",") },
  ]) {
    test(`${JSON.stringify(options).slice(0, 60)} is InvalidInput`, async () => {
      await assert.rejects(
        many.page(options as unknown as Record<string, string>),
        (error) => error instanceof StorageError && error.code === "InvalidInput",
      );
    });
  }

  for (const name of ["$orderby", "$skip", "$count", "$expand", "$inlinecount", "$skiptoken"]) {
    test(`${name} is NotImplemented`, async () => {
      await assert.rejects(
        many.page({ [name]: "1" }),
        (error) => error instanceof StorageError && error.code === "NotImplemented",
      );
    });
  }
});

test("entities: the keys come back from the key", () => {
  for (const text of ["", "a", "é", "\ud7ff", "😀", "\ud83d", "\ue000", "\uffff"]) {
    assert.deepEqual(entities.unpacked(entities.packed([5n, text, `${text}x`])), [
      5n,
      text,
      `${text}x`,
    ]);
  }
});
