import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { DAY, HOUR, World } from "./world.ts";

// List Blobs, where only time shows it: what is hidden hides nothing else.

const block = { query: { comp: "block", blockid: "AAAA" }, body: "x" };

test("a blob that is over does not hide the uncommitted one of its name", async () => {
  const world = new World();
  await world.create("box");
  await world.keepDeleted(7);
  for (const name of ["deleted", "expired"]) await world.put(`/box/${name}`, "x");
  const expiry = { "x-ms-expiry-option": "RelativeToNow", "x-ms-expiry-time": String(HOUR) };
  await world.comp("200", "/box/expired", "expiry", expiry);
  await world.must("202", "DELETE", "/box/deleted");
  world.pass(7 * DAY);
  for (const name of ["deleted", "expired"]) await world.must("201", "PUT", `/box/${name}`, block);
  assert.deepEqual(await world.list("box", "deleted"), []);
  const include = "uncommittedblobs,deleted";
  assert.deepEqual(await world.list("box", include), ["deleted", "expired"]);
  await world.sweep();
  assert.deepEqual(await world.list("box", include), ["deleted", "expired"]);
});

test("a blob that is deleted does not hide the uncommitted one of its name", async () => {
  const world = new World();
  await world.create("box");
  await world.keepDeleted(7);
  await world.put("/box/a", "x");
  await world.must("202", "DELETE", "/box/a");
  await world.must("201", "PUT", "/box/a", block);
  assert.deepEqual(await world.list("box", "uncommittedblobs"), ["a"]);
});

test("many that are hidden cost a page its length, and no item is lost", async () => {
  const world = new World();
  await world.create("box");
  await world.keepDeleted(1);
  const names = Array.from({ length: 60 }, (_, i) => `b${String(i).padStart(2, "0")}`);
  for (const name of names) await world.put(`/box/${name}`, "x");
  for (const name of names) {
    if (name !== "b30" && name !== "b59") await world.must("202", "DELETE", `/box/${name}`);
  }
  for (const wait of [0, DAY]) {
    world.pass(wait);
    for (const maxresults of ["1", "2", "50"]) {
      const found: string[] = [];
      let marker = "";
      do {
        const query = { restype: "container", comp: "list", maxresults, ...(marker && { marker }) };
        const { text } = await world.must("200", "GET", "/box", { query });
        found.push(...[...text.matchAll(/<Name>([^<]+)</g)].map((match) => match[1] ?? ""));
        marker = /<NextMarker>([^<]+)</.exec(text)?.[1] ?? "";
      } while (marker !== "");
      assert.deepEqual(found, ["b30", "b59"]);
    }
  }
});

type Kind = "current" | "snapshot" | "version" | "uncommitted";
/** One thing there is: what it is, and whether it is deleted. */
type Thing = {
  readonly name: string;
  readonly kind: Kind;
  readonly isDeleted: boolean;
  words: string;
};

/** A container in which each kind of thing is there, alone and beside others, and some names are odd. */
async function populated(): Promise<{ world: World; things: Thing[] }> {
  const world = new World({ versioning: true });
  await world.create("box");
  await world.keepDeleted(7);
  const things: Thing[] = [];
  const thing = (name: string, kind: Kind, isDeleted = false) => {
    const version =
      kind === "version" ? ["version"] : kind === "current" ? ["version", "current"] : [];
    const words = [
      name,
      ...(isDeleted ? ["deleted"] : []),
      ...(kind === "snapshot" ? [kind] : version),
    ];
    things.push({ name, kind, isDeleted, words: words.join(" ") });
  };
  const put = async (name: string) =>
    (await world.put(`/box/${name}`, "x")).headers["x-ms-version-id"] ?? "";
  const snapshot = async (name: string) =>
    (await world.comp("201", `/box/${name}`, "snapshot")).headers["x-ms-snapshot"] ?? "";
  const remove = (name: string, query: Record<string, string> = {}) =>
    world.must("202", "DELETE", `/box/${name}`, { query });
  const uncommitted = (name: string) => world.must("201", "PUT", `/box/${name}`, block);

  // Each snapshot makes a version of the state before it, so their times alternate.
  await put("a");
  thing("a", "version");
  const gone = await snapshot("a");
  thing("a", "snapshot", true);
  thing("a", "version");
  await snapshot("a");
  thing("a", "snapshot");
  thing("a", "version");
  const old = await put("a");
  thing("a", "version", true);
  await put("a");
  thing("a", "current");
  await remove("a", { snapshot: gone });
  await remove("a", { versionid: old });

  await put("a/1");
  await put("a/1");
  await remove("a/1");
  thing("a/1", "version");
  thing("a/1", "version");

  const only = await put("a/b/2");
  await remove("a/b/2");
  await remove("a/b/2", { versionid: only });
  thing("a/b/2", "version", true);

  await put("c");
  const newest = await put("c");
  await remove("c");
  await remove("c", { versionid: newest });
  await uncommitted("c");
  thing("c", "version");
  thing("c", "version", true);
  thing("c", "uncommitted");

  await uncommitted("d");
  thing("d", "uncommitted");
  await put("é &<>");
  thing("é &<>", "current");
  return { world, things };
}

