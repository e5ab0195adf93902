import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { Random } from "../simulation/power-cut.ts";
import { type Answer, DAY, HOUR, type Sent, World } from "./world.ts";

/**
 * A seed drives all that can happen to blobs and their past. After each step what can be seen must agree with
 * itself; the sweep may never change what can be seen; and when all is deleted and all time is over, nothing
 * may be left in the engine: no chunk, no value of the heap, no row of an index.
 */
const SEEDS = Array.from({ length: 10 }, (_, i) => i + 1);
const STEPS = 100;
const BOXES = ["box-a", "box-b"];
const NAMES = ["a", "b/c", "ü"];
const EVERYTHING = "snapshots,versions,deleted,uncommittedblobs,tags,metadata";

type Listed = {
  readonly name: string;
  readonly snapshot: string | undefined;
  readonly version: string | undefined;
  readonly isCurrent: boolean;
  readonly isDeleted: boolean;
  readonly isUncommitted: boolean;
  readonly isArchived: boolean;
  readonly etag: string | undefined;
  readonly tags: readonly string[];
};

const byCode = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

const textIn = (xml: string, name: string) =>
  new RegExp(`<${name}>([^<]+)</${name}>`).exec(xml)?.[1];

function listedIn(text: string): Listed[] {
  return [...text.matchAll(/<Blob>(.*?)<\/Blob>/gs)].map(([, xml = ""]) => ({
    name: textIn(xml, "Name") ?? "",
    snapshot: textIn(xml, "Snapshot"),
    version: textIn(xml, "VersionId"),
    isCurrent: textIn(xml, "IsCurrentVersion") === "true",
    isDeleted: textIn(xml, "Deleted") === "true",
    isUncommitted: textIn(xml, "Etag") === undefined,
    isArchived: textIn(xml, "AccessTier") === "Archive",
    etag: textIn(xml, "Etag"),
    tags: [...xml.matchAll(/<Key>([^<]+)</g)].map((match) => match[1] ?? ""),
  }));
}

class History {
  readonly #world: World;
  readonly #random: Random;
  /** The bytes that go with an ETag, once anyone has seen both. */
  readonly #bodies = new Map<string, string>();
  bodies = 0;

  constructor(world: World, random: Random) {
    this.#world = world;
    this.#random = random;
  }

