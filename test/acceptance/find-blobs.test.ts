import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import * as b from "./blobs.ts";
import { keepDeleted, undelete } from "./past.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

// Find Blobs by Tags, of the account and of a container (SEMANTICS a.5, c.14).

type Fields = Record<string, string>;
let server: TestServer;
before(async () => {
  server = await startServer({ args: ["--containerRetention", "1"] });
  for (const name of ["one", "two"]) await b.createContainer(server, name);
});
after(() => server.stop());

type Found = { readonly items: string[]; readonly next: string; readonly text: string };

/** One page of a search of the account, or of a container. */
async function page(where: string, query: Fields = {}, container?: string): Promise<Found> {
  const level: Fields = container === undefined ? {} : { restype: "container" };
  const all = { comp: "blobs", ...level, where, ...query };
  const reply = await send(server, { method: "GET", path: `/${container ?? ""}`, query: all });
  const { text } = b.assertReply(reply, 200, undefined, where);
  const items = [...text.matchAll(/<Blob>(.*?)<\/Blob>/gs)].map(
    ([, xml = ""]) => `${b.texts(xml, "ContainerName")[0]}/${b.texts(xml, "Name")[0]}`,
  );
  return { items, next: b.texts(text, "NextMarker")[0] ?? "", text };
}

async function found(where: string, query: Fields = {}, container?: string): Promise<string[]> {
  const items: string[] = [];
  let marker = "";
  for (let pages = 0; pages < 500; pages++) {
    const one = await page(where, { ...query, ...(marker && { marker }) }, container);
    assert.ok(one.items.length <= Number(query.maxresults ?? 5000), "a page is too long");
    items.push(...one.items);
    marker = one.next;
    if (marker === "") return items;
  }
  throw new Error("the pages do not end");
}

const put = (path: string, tags: string) =>
  b.putBlob(server, path, "x", tags === "" ? {} : { "x-ms-tags": tags });
