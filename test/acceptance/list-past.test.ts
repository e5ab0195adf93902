import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import * as b from "./blobs.ts";
import { keepDeleted, shown, shownInPages, wordsOf } from "./past.ts";
import { send } from "./raw.ts";
import { startServer, type TestServer } from "./server.ts";

// List Blobs and List Containers on the wire: versions, deleted things, and what belongs to each.
// Every combination of includes and page sizes is tested in test/service/list.test.ts.

const BOX = "box";
let server: TestServer;
before(async () => {
  server = await startServer({ args: ["--immutableStorage", "--containerRetention", "3"] });
  await b.createContainer(server, BOX);
  await keepDeleted(server, 5);
});
after(() => server.stop());

const text = (xml: string, name: string) => b.texts(xml, name)[0];

suite("List Blobs", () => {
  const names = ["a", "a/1", "a/b/2", "b", "c&<>", "日本"];
  before(async () => {
    for (const name of names) {
      const path = `/${BOX}/${name}`;
      await b.putBlob(server, path, "one", { "x-ms-tags": "t=1", "x-ms-meta-m": "1" });
      const snapshot = await b.takeSnapshot(server, path);
      const { headers } = await b.putBlob(server, path, "two");
      await b.putBlob(server, path, "three", { "x-ms-tags": "t=3" });
      b.assertReply(await b.deleteBlob(server, path, { query: { snapshot } }), 202);
      const versionid = String(headers["x-ms-version-id"]);
      b.assertReply(await b.deleteBlob(server, path, { query: { versionid } }), 202);
    }
    b.assertReply(await b.deleteBlob(server, `/${BOX}/b`), 202);
  });

  test("every page size gives the same, in the same order", async () => {
    for (const include of ["", "versions", "deleted,snapshots,versions", "deletedwithversions"]) {
      const whole = await shown(server, BOX, include);
      assert.ok(whole.length >= names.length - 1);
      for (const maxresults of ["1", "2", "3"]) {
        const pages = await shownInPages(server, BOX, include, { maxresults });
        assert.deepEqual(pages, whole, `${include} in pages of ${maxresults}`);
      }
    }
  });

  test("without includes there are only current states", async () => {
    assert.deepEqual(
      (await shown(server, BOX)).map(({ name }) => name),
      names.filter((name) => name !== "b"),
    );
  });

  test("a delimiter folds what is deleted and what is past, where they are asked for", async () => {
    await b.putBlob(server, `/${BOX}/z/1`, "x");
    b.assertReply(await b.deleteBlob(server, `/${BOX}/z/1`), 202);
    const folded = async (include: string) =>
      wordsOf(await shown(server, BOX, include, { delimiter: "/" })).filter((words) =>
        words.includes("prefix"),
      );
    assert.deepEqual(await folded(""), ["a/ prefix"]);
    assert.deepEqual(await folded("versions"), ["a/ prefix", "z/ prefix"]);
    assert.deepEqual(await folded("deletedwithversions"), ["a/ prefix", "z/ prefix"]);
    const query = { restype: "container", comp: "list", delimiter: "/", include: "snapshots" };
    b.assertReply(await b.getBlob(server, `/${BOX}`, { query }), 400);
  });

  test("each has the elements of its kind", async () => {
    const items = await shown(server, BOX, "versions,snapshots,deleted,tags,metadata", {
      prefix: "日本",
    });
    const words = wordsOf(items);
    assert.deepEqual(words, [
      "日本 version",
      "日本 deleted snapshot",
      "日本 version",
      "日本 deleted version",
      "日本 version current",
    ]);
    const [first, snapshot, , deleted, current] = items.map(({ xml }) => xml);
    assert.equal(text(first ?? "", "TagCount"), "1");
    assert.match(first ?? "", /<Tag><Key>t<\/Key><Value>1<\/Value><\/Tag>/);
    assert.match(first ?? "", /<Metadata>.*<m>1<\/m>.*<\/Metadata>/s);
    assert.match(current ?? "", /<Tag><Key>t<\/Key><Value>3<\/Value><\/Tag>/);
    for (const xml of [snapshot, deleted]) {
      assert.equal(text(xml ?? "", "RemainingRetentionDays"), "4");
      assert.match(text(xml ?? "", "DeletedTime") ?? "", / GMT$/);
      assert.equal(text(xml ?? "", "LeaseStatus"), undefined);
    }
    assert.equal(text(first ?? "", "LeaseStatus"), undefined);
    assert.equal(text(first ?? "", "IsCurrentVersion"), undefined);
    assert.equal(text(current ?? "", "LeaseStatus"), "unlocked");
    assert.doesNotMatch(current ?? "", /<Etag>"/);
  });

  test("immutabilitypolicy and legalhold show what holds a state, and only where asked for", async () => {
    const path = `/${BOX}/held`;
    await b.putBlob(server, path, "one");
    const until = "Fri, 01 Jan 2100 00:00:00 GMT";
    const policy = { "x-ms-immutability-policy-until-date": until };
    b.assertReply(await b.putComp(server, path, "immutabilityPolicies", { headers: policy }), 200);
    const hold = { "x-ms-legal-hold": "true" };
    b.assertReply(await b.putComp(server, path, "legalhold", { headers: hold }), 200);
    const xmlWith = async (include: string) =>
      (await shown(server, BOX, include, { prefix: "held" }))[0]?.xml ?? "";
    const plain = await xmlWith("");
    assert.doesNotMatch(plain, /ImmutabilityPolicy|LegalHold/);
    const both = await xmlWith("immutabilitypolicy,legalhold");
    assert.equal(text(both, "ImmutabilityPolicyUntilDate"), until);
    assert.match(text(both, "ImmutabilityPolicyMode") ?? "", /^unlocked$/i);
    assert.equal(text(both, "LegalHold"), "true");
    const head = await b.headBlob(server, path);
    assert.equal(head.headers["x-ms-immutability-policy-until-date"], until);
    assert.equal(head.headers["x-ms-legal-hold"], "true");
    b.assertReply(
      await b.putComp(server, path, "legalhold", { headers: { "x-ms-legal-hold": "false" } }),
      200,
    );
    const query = { comp: "immutabilityPolicies" };
    b.assertReply(await send(server, { method: "DELETE", path, query }), 200);
  });

  test("includes are words in any case, and an unknown one is refused", async () => {
    assert.deepEqual(
      await shown(server, BOX, "Versions,DELETED"),
      await shown(server, BOX, "versions,deleted"),
    );
    const query = { restype: "container", comp: "list", include: "versions,nonsense" };
    b.assertReply(await b.getBlob(server, `/${BOX}`, { query }), 400, "InvalidQueryParameterValue");
  });
});

suite("List Containers with include=deleted, and Restore Container", () => {
  const list = async (query: Record<string, string> = {}) => {
    const all = { comp: "list", ...query };
    const reply = b.assertReply(await send(server, { method: "GET", path: "/", query: all }), 200);
    const items = [...reply.text.matchAll(/<Container>(.*?)<\/Container>/gs)].map(
      ([, xml = ""]) => ({
        name: text(xml, "Name") ?? "",
        version: text(xml, "Version"),
        isDeleted: text(xml, "Deleted") === "true",
        xml,
      }),
    );
    return { items, next: text(reply.text, "NextMarker") ?? "" };
  };
  const remove = async (name: string, headers = {}) =>
    send(server, { method: "DELETE", path: `/${name}`, query: { restype: "container" }, headers });
  const restore = (name: string, headers: Record<string, string>) =>
    send(server, {
      ...{ method: "PUT", path: `/${name}`, query: { restype: "container", comp: "undelete" } },
      headers,
    });
  const of = (name: string, version: string) => ({
    "x-ms-deleted-container-name": name,
    "x-ms-deleted-container-version": version,
  });

  test("shows each deleted one with its version and time, in pages of every size", async () => {
    for (const name of ["del-a", "del-b", "del-c"]) {
      await b.createContainer(server, name);
      await b.putBlob(server, `/${name}/x`, name);
      b.assertReply(await remove(name), 202);
    }
    await b.createContainer(server, "del-b");
    b.assertReply(await remove("del-b"), 202);
    await b.createContainer(server, "del-b");
    const { items } = await list({ include: "deleted", prefix: "del-" });
    assert.deepEqual(
      items.map(({ name, isDeleted }) => `${name} ${isDeleted}`),
      ["del-a true", "del-b true", "del-b true", "del-b false", "del-c true"],
    );
    for (const { isDeleted, version, xml } of items) {
      assert.equal(version !== undefined && version !== "", isDeleted);
      assert.equal(text(xml, "RemainingRetentionDays"), isDeleted ? "2" : undefined);
      assert.equal(text(xml, "DeletedTime") !== undefined, isDeleted);
    }
    assert.deepEqual(
      (await list({ prefix: "del-" })).items.map(({ name }) => name),
      ["del-b"],
    );
    for (const maxresults of ["1", "2", "3"]) {
      const pages: typeof items = [];
      let marker = "";
      do {
        const more = { include: "deleted", prefix: "del-", maxresults, ...(marker && { marker }) };
        const page = await list(more);
        assert.ok(page.items.length <= Number(maxresults));
        pages.push(...page.items);
        marker = page.next;
      } while (marker !== "");
      assert.deepEqual(pages, items, `in pages of ${maxresults}`);
    }
  });

  test("Restore Container brings back one by its version, and refuses what it cannot", async () => {
    const name = "restore-me";
    await b.createContainer(server, name);
    await b.putBlob(server, `/${name}/x`, "kept", { "x-ms-tags": "r=1" });
    b.assertReply(await remove(name), 202);
    const { items } = await list({ include: "deleted", prefix: name });
    const version = items[0]?.version ?? "";
    b.assertReply(await b.getBlob(server, `/${name}/x`), 404, "ContainerNotFound");
    b.assertReply(await restore(name, {}), 400, "MissingRequiredHeader");
    const { "x-ms-deleted-container-version": _version, ...noVersion } = of(name, version);
    b.assertReply(await restore(name, noVersion), 400, "MissingRequiredHeader");
    for (const bad of ["nonsense", "", "0x1", "-1", "f".repeat(40)]) {
      const reply = await restore(name, of(name, bad));
      assert.ok([400, 404, 409].includes(reply.status), `${bad}: ${reply.status}`);
    }
    b.assertReply(await restore(name, of("another", version)), 400, "InvalidHeaderValue");
    const conditional = { ...of(name, version), "if-match": "*" };
    b.assertReply(await restore(name, conditional), 400);
    b.assertReply(await restore(name, of(name, version)), 201);
    assert.equal((await b.getBlob(server, `/${name}/x`)).text, "kept");
    b.assertReply(await restore(name, of(name, version)), 409, "ContainerAlreadyExists");
    const after = await list({ include: "deleted", prefix: name });
    assert.deepEqual(
      after.items.map(({ isDeleted }) => isDeleted),
      [false],
    );
  });

  test("keeps metadata and access policies, but no lease", async () => {
    const name = "restore-all";
    const query = { restype: "container" };
    const headers = { "x-ms-meta-a": "1" };
    b.assertReply(await send(server, { method: "PUT", path: `/${name}`, query, headers }), 201);
    const acl =
      "<SignedIdentifiers><SignedIdentifier><Id>one</Id><AccessPolicy><Permission>r</Permission></AccessPolicy></SignedIdentifier></SignedIdentifiers>";
    const policies = { restype: "container", comp: "acl" };
    b.assertReply(
      await send(server, { method: "PUT", path: `/${name}`, query: policies, body: acl }),
      200,
    );
    const lease = await send(server, {
      ...{ method: "PUT", path: `/${name}`, query: { restype: "container", comp: "lease" } },
      headers: { "x-ms-lease-action": "acquire", "x-ms-lease-duration": "-1" },
    });
    b.assertReply(await remove(name), 412, "LeaseIdMissing");
    b.assertReply(
      await remove(name, { "x-ms-lease-id": String(lease.headers["x-ms-lease-id"]) }),
      202,
    );
    const { items } = await list({ include: "deleted", prefix: name });
    b.assertReply(await restore(name, of(name, items[0]?.version ?? "")), 201);
    const found = await send(server, { method: "GET", path: `/${name}`, query });
    assert.equal(found.headers["x-ms-meta-a"], "1");
    assert.equal(found.headers["x-ms-lease-state"], "available");
    const kept = await send(server, { method: "GET", path: `/${name}`, query: policies });
    assert.deepEqual(b.texts(kept.text, "Id"), ["one"]);
  });

  test("to another name, which the service does not do any more, is refused", async () => {
    await b.createContainer(server, "renamed-old");
    b.assertReply(await remove("renamed-old"), 202);
    const { items } = await list({ include: "deleted", prefix: "renamed-old" });
    const { version = "" } = items[0] ?? {};
    b.assertReply(await restore("renamed-new", of("renamed-old", version)), 400);
    b.assertReply(await restore("renamed-old", of("renamed-old", version)), 201);
  });
});