const INCLUDES = ["snapshots", "versions", "deleted", "deletedwithversions", "uncommittedblobs"];
const subsets = Array.from({ length: 2 ** INCLUDES.length }, (_, bits) =>
  INCLUDES.filter((_, i) => bits & (1 << i)),
);

/** What a list shall show, from what there is. */
function wanted(things: readonly Thing[], include: readonly string[]): string[] {
  const has = (word: string) => include.includes(word);
  const names = [...new Set(things.map(({ name }) => name))];
  return names.flatMap((name) => {
    const mine = things.filter((thing) => thing.name === name);
    const isCurrent = mine.some(({ kind }) => kind === "current");
    const lines = mine.flatMap(({ kind, isDeleted, words }) => {
      if (isDeleted && !has("deleted")) return [];
      if (kind === "snapshot" && !has("snapshots")) return [];
      if (kind === "version" && !has("versions")) return [];
      return kind === "uncommitted" ? [] : [words];
    });
    const isKept = mine.some(({ kind }) => kind === "version");
    const isOnly = !isCurrent && isKept && has("deletedwithversions") && !has("versions");
    const isUncommitted =
      mine.some(({ kind }) => kind === "uncommitted") && has("uncommittedblobs");
    return [...lines, ...(isOnly ? [`${name} only`] : isUncommitted ? [name] : [])];
  });
}

/** All pages of a list, each item in words; a name that has only versions is just that. */
async function inPages(world: World, query: Record<string, string>): Promise<string[]> {
  const items: string[] = [];
  let marker = "";
  do {
    const all = { restype: "container", comp: "list", ...query, ...(marker && { marker }) };
    const { text } = await world.must("200", "GET", "/box", { query: all });
    const page = [...text.matchAll(/<(Blob|BlobPrefix)>(.*?)<\/\1>/gs)];
    assert.ok(page.length <= Number(query.maxresults ?? 5000), "a page is too long");
    for (const [, kind, xml = ""] of page) {
      const has = (name: string) => new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml)?.[1];
      const name = (has("Name") ?? "")
        .replaceAll("&lt;", "<")
        .replaceAll("&gt;", ">")
        .replaceAll("&amp;", "&");
      const isOnly = has("HasVersionsOnly") === "true";
      const words = [
        name,
        ...(kind === "BlobPrefix" ? ["prefix"] : []),
        ...(has("Deleted") && !isOnly ? ["deleted"] : []),
        ...(has("Snapshot") ? ["snapshot"] : []),
        ...(has("VersionId") && !isOnly ? ["version"] : []),
        ...(has("IsCurrentVersion") === "true" ? ["current"] : []),
        ...(isOnly ? ["only"] : []),
      ];
      items.push(words.join(" "));
    }
    marker = /<NextMarker>([^<]+)</.exec(text)?.[1] ?? "";
  } while (marker !== "");
  return items;
}

suite("every combination of includes, in pages of every size", async () => {
  const { world, things } = await populated();
  for (const include of subsets) {
    test(include.join(",") || "none", async () => {
      const query = include.length === 0 ? {} : { include: include.join(",") };
      const want = wanted(things, include);
      for (const maxresults of ["1", "2", "3", "5", "5000"]) {
        const got = await inPages(world, { ...query, maxresults });
        assert.deepEqual(got, want, `in pages of ${maxresults}`);
        const prefixed = await inPages(world, { ...query, maxresults, prefix: "a/" });
        const some = want.filter((words) => words.startsWith("a/"));
        assert.deepEqual(prefixed, some, `with a prefix, in pages of ${maxresults}`);
        if (include.includes("snapshots")) continue;
        const folded = await inPages(world, { ...query, maxresults, delimiter: "/" });
        const parts = want.map((words) => (words.startsWith("a/") ? "a/ prefix" : words));
        assert.deepEqual(
          folded,
          [...new Set(parts)].flatMap((words) => repeated(parts, words)),
        );
        const inner = await inPages(world, { ...query, maxresults, delimiter: "/", prefix: "a/" });
        const below = some.map((words) => (words.startsWith("a/b/") ? "a/b/ prefix" : words));
        assert.deepEqual(
          inner,
          [...new Set(below)].flatMap((words) => repeated(below, words)),
        );
      }
    });
  }
});

/** A line as often as it is there; but a prefix stands once for all that it folds. */
const repeated = (all: readonly string[], words: string): string[] =>
  words.endsWith(" prefix") ? [words] : all.filter((line) => line === words);
