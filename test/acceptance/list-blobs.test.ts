import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as b from "./blobs.ts";
import type { RawReply } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

let server: TestServer;

// Upper case first, then by the bytes of UTF-8: U+FF5E before U+1F600, which UTF-16 would turn round.
const ordered = ["A", "B", "Z", "a", "a/1", "a/2", "a/b/3", "a/b/4", "aa", "b/1", "c", "d//e", "z"];
ordered.push("\u00e9", "\u65e5\u672c", "\uff5e", "\u{1f600}");
const hostile = [" space", "&<>\"'", "100%", "a+b", "a?b#c", "end.", "semi;colon", "]]>"];
const unwritable = ["bad\ufffename", "bad\uffff"];

before(async () => {
  server = await startServer();
  const containers = ["ordered", "hostile", "folded", "kinds", "empty", "large", "paged"];
  for (const container of containers) await b.createContainer(server, container);
  for (const name of ordered.toReversed()) await b.putBlob(server, `/ordered/${name}`, "x");
  for (const name of [...hostile, ...unwritable]) await b.putBlob(server, `/hostile/${name}`, "x");
});
after(() => server.stop());

const list = (container: string, query: Record<string, string> = {}): Promise<RawReply> =>
  b.getBlob(server, `/${container}`, { query: { restype: "container", comp: "list", ...query } });

type Item = { readonly kind: "Blob" | "BlobPrefix"; readonly name: string; readonly xml: string };

function itemsOf(xml: string): Item[] {
  const blobs = /<Blobs>(.*)<\/Blobs>/s.exec(xml)?.[1] ?? "";
  return [...blobs.matchAll(/<(Blob|BlobPrefix)>(.*?)<\/\1>/gs)].map((match) => {
    const inner = match[2] ?? "";
    const name = b.texts(inner, "Name")[0] ?? "";
    return {
      kind: match[1] as Item["kind"],
      name: /<Name Encoded="true">/.test(inner) ? decodeURIComponent(name) : name,
      xml: inner,
    };
  });
}

/** Every page to the end, each within its size; fails if the pages do not end. */
async function pagesOf(container: string, query: Record<string, string>): Promise<Item[][]> {
  const { maxresults = "5000" } = query;
  const pages: Item[][] = [];
  let marker: string | undefined;
  do {
    const more = marker === undefined ? {} : { marker };
    const reply = b.assertReply(await list(container, { ...query, ...more }), 200);
    const page = itemsOf(reply.text);
    assert.ok(page.length <= Number(maxresults));
    pages.push(page);
    marker = b.texts(reply.text, "NextMarker")[0] ?? "";
    assert.ok(pages.length < 4000, "the pages do not end");
  } while (marker !== "");
  return pages;
}

const namesOf = (items: readonly Item[], kind: Item["kind"] = "Blob") =>
  items.filter((item) => item.kind === kind).map((item) => item.name);

test("List Blobs: names come in the order of their bytes, upper case first", async () => {
  const reply = b.assertReply(await list("ordered"), 200);
  assert.match(String(reply.headers["content-type"]), /^application\/xml/);
  assert.deepEqual(namesOf(itemsOf(reply.text)), ordered);
});

for (const size of ["1", "2", "3", "7", "17", "5000"]) {
  test(`List Blobs: pages of ${size} give every name once, in order`, async () => {
    const pages = await pagesOf("ordered", { maxresults: size });
    assert.deepEqual(namesOf(pages.flat()), ordered);
    assert.notEqual(pages.at(-1)?.length, 0, "the last page is empty");
    const seen = namesOf((await pagesOf("hostile", { maxresults: size })).flat());
    assert.deepEqual(new Set(seen), new Set([...hostile, ...unwritable]));
    assert.equal(seen.length, hostile.length + unwritable.length);
  });
}