const setTags = async (path: string, tags: Fields, query: Fields = {}) => {
  const xml = Object.entries(tags).map(
    ([key, value]) => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`,
  );
  const body = `<Tags><TagSet>${xml.join("")}</TagSet></Tags>`;
  b.assertReply(await b.putComp(server, path, "tags", { body, query }), 204);
};

suite("what is found", () => {
  // number = 00 … 29 over two containers; kind tells even from odd.
  const every = Array.from({ length: 30 }, (_, i) => ({
    number: String(i).padStart(2, "0"),
    container: i % 3 === 0 ? "two" : "one",
    kind: i % 2 === 0 ? "even" : "odd",
  }));
  const path = (i: (typeof every)[number]) => `${i.container}/n${i.number}`;
  before(() =>
    b.atOnce(
      6,
      every.map((i) => () => put(`/${path(i)}`, `number=${i.number}&kind=${i.kind}&all=1`)),
    ),
  );

  type Item = (typeof every)[number];
  const searches: [where: string, of: (item: Item) => boolean][] = [
    ["number = '07'", ({ number }) => number === "07"],
    ["number > '07'", ({ number }) => number > "07"],
    ["number >= '07'", ({ number }) => number >= "07"],
    ["number < '07'", ({ number }) => number < "07"],
    ["number <= '07'", ({ number }) => number <= "07"],
    ["number > '05' AND number < '09'", ({ number }) => number > "05" && number < "09"],
    ["number >= '05' AND number <= '09'", ({ number }) => number >= "05" && number <= "09"],
    ["number > '09' AND number < '05'", () => false],
    ["number = '05' AND number = '06'", () => false],
    ["kind = 'even'", ({ kind }) => kind === "even"],
    ["kind = 'even' AND number >= '20'", ({ kind, number }) => kind === "even" && number >= "20"],
    ["number >= '20' AND kind = 'even'", ({ kind, number }) => kind === "even" && number >= "20"],
    ["all = '1'", () => true],
    ["all >= '' AND kind > 'a' AND number < '03'", ({ number }) => number < "03"],
    ["(kind = 'odd') AND (number = '03')", ({ number }) => number === "03"],
    ["\"number\" = '11'", ({ number }) => number === "11"],
    ["Kind = 'even'", () => false],
    ["kind = 'Even'", () => false],
    ["kind = 'eve'", () => false],
    ["kind = ''", () => false],
    ["@container = 'two' AND kind = 'odd'", (i) => i.container === "two" && i.kind === "odd"],
    ["kind = 'odd' AND @container='one'", (i) => i.container === "one" && i.kind === "odd"],
    ["@container = 'none' AND kind = 'odd'", () => false],
  ];
  for (const [where, of] of searches) {
    test(`${where}, in pages of every size`, async () => {
      const want = every.filter(of).map(path);
      const whole = await found(where);
      assert.deepEqual(new Set(whole), new Set(want));
      assert.equal(whole.length, want.length, "each once");
      for (const maxresults of ["2", "7"]) {
        assert.deepEqual(await found(where, { maxresults }), whole, `in pages of ${maxresults}`);
      }
      if (where.includes("@container")) return;
      for (const container of ["one", "two"]) {
        const inside = await found(where, { maxresults: "4" }, container);
        const mine = want.filter((name) => name.startsWith(`${container}/`));
        assert.deepEqual(new Set(inside), new Set(mine), container);
        assert.equal(inside.length, mine.length, "each once");
      }
    });
  }

  test("the reply says what was asked, and shows the tags that were", async () => {
    const { text } = await page("kind = 'odd' AND number = '07'");
    assert.match(text, /<EnumerationResults ServiceEndpoint="[^"]+">/);
    assert.deepEqual(b.texts(text, "Where"), ["kind = 'odd' AND number = '07'"]);
    const tags = b.texts(text, "Key").map((key, i) => `${key}=${b.texts(text, "Value")[i]}`);
    assert.deepEqual(new Set(tags), new Set(["kind=odd", "number=07"]));
    b.assertReply(
      await send(server, { method: "HEAD", path: "/", query: { comp: "blobs", where: "a = '1'" } }),
      405,
    );
  });

  const refused: [what: string, query: Fields, container?: string][] = [
    ["no where", {}],
    ["an empty one", { where: "" }],
    ["<>", { where: "kind <> 'even'" }],
    ["OR", { where: "kind = 'even' OR kind = 'odd'" }],
    ["no value", { where: "kind =" }],
    ["a bare value", { where: "kind = even" }],
    ["a value no tag can have", { where: "kind = 'a*b'" }],
    ["a name no tag can have", { where: "\"a*b\" = 'x'" }],
    ["eleven ANDs", { where: Array(12).fill("kind = 'x'").join(" AND ") }],
    ["a container by another sign", { where: "@container > 'a' AND kind = 'odd'" }],
    ["two containers", { where: "@container='a' AND @container='b' AND kind = 'odd'" }],
    ["another word with @", { where: "@name = 'a' AND kind = 'odd'" }],
    ["a container within one", { where: "@container = 'one' AND kind = 'odd'" }, "one"],
    ["no page at all", { where: "kind = 'odd'", maxresults: "0" }],
    ["less than none", { where: "kind = 'odd'", maxresults: "-1" }],
    ["no number", { where: "kind = 'odd'", maxresults: "many" }],
    ["a marker that is none", { where: "kind = 'odd'", marker: "nonsense" }],
    ["a marker of brackets", { where: "kind = 'odd'", marker: "e30=" }],
    ["quotes without end", { where: `kind = '${"'".repeat(5_001)}` }],
    ["parentheses without end", { where: "(".repeat(5_000) }],
  ];
  for (const [what, query, container] of refused) {
    test(`${what} is refused`, async () => {
      const level: Fields = container === undefined ? {} : { restype: "container" };
      const all = { comp: "blobs", ...level, ...query };
      const path = `/${container ?? ""}`;
      b.assertReply(await send(server, { method: "GET", path, query: all }), 400);
    });
  }

  test("a container that is not there is 404; conditions are refused", async () => {
    const query = { comp: "blobs", restype: "container", where: "kind = 'odd'" };
    const none = await send(server, { method: "GET", path: "/no-such", query });
    b.assertReply(none, 404, "ContainerNotFound");
    const headers = { "if-match": "*" };
    b.assertReply(await send(server, { method: "GET", path: "/one", query, headers }), 400);
  });

  test("a marker of one search is no way into another: what comes still meets what was asked", async () => {
    const { next } = await page("kind = 'even'", { maxresults: "2" });
    const query = { comp: "blobs", where: "number > '25'", marker: next };
    const reply = await send(server, { method: "GET", path: "/", query });
    assert.ok([200, 400].includes(reply.status));
    assert.ok(b.texts(reply.text, "Name").every((name) => name > "n25"));
  });
});