  get #path(): string {
    return `/${this.#random.pick(BOXES)}/${this.#random.pick(NAMES)}`;
  }

  /** Small ones go to the heap and large ones to files; each is another. */
  #body(): string {
    const size = this.#random.pick([0, 10, 1_000, 70_000]);
    return `${this.bodies++} `.padEnd(size, "x");
  }

  /** Any answer will do but a fault: the rules of each operation are tested elsewhere. */
  async #ask(method: string, path: string, sent: Sent = {}): Promise<Answer> {
    const answer = await this.#world.send(method, path, sent);
    assert.ok(answer.status < 500, `${method} ${path}: ${answer.status} ${answer.code}`);
    return answer;
  }

  #comp(path: string, comp: string, headers = {}, query = {}): Promise<Answer> {
    return this.#ask("PUT", path, { query: { comp, ...query }, headers });
  }

  async step(): Promise<void> {
    const random = this.#random;
    const path = this.#path;
    const kind = random.below(100);
    if (kind < 7) await this.#put(path);
    else if (kind < 10) await this.#append(path);
    else if (kind < 13) await this.#pages(path);
    else if (kind < 18) await this.#copy(path);
    else if (kind < 26) await this.#putBlocks(path);
    else if (kind < 32)
      await this.#comp(path, "metadata", { "x-ms-meta-n": String(random.below(9)) });
    else if (kind < 38) await this.#setTags(path);
    else if (kind < 46)
      await this.#comp(path, "snapshot", random.chance(30) ? { "x-ms-meta-s": "1" } : {});
    else if (kind < 56) await this.#delete(path);
    else if (kind < 70) await this.#deletePast();
    else if (kind < 76) await this.#comp(path, "undelete");
    else if (kind < 80) await this.#expire(path);
    else if (kind < 83)
      await this.#comp(path, "tier", { "x-ms-access-tier": random.pick(["Hot", "Archive"]) });
    else if (kind < 85)
      await this.#ask("DELETE", `/${random.pick(BOXES)}`, { query: { restype: "container" } });
    else if (kind < 90) await this.#restore();
    else if (kind < 93) await this.#keep();
    else this.#world.pass(random.pick([1, HOUR, DAY, 3 * DAY]));
    this.#world.pass(1);
  }

  #tags(): string {
    const { chance, pick } = {
      chance: () => this.#random.chance(50),
      pick: () => this.#random.below(3),
    };
    return [`t=${pick()}`, ...(chance() ? [`u=${pick()}`] : [])].join("&");
  }

  #put(path: string): Promise<Answer> {
    const headers = {
      "x-ms-blob-type": "BlockBlob",
      ...(this.#random.chance(60) ? { "x-ms-tags": this.#tags() } : {}),
    };
    return this.#ask("PUT", path, { headers, body: this.#body() });
  }

  /** A new append blob where there is none, else another block of it. */
  async #append(path: string): Promise<void> {
    const { status } = await this.#ask("PUT", path, {
      headers: { "x-ms-blob-type": "AppendBlob", "if-none-match": "*" },
    });
    const times = status === 201 ? 3 : 1;
    for (let i = 0; i < times; i++) {
      await this.#ask("PUT", path, { query: { comp: "appendblock" }, body: `add ${this.#body()}` });
    }
  }

  /** A new page blob where there is none, else some of its pages written or cleared. */
  async #pages(path: string): Promise<void> {
    const size = 16 * 512;
    await this.#ask("PUT", path, {
      headers: {
        ...{ "x-ms-blob-type": "PageBlob", "x-ms-blob-content-length": String(size) },
        "if-none-match": "*",
      },
    });
    for (let i = 0; i < 3; i++) {
      const from = 512 * this.#random.below(12);
      const count = 512 * (1 + this.#random.below(4));
      const clears = this.#random.chance(30);
      const headers = {
        ...{ "x-ms-page-write": clears ? "clear" : "update" },
        ...{ "x-ms-range": `bytes=${from}-${from + count - 1}` },
      };
      const body = clears ? "" : `${this.bodies++} `.padEnd(count, "p");
      await this.#ask("PUT", path, { query: { comp: "page" }, headers, body });
    }
  }

  /** Any state of any blob, copied over any blob. */
  async #copy(path: string): Promise<void> {
    const box = this.#random.pick(BOXES);
    const listed = await this.#listed(box);
    if (listed.length === 0) return;
    const { name, snapshot, version } = this.#random.pick(listed);
    const query = snapshot ? `?snapshot=${snapshot}` : version ? `?versionid=${version}` : "";
    const source = `http://localhost/account/${box}/${encodeURIComponent(name)}${query}`;
    const sync = this.#random.chance(30) ? { "x-ms-requires-sync": "true" } : {};
    await this.#ask("PUT", path, { headers: { "x-ms-copy-source": source, ...sync } });
  }

  /** Some blocks, and mostly a list that names them, the committed ones and some twice. */
  async #putBlocks(path: string): Promise<void> {
    const random = this.#random;
    const ids = Array.from({ length: 4 }, (_, i) => Buffer.from(`id-${i}`).toString("base64"));
    for (let i = random.below(4); i > 0; i--) {
      const body = `block ${this.#body()}`;
      await this.#ask("PUT", path, { query: { comp: "block", blockid: random.pick(ids) }, body });
    }
    if (random.chance(20)) return;
    const length = random.pick([0, 1, 3, 60]);
    const list = Array.from({ length }, () => `<Latest>${random.pick(ids)}</Latest>`).join("");
    await this.#ask("PUT", path, {
      query: { comp: "blocklist" },
      body: `<BlockList>${list}</BlockList>`,
    });
  }

  #setTags(path: string): Promise<Answer> {
    const tags = this.#random.chance(20) ? [] : this.#tags().split("&");
    const xml = tags.map((tag) => {
      const [key, value] = tag.split("=");
      return `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`;
    });
    const body = `<Tags><TagSet>${xml.join("")}</TagSet></Tags>`;
    return this.#ask("PUT", path, { query: { comp: "tags" }, body });
  }

  #delete(path: string): Promise<Answer> {
    const which = this.#random.pick([undefined, "include", "only"]);
    const headers = which === undefined ? {} : { "x-ms-delete-snapshots": which };
    return this.#ask("DELETE", path, { headers });
  }

  async #deletePast(): Promise<void> {
    const box = this.#random.pick(BOXES);
    const past = (await this.#listed(box)).filter(({ snapshot, version }) => snapshot ?? version);
    if (past.length === 0) return;
    const { name, snapshot, version } = this.#random.pick(past);
    const query = {
      ...(snapshot === undefined ? { versionid: version ?? "" } : { snapshot }),
      ...(this.#random.chance(30) ? { deletetype: "permanent" } : {}),
    };
    await this.#ask("DELETE", `/${box}/${name}`, { query });
  }

  #expire(path: string): Promise<Answer> {
    const never = { "x-ms-expiry-option": "NeverExpire" };
    const soon = {
      "x-ms-expiry-option": "RelativeToNow",
      "x-ms-expiry-time": String(this.#random.pick([HOUR, DAY, 5 * DAY])),
    };
    return this.#comp(path, "expiry", this.#random.chance(20) ? never : soon);
  }

  async #restore(): Promise<void> {
    const deleted = (await this.#world.containers("deleted")).filter(({ version }) => version);
    const box = this.#random.pick(BOXES);
    if (deleted.length === 0 || this.#random.chance(40)) {
      await this.#ask("PUT", `/${box}`, { query: { restype: "container" } });
      return;
    }
    const { name, version = "" } = this.#random.pick(deleted);
    const headers = {
      "x-ms-deleted-container-name": name,
      "x-ms-deleted-container-version": version,
    };
    await this.#ask("PUT", `/${name}`, {
      query: { restype: "container", comp: "undelete" },
      headers,
    });
  }

  async #keep(): Promise<void> {
    await this.#world.keepDeleted(this.#random.pick([undefined, 1, 5]), this.#random.chance(50));
  }

  async #listText(box: string, more: Record<string, string> = {}): Promise<string> {
    const query = { restype: "container", comp: "list", include: EVERYTHING, ...more };
    const { status, text } = await this.#ask("GET", `/${box}`, { query });
    return status === 404 ? "" : text;
  }

  async #listed(box: string): Promise<Listed[]> {
    return listedIn(await this.#listText(box));
  }

  /** Everything that can be seen, in one text. */
  async seen(): Promise<string> {
    const parts = [JSON.stringify(await this.#world.containers("deleted"))];
    for (const box of BOXES) parts.push(await this.#listText(box));
    for (const where of ["t >= ''", "u >= ''"]) parts.push(...(await this.#world.find(where)));
    return parts.join("\n");
  }

  /** What can be seen agrees with itself. */
  async verify(): Promise<void> {
    const tagged: string[] = [];
    for (const box of BOXES) {
      const listed = await this.#listed(box);
      for (const one of listed) await this.#verifyOne(`/${box}/${one.name}`, one);
      for (const one of listed) if (isBase(one) && one.tags.includes("t")) tagged.push(one.name);
      const size = String(1 + this.#random.below(3));
      assert.deepEqual(await this.#inPages(box, size), listed, `in pages of ${size}`);
    }
    const found = await this.#world.find("t >= ''");
    assert.deepEqual(found.sort(byCode), tagged.sort(byCode), "found by tags");
    await this.#world.checked();
  }

  async #verifyOne(path: string, one: Listed): Promise<void> {
    const { snapshot, version } = one;
    const query = {
      ...(snapshot === undefined ? {} : { snapshot }),
      ...(snapshot === undefined && version !== undefined ? { versionid: version } : {}),
    };
    const { status, headers, text } = await this.#ask("GET", path, { query });
    const what = `${path} ${JSON.stringify(one)}`;
    if (one.isUncommitted) return assert.equal(status, 404, what);
    if (one.isDeleted) {
      if (snapshot ?? version) assert.equal(status, 404, what);
      return;
    }
    if (one.isArchived) return assert.equal(status, 409, what);
    assert.equal(status, 200, what);
    const etag = headers.etag?.replaceAll('"', "") ?? "";
    assert.equal(etag, one.etag, what);
    const known = this.#bodies.get(etag);
    this.#bodies.set(etag, text);
    if (known !== undefined) assert.ok(known === text, `${what} has other bytes than before`);
  }

  async #inPages(box: string, maxresults: string): Promise<Listed[]> {
    const items: Listed[] = [];
    let marker: string | undefined;
    do {
      const more = { maxresults, ...(marker === undefined ? {} : { marker }) };
      const text = await this.#listText(box, more);
      const page = listedIn(text);
      assert.ok(page.length <= Number(maxresults), "a page is too long");
      items.push(...page);
      marker = textIn(text, "NextMarker");
    } while (marker !== undefined);
    return items;
  }

  /** Deletes each thing that can be seen, one by one, but the containers. */
  async deleteAll(): Promise<void> {
    await this.#world.keepDeleted(undefined);
    for (const box of BOXES) {
      for (const { name } of await this.#listed(box)) {
        const headers = { "x-ms-delete-snapshots": "include" };
        await this.#ask("DELETE", `/${box}/${name}`, { headers });
      }
      for (const { name, snapshot, version } of await this.#listed(box)) {
        if ((snapshot ?? version) === undefined) continue;
        const query = snapshot === undefined ? { versionid: version ?? "" } : { snapshot };
        await this.#ask("DELETE", `/${box}/${name}`, { query });
      }
    }
  }
}

const isBase = ({ snapshot, version, isCurrent, isDeleted, isUncommitted }: Listed) =>
  snapshot === undefined && (version === undefined || isCurrent) && !isDeleted && !isUncommitted;

suite("references", () => {
  for (const seed of SEEDS) {
    const versioning = seed % 2 === 0;
    const containerRetentionDays = seed % 4 < 2 ? 4 : 0;
    test(`all that is deleted is gone in the end, and nothing before (seed ${seed})`, async () => {
      const random = new Random(seed);
      const world = new World({ versioning, containerRetentionDays });
      const history = new History(world, random);
      await world.keepDeleted(random.pick([undefined, 1, 5]));
      for (const box of BOXES) await world.create(box);
      for (let i = 0; i < STEPS; i++) {
        await history.step();
        if (i % 4 === 0) await history.verify();
        if (i % 10 !== 9) continue;
        await world.expireBlocks();
        const before = await history.seen();
        await world.sweep();
        assert.ok((await history.seen()) === before, "the sweep changed what can be seen");
        await history.verify();
      }
      const living = (await world.containers()).length;
      await history.deleteAll();
      world.pass(400 * DAY);
      await world.sweep();
      const rows = living === 0 ? {} : { "subspace 2": living, "subspace 11": living };
      assert.deepEqual(await world.left(), { "subspace 1": 1, ...rows });
    });

    test(`a container that is deleted takes all with it (seed ${seed})`, async () => {
      const random = new Random(seed + 1_000);
      const world = new World({ versioning, containerRetentionDays });
      const history = new History(world, random);
      await world.keepDeleted(5);
      for (const box of BOXES) await world.create(box);
      for (let i = 0; i < STEPS; i++) await history.step();
      await history.verify();
      for (const { name } of await world.containers()) {
        await world.must("202", "DELETE", `/${name}`, { query: { restype: "container" } });
      }
      world.pass(400 * DAY);
      await world.sweep();
      assert.deepEqual(await world.left(), { "subspace 1": 1 });
    });
  }
});