type Fold = [query: Record<string, string>, blobs: string[], prefixes: string[]];
const tail = ordered.slice(12);
const folds: Fold[] = [
  [{ prefix: "a" }, ["a", "a/1", "a/2", "a/b/3", "a/b/4", "aa"], []],
  [{ prefix: "a/" }, ["a/1", "a/2", "a/b/3", "a/b/4"], []],
  [{ prefix: "c" }, ["c"], []],
  [{ prefix: "C" }, [], []],
  [{ prefix: "\u65e5" }, ["\u65e5\u672c"], []],
  [{ delimiter: "/" }, ["A", "B", "Z", "a", "aa", "c", ...tail], ["a/", "b/", "d/"]],
  [{ delimiter: "/", prefix: "a" }, ["a", "aa"], ["a/"]],
  [{ delimiter: "/", prefix: "a/" }, ["a/1", "a/2"], ["a/b/"]],
  [{ delimiter: "/", prefix: "a/b/" }, ["a/b/3", "a/b/4"], []],
  [{ delimiter: "/", prefix: "d/" }, [], ["d//"]],
  [{ delimiter: "/", prefix: "x" }, [], []],
  [{ delimiter: "/b/" }, ordered.filter((name) => !name.startsWith("a/b/")), ["a/b/"]],
  [{ delimiter: "//", prefix: "d" }, [], ["d//"]],
  [{ delimiter: "\u672c" }, ordered.filter((name) => name !== "\u65e5\u672c"), ["\u65e5\u672c"]],
  [{ delimiter: "none" }, ordered, []],
];
for (const [query, blobs, prefixes] of folds) {
  test(`List Blobs: ${JSON.stringify(query)} finds its blobs and prefixes, in pages of any size`, async () => {
    for (const size of ["1", "2", "3", "7", "5000"]) {
      const items = (await pagesOf("ordered", { ...query, maxresults: size })).flat();
      assert.deepEqual(namesOf(items), blobs, `blobs in pages of ${size}`);
      assert.deepEqual(namesOf(items, "BlobPrefix"), prefixes, `prefixes in pages of ${size}`);
    }
  });
}

test("List Blobs: a prefix stands for all its blobs, so nothing is left after it", async () => {
  const names = Array.from({ length: 60 }, (_, i) => `p/${i}`);
  await b.atOnce(
    8,
    names.map((name) => () => b.putBlob(server, `/folded/${name}`, "x")),
  );
  const pages = await pagesOf("folded", { delimiter: "/", maxresults: "1" });
  assert.deepEqual(
    pages.map((page) => namesOf(page, "BlobPrefix")),
    [["p/"]],
  );
  await b.putBlob(server, "/folded/q", "x");
  const longer = await pagesOf("folded", { delimiter: "/", maxresults: "1" });
  assert.deepEqual(
    longer.map((page) => page.map((item) => item.name)),
    [["p/"], ["q"]],
  );
});

test("List Blobs: what was sent is echoed, what was not is absent", async () => {
  const bare = b.assertReply(await list("ordered"), 200).text;
  for (const name of ["Prefix", "Marker", "MaxResults", "Delimiter"]) {
    assert.deepEqual(b.texts(bare, name), [], name);
  }
  assert.deepEqual(b.texts(bare, "NextMarker"), [""]);
  const head = /<EnumerationResults [^>]*>/.exec(bare)?.[0] ?? "";
  assert.ok(head.includes(`ServiceEndpoint="${server.url}/"`), head);
  assert.ok(head.includes('ContainerName="ordered"'), head);

  const sent = { prefix: "a&<", delimiter: "&", maxresults: "3" };
  const echoed = b.assertReply(await list("ordered", sent), 200).text;
  assert.deepEqual(b.texts(echoed, "Prefix"), ["a&<"]);
  assert.deepEqual(b.texts(echoed, "Delimiter"), ["&"]);
  assert.deepEqual(b.texts(echoed, "MaxResults"), ["3"]);

  const first = b.assertReply(await list("ordered", { maxresults: "1" }), 200).text;
  const marker = b.texts(first, "NextMarker")[0] ?? "";
  assert.notEqual(marker, "");
  const second = b.assertReply(await list("ordered", { maxresults: "1", marker }), 200).text;
  assert.deepEqual(b.texts(second, "Marker"), [marker]);
});

test("List Blobs: a name that XML cannot hold is marked as encoded, others are not", async () => {
  const items = itemsOf((await list("hostile")).text);
  for (const { name, xml } of items) {
    assert.equal(/Encoded="true"/.test(xml), unwritable.includes(name), JSON.stringify(name));
  }
  assert.deepEqual(new Set(namesOf(items)), new Set([...hostile, ...unwritable]));
  const listed: string[] = [];
  const container = b.containerClient(server, "hostile");
  for await (const blob of container.listBlobsFlat()) listed.push(blob.name);
  assert.deepEqual(new Set(listed), new Set([...hostile, ...unwritable]));
});