suite("names and values", () => {
  const names = [
    "a b",
    "ü",
    "日本/語",
    "100%",
    "a+b?c#d",
    "&<>\"'",
    "😀",
    "x".repeat(900),
    "A",
    "a",
  ];

  test("of every kind are found, in pages, and read as they are", async () => {
    for (const name of names) await put(`/one/${name}`, "odd=1");
    const whole = await found("odd = '1'");
    assert.deepEqual(new Set(whole), new Set(names.map((name) => `one/${name}`)));
    for (const maxresults of ["1", "3"]) {
      assert.deepEqual(await found("odd = '1'", { maxresults }), whole);
    }
    assert.deepEqual(await found("odd = '1'", { maxresults: "2" }, "one"), whole);
  });

  test("a name that XML cannot hold is encoded, and says so", async () => {
    await put("/one/bad\ufffename", "beyond=1");
    const { text } = await page("beyond = '1'");
    assert.match(text, /<Name Encoded="true">bad%EF%BF%BEname<\/Name>/);
  });

  test("keys and values with every character a tag may have", async () => {
    const key = "aZ09 +-./:=_";
    await setTags("/one/a b", { [key]: key, empty: "", [`${"k".repeat(128)}`]: "v".repeat(256) });
    assert.deepEqual(await found(`"${key}" = '${key}'`), ["one/a b"]);
    assert.deepEqual(await found("empty = ''"), ["one/a b"]);
    assert.deepEqual(await found(`${"k".repeat(128)} = '${"v".repeat(256)}'`), ["one/a b"]);
    assert.deepEqual(await found(`${"k".repeat(129)} = 'x'`), []);
  });

  test("values in the order of their codes: upper case first, a shorter one before a longer", async () => {
    const values = ["", " ", "+", "0", "00", "1", "A", "B", "_", "a", "aa", "ab", "b"];
    for (const [i, value] of values.entries()) {
      await put(`/two/v${i}`, "");
      await setTags(`/two/v${i}`, { order: value });
    }
    for (const [i, value] of values.entries()) {
      const all = values.map((_, n) => `two/v${n}`);
      assert.deepEqual(await found(`order < '${value}'`), all.slice(0, i), `< '${value}'`);
      assert.deepEqual(await found(`order <= '${value}'`), all.slice(0, i + 1), `<= '${value}'`);
      assert.deepEqual(await found(`order > '${value}'`), all.slice(i + 1), `> '${value}'`);
      assert.deepEqual(await found(`order >= '${value}'`), all.slice(i), `>= '${value}'`);
    }
  });
});

suite("what happens to a blob happens to what is found", () => {
  const path = "/one/life";
  const where = (tag: string) => found(`life = '${tag}'`);
  const there = ["one/life"];

  test("Set Blob Tags, Put Blob, Put Block List, Set Blob Metadata", async () => {
    await put(path, "life=1&also=1");
    assert.deepEqual(await where("1"), there);
    await setTags(path, { life: "2" });
    assert.deepEqual(
      [await where("1"), await where("2"), await found("also = '1'")],
      [[], there, []],
    );
    b.assertReply(
      await b.putComp(server, path, "metadata", { headers: { "x-ms-meta-a": "1" } }),
      200,
    );
    assert.deepEqual(await where("2"), there, "metadata leave tags alone");
    await put(path, "life=3");
    assert.deepEqual([await where("2"), await where("3")], [[], there]);
    b.assertReply(await b.tryPutBlockList(server, path, [], { "x-ms-tags": "life=4" }), 201);
    assert.deepEqual([await where("3"), await where("4")], [[], there]);
    await put(path, "");
    assert.deepEqual(await found("life >= ''"), []);
    await setTags(path, { life: "5" });
    await setTags(path, {});
    assert.deepEqual(await found("life >= ''"), []);
  });

  test("a write that is refused leaves them as they are", async () => {
    await put(path, "life=6");
    const headers = { "x-ms-tags": "life=7", "if-match": '"0x1"' };
    b.assertReply(await b.tryPutBlob(server, path, "x", headers), 412);
    const body = "<Tags><TagSet><Tag><Key>life</Key><Value>7</Value></Tag></TagSet></Tags>";
    const condition = { "x-ms-if-tags": "life = '7'" };
    b.assertReply(await b.putComp(server, path, "tags", { body, headers: condition }), 412);
    assert.deepEqual([await where("6"), await where("7")], [there, []]);
  });

  test("Copy Blob and Copy Blob From URL", async () => {
    const source = { "x-ms-copy-source": `${server.url}/one/life` };
    const copy = async (to: string, headers: Fields) =>
      b.assertReply(
        await send(server, { method: "PUT", path: to, headers: { ...source, ...headers } }),
        202,
      );
    await put(path, "life=8");
    await copy("/one/copy-a", {});
    assert.deepEqual(await where("8"), there, "tags are not copied");
    await copy("/one/copy-b", { "x-ms-tags": "life=8" });
    assert.deepEqual(await where("8"), ["one/copy-b", "one/life"]);
    await copy("/one/copy-b", { "x-ms-requires-sync": "true" });
    assert.deepEqual(await where("8"), there, "a copy replaces the tags");
    const option = { "x-ms-requires-sync": "true", "x-ms-copy-source-tag-option": "COPY" };
    await copy("/one/copy-b", option);
    assert.deepEqual(await where("8"), ["one/copy-b", "one/life"]);
    b.assertReply(await b.deleteBlob(server, "/one/copy-b"), 202);
  });

  test("Delete Blob, for good", async () => {
    await put(path, "life=9");
    b.assertReply(await b.deleteBlob(server, path), 202);
    assert.deepEqual(await where("9"), []);
  });

  test("Delete Blob and Undelete Blob, with soft delete", async () => {
    await keepDeleted(server, 1);
    try {
      await put(path, "life=10");
      b.assertReply(await b.deleteBlob(server, path), 202);
      assert.deepEqual(await where("10"), []);
      await undelete(server, path);
      assert.deepEqual(await where("10"), there);
      b.assertReply(await b.deleteBlob(server, path), 202);
      await put(path, "life=11");
      assert.deepEqual([await where("10"), await where("11")], [[], there]);
      await undelete(server, path);
      assert.deepEqual([await where("10"), await where("11")], [[], there]);
    } finally {
      await keepDeleted(server, undefined);
    }
  });

  test("Snapshot Blob: only the blob itself is found, never its snapshot", async () => {
    await put(path, "life=12");
    const snapshot = await b.takeSnapshot(server, path);
    assert.deepEqual(await where("12"), there);
    await setTags(path, { life: "13" });
    assert.deepEqual([await where("12"), await where("13")], [[], there]);
    b.assertReply(await b.deleteBlob(server, path, { query: { snapshot } }), 202);
    assert.deepEqual(await where("13"), there);
  });

  test("Delete Container, a new one of its name, Restore Container", async () => {
    const query = { restype: "container" };
    const remove = () => send(server, { method: "DELETE", path: "/life", query });
    await b.createContainer(server, "life");
    await put("/life/old", "life=14");
    b.assertReply(await remove(), 202);
    assert.deepEqual(await where("14"), []);
    const listed = await send(server, {
      ...{ method: "GET", path: "/", query: { comp: "list", include: "deleted", prefix: "life" } },
    });
    const version = b.texts(listed.text, "Version")[0] ?? "";
    await b.createContainer(server, "life");
    await put("/life/new", "life=14");
    assert.deepEqual(await where("14"), ["life/new"]);
    assert.deepEqual(await found("life = '14'", {}, "life"), ["life/new"]);
    b.assertReply(await remove(), 202);
    const restored = await send(server, {
      ...{ method: "PUT", path: "/life", query: { ...query, comp: "undelete" } },
      headers: { "x-ms-deleted-container-name": "life", "x-ms-deleted-container-version": version },
    });
    b.assertReply(restored, 201);
    assert.deepEqual(await where("14"), ["life/old"]);
    assert.deepEqual(await found("@container = 'life' AND life = '14'"), ["life/old"]);
  });

  test("a search while tags change finds each blob that never stops to match", async () => {
    const names = Array.from({ length: 12 }, (_, i) => `c${i}`);
    for (const name of names) await put(`/two/${name}`, "churn=1&turn=0");
    const churn = (async () => {
      for (let turn = 1; turn <= 3; turn++) {
        for (const name of names) await setTags(`/two/${name}`, { churn: "1", turn: String(turn) });
      }
    })();
    const all = new Set(names.map((name) => `two/${name}`));
    for (let i = 0; i < 4; i++) {
      assert.deepEqual(new Set(await found("churn = '1'", { maxresults: "5" })), all);
    }
    await churn;
    assert.deepEqual(new Set(await found("churn = '1' AND turn = '3'")), all);
  });
});

test("with versions: only current states are found, and tags of past ones change nothing", async (t) => {
  const own = await startServer({ args: ["--versioning"] });
  t.after(() => own.stop());
  await b.createContainer(own, "box");
  const container = b.containerClient(own, "box");
  const find = async (where: string) => {
    const names: string[] = [];
    for await (const { name } of container.findBlobsByTags(where)) names.push(name);
    return names;
  };
  const blob = container.getBlockBlobClient("a");
  const { versionId: first = "" } = await blob.upload("one", 3, { tags: { v: "1" } });
  const { versionId: second = "" } = await blob.upload("two", 3, { tags: { v: "2" } });
  assert.deepEqual([await find("v = '1'"), await find("v = '2'")], [[], ["a"]]);
  await blob.withVersion(first).setTags({ v: "2" });
  assert.deepEqual(await find("v = '2'"), ["a"]);
  assert.deepEqual((await blob.withVersion(first).getTags()).tags, { v: "2" });
  await blob.withVersion(second).setTags({ v: "3" });
  assert.deepEqual([await find("v = '2'"), await find("v = '3'")], [[], ["a"]]);
  await blob.setMetadata({ a: "1" });
  assert.deepEqual(await find("v = '3'"), ["a"]);
  await blob.delete();
  assert.deepEqual(await find("v >= ''"), []);
  await blob.withVersion(first).delete();
  await blob.syncCopyFromURL(blob.withVersion(second).url, { tags: { v: "4" } });
  assert.deepEqual(await find("v >= ''"), ["a"]);
});