test("List Blobs: a blob's elements are its properties, the ETag without quotes", async () => {
  const path = "/kinds/elements";
  const put = await b.putBlob(server, path, "data", {
    "x-ms-blob-content-type": 'text/plain; a="<&>"',
    "x-ms-blob-content-encoding": "identity",
    "x-ms-blob-content-language": "en",
    "x-ms-blob-content-disposition": "inline",
    "x-ms-blob-cache-control": "no-cache",
    "x-ms-tags": "a=1&b=2",
  });
  const [item] = itemsOf((await list("kinds", { prefix: "elements" })).text);
  const etag = String(put.headers.etag);
  const want: Record<string, string[]> = {
    Etag: [etag.slice(1, -1)],
    "Last-Modified": [String(put.headers["last-modified"])],
    "Creation-Time": [String(put.headers["last-modified"])],
    "Content-Length": ["4"],
    "Content-Type": ['text/plain; a="<&>"'],
    "Content-Encoding": ["identity"],
    "Content-Language": ["en"],
    "Content-Disposition": ["inline"],
    "Cache-Control": ["no-cache"],
    "Content-MD5": [String(put.headers["content-md5"])],
    BlobType: ["BlockBlob"],
    AccessTier: ["Hot"],
    AccessTierInferred: ["true"],
    LeaseStatus: ["unlocked"],
    LeaseState: ["available"],
    LeaseDuration: [],
    ServerEncrypted: ["true"],
    TagCount: ["2"],
    Snapshot: [],
    Metadata: [],
    Tags: [],
    CopyId: [],
    Deleted: [],
    VersionId: [],
  };
  for (const [name, value] of Object.entries(want)) {
    assert.deepEqual(b.texts(item?.xml ?? "", name), value, name);
  }
  const lease = { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" };
  b.assertReply(await b.putComp(server, path, "lease", { headers: lease }), 201);
  const [leased] = itemsOf((await list("kinds", { prefix: "elements" })).text);
  for (const [name, value] of [
    ["LeaseStatus", "locked"],
    ["LeaseState", "leased"],
    ["LeaseDuration", "infinite"],
  ] as const) {
    assert.deepEqual(b.texts(leased?.xml ?? "", name), [value], name);
  }
});

test("List Blobs: include shows metadata, tags, snapshots and uncommitted blobs when asked, in any case", async () => {
  const container = b.containerClient(server, "kinds");
  const metadata = { Colour: "a<b & c", other: "2" };
  await container.getBlockBlobClient("inc/full").upload("x", 1, { metadata, tags: { k: "v w" } });
  const first = await b.takeSnapshot(server, "/kinds/inc/full");
  const second = await b.takeSnapshot(server, "/kinds/inc/full");
  await b.putBlob(server, "/kinds/inc/plain", "x");
  await b.putBlock(server, "/kinds/inc/unborn", 1, "x");
  const seen = async (include?: string) => {
    const query = { prefix: "inc/", ...(include === undefined ? {} : { include }) };
    return itemsOf(b.assertReply(await list("kinds", query), 200, undefined, include).text);
  };
  const full = "inc/full";
  assert.deepEqual(namesOf(await seen()), [full, "inc/plain"]);
  assert.deepEqual(namesOf(await seen("uncommittedblobs")), [full, "inc/plain", "inc/unborn"]);
  const unborn = (await seen("UncommittedBlobs"))[2]?.xml ?? "";
  for (const name of ["Last-Modified", "Etag", "Content-Type", "Content-MD5", "Cache-Control"]) {
    assert.deepEqual(b.texts(unborn, name), [], name);
  }
  for (const include of ["metadata", "Metadata", "METADATA,copy", "copy,metadata,deleted"]) {
    const [one, two] = await seen(include);
    assert.deepEqual(b.texts(one?.xml ?? "", "Colour"), ["a<b & c"], include);
    assert.deepEqual(b.texts(one?.xml ?? "", "other"), ["2"], include);
    assert.equal(/<Metadata>.+<\/Metadata>/s.test(two?.xml ?? ""), false, include);
  }
  const [tagged, untagged] = await seen("tags");
  const tags = [b.texts(tagged?.xml ?? "", "Key"), b.texts(tagged?.xml ?? "", "Value")];
  assert.deepEqual(tags, [["k"], ["v w"]]);
  assert.match(tagged?.xml ?? "", /<Tags><TagSet><Tag>/);
  assert.equal(/<Tag>/.test(untagged?.xml ?? ""), false);

  for (const include of ["snapshots", "Snapshots,metadata", "snapshots,tags,uncommittedblobs"]) {
    const items = (await seen(include)).filter((item) => item.name === full);
    const times = items.map((item) => b.texts(item.xml, "Snapshot")[0]);
    assert.deepEqual(times, [first, second, undefined], include);
    for (const item of items.slice(0, 2)) {
      assert.deepEqual(b.texts(item.xml, "LeaseStatus"), [], include);
    }
  }
  const all = "snapshots,metadata,uncommittedblobs,copy,tags";
  const whole = (await seen(all)).map((item) => item.xml);
  assert.equal(whole.length, 5);
  for (const size of ["1", "2", "3"]) {
    const query = { prefix: "inc/", include: all, maxresults: size };
    const paged = (await pagesOf("kinds", query)).flat().map((item) => item.xml);
    assert.deepEqual(paged, whole, `pages of ${size}`);
  }
});

const more = ["deleted", "versions", "immutabilitypolicy", "legalhold", "deletedwithversions"];
for (const include of more) {
  test(`List Blobs: include=${include} is accepted`, async () => {
    const reply = b.assertReply(await list("ordered", { include }), 200);
    assert.deepEqual(namesOf(itemsOf(reply.text)), ordered);
  });
}

const bad: [query: Record<string, string>, code?: string][] = [
  [{ maxresults: "0" }, "OutOfRangeQueryParameterValue"],
  [{ maxresults: "-1" }, "OutOfRangeQueryParameterValue"],
  [{ maxresults: "ten" }, "InvalidQueryParameterValue"],
  [{ include: "everything" }, "InvalidQueryParameterValue"],
  [{ delimiter: "/", include: "snapshots" }, "InvalidQueryParameterValue"],
  [{ marker: "!! no marker !!" }],
];
for (const [query, code] of bad) {
  test(`List Blobs: ${JSON.stringify(query)} gives 400 ${code ?? ""}`, async () => {
    b.assertReply(await list("ordered", query), 400, code);
  });
}

test("List Blobs: more than 5,000 may be asked for, a container may be empty or missing", async () => {
  const many = b.assertReply(await list("ordered", { maxresults: "6000" }), 200);
  assert.equal(itemsOf(many.text).length, ordered.length);
  const none = b.assertReply(await list("empty"), 200);
  assert.deepEqual([itemsOf(none.text), b.texts(none.text, "NextMarker")], [[], [""]]);
  b.assertReply(await list("no-such"), 404, "ContainerNotFound");
});

test("List Blobs: startFrom begins at that name or the next", async () => {
  const from = async (startFrom: string, query: Record<string, string> = {}) =>
    namesOf((await pagesOf("ordered", { ...query, startFrom })).flat());
  assert.deepEqual(await from("a0"), ordered.slice(ordered.indexOf("aa")));
  assert.deepEqual(await from("c"), ordered.slice(ordered.indexOf("c")));
  assert.deepEqual(await from("a/2", { prefix: "a/", maxresults: "1" }), ["a/2", "a/b/3", "a/b/4"]);
  assert.deepEqual(await from("\u{1f601}"), []);
});

test("List Blobs: a page goes on where the last one ended, whatever is written in between", async () => {
  for (const name of ["b", "d", "f", "h"]) await b.putBlob(server, `/paged/${name}`, "x");
  const first = b.assertReply(await list("paged", { maxresults: "2" }), 200);
  const marker = b.texts(first.text, "NextMarker")[0] ?? "";
  assert.deepEqual(namesOf(itemsOf(first.text)), ["b", "d"]);
  b.assertReply(await b.deleteBlob(server, "/paged/d"), 202);
  b.assertReply(await b.deleteBlob(server, "/paged/f"), 202);
  for (const name of ["a", "g"]) await b.putBlob(server, `/paged/${name}`, "x");
  const second = b.assertReply(await list("paged", { maxresults: "2", marker }), 200);
  assert.deepEqual(namesOf(itemsOf(second.text)), ["g", "h"]);
  assert.deepEqual(namesOf(itemsOf((await list("paged")).text)), ["a", "b", "g", "h"]);
});

test("listBlobsFlat(), listBlobsByHierarchy(): 3,000 blobs, each once, by default and by 1,000", async () => {
  const names = Array.from({ length: 3000 }, (_, i) => `d${i % 30}/${String(i).padStart(5, "0")}`);
  await b.atOnce(
    32,
    names.map((name) => () => b.putBlob(server, `/large/${name}`, "")),
  );
  const sorted = names.toSorted((one, two) => (one < two ? -1 : 1));
  const container = b.containerClient(server, "large");
  for (const settings of [{}, { maxPageSize: 1000 }, { maxPageSize: 999 }]) {
    const listed: string[] = [];
    for await (const page of container.listBlobsFlat().byPage(settings)) {
      listed.push(...page.segment.blobItems.map((blob) => blob.name));
    }
    assert.deepEqual(listed, sorted);
  }
  const folders: string[] = [];
  for await (const page of container.listBlobsByHierarchy("/").byPage({ maxPageSize: 7 })) {
    assert.equal(page.segment.blobItems.length, 0);
    folders.push(...(page.segment.blobPrefixes ?? []).map((prefix) => prefix.name));
  }
  assert.deepEqual(new Set(folders), new Set(names.map((name) => name.replace(/\d+$/, ""))));
  assert.equal(folders.length, 30);
});
