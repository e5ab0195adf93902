import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { folded } from "../../src/rules/file-names.ts";
import { oldEntries, oldNodes, sparses } from "../../src/store/keys.ts";
import { type Answer, TestService } from "./file-service.ts";
import { Random } from "./power-cut.ts";

/** What the namespace should be, in the plainest way: directories as maps, snapshots as whole copies. */
type Model = ModelFile | ModelDirectory;
type ModelFile = { kind: "file"; name: string; content: string };
type ModelDirectory = { kind: "directory"; name: string; children: Map<string, Model> };

const empty = (): ModelDirectory => ({ kind: "directory", name: "", children: new Map() });

const copyOf = (model: Model): Model =>
  model.kind === "file"
    ? { ...model }
    : {
        ...model,
        children: new Map([...model.children].map(([key, child]) => [key, copyOf(child)])),
      };

const SHARE = "/share";
const NAMES = ["a", "B", "c", "Ää", "long name.txt", "é"];
const STEPS = 250;

class Run {
  readonly random: Random;
  readonly service: TestService;
  readonly root = empty();
  readonly snapshots = new Map<string, ModelDirectory>();

  constructor(seed: number) {
    this.random = new Random(seed);
    this.service = new TestService(() => this.random.chance(5));
  }

  /** A path, mostly one that is there, in any case. */
  path(): string[] {
    const names: string[] = [];
    let at: Model | undefined = this.root;
    for (let depth = 1 + this.random.below(4); depth > 0; depth--) {
      const known: string[] =
        at?.kind === "directory" ? [...at.children.values()].map(({ name }) => name) : [];
      const name =
        known.length > 0 && this.random.chance(70)
          ? this.random.pick(known)
          : this.random.pick(NAMES);
      const cased = this.random.chance(30) ? swapped(name) : name;
      names.push(cased);
      at = at?.kind === "directory" ? at.children.get(folded(cased)) : undefined;
    }
    return names;
  }

  /** The directory that a path ends in, and what is there; a code if there is no such directory. */
  find(path: readonly string[]): { parent: ModelDirectory; there: Model | undefined } | string {
    let parent = this.root;
    for (const name of path.slice(0, -1)) {
      const next = parent.children.get(folded(name));
      if (next?.kind !== "directory") return "ParentNotFound";
      parent = next;
    }
    return { parent, there: parent.children.get(folded(path.at(-1) ?? "")) };
  }

  async step(): Promise<string> {
    const dice = this.random.below(100);
    if (dice < 20) return this.createDirectory();
    if (dice < 40) return this.createFile();
    if (dice < 55) return this.write();
    if (dice < 70) return this.remove();
    if (dice < 90) return this.rename();
    if (dice < 95) return this.takeSnapshot();
    if (dice < 98) return this.dropSnapshot();
    await this.service.sweep();
    return "sweep";
  }

  async createDirectory(): Promise<string> {
    const path = this.path();
    const found = this.find(path);
    const want =
      typeof found === "string"
        ? found
        : found.there?.kind === "file"
          ? "ResourceTypeMismatch"
          : found.there !== undefined
            ? "ResourceAlreadyExists"
            : 201;
    answered(await this.service.createDirectory(urlOf(path)), want, `make ${path.join("/")}`);
    if (want === 201) this.put(path, { kind: "directory", name: "", children: new Map() });
    return `make ${path.join("/")}: ${want}`;
  }

  async createFile(): Promise<string> {
    const path = this.path();
    const found = this.find(path);
    const size = this.random.below(2000);
    const want =
      typeof found === "string"
        ? found
        : found.there?.kind === "directory"
          ? "ResourceTypeMismatch"
          : 201;
    answered(await this.service.createFile(urlOf(path), size), want, `create ${path.join("/")}`);
    if (want === 201 && typeof found !== "string") {
      // A file that is overwritten keeps its name as it was first given.
      const name = found.there?.name ?? path.at(-1) ?? "";
      this.put(path, { kind: "file", name, content: "\0".repeat(size) }, name);
    }
    return `create ${path.join("/")} of ${size}: ${want}`;
  }

  async write(): Promise<string> {
    const path = this.path();
    const found = this.find(path);
    const start = this.random.below(1000);
    const text = String.fromCharCode(97 + this.random.below(26)).repeat(1 + this.random.below(600));
    let want: string | number = 201;
    if (typeof found === "string") want = found;
    else if (found.there?.kind !== "file") want = "ResourceNotFound";
    else if (start + text.length > found.there.content.length) want = "InvalidRange";
    else {
      const { content } = found.there;
      found.there.content = content.slice(0, start) + text + content.slice(start + text.length);
    }
    const what = `write ${path.join("/")} ${start}+${text.length}`;
    answered(await this.service.putRange(urlOf(path), start, text), want, what);
    return `${what}: ${want}`;
  }

  async remove(): Promise<string> {
    const path = this.path();
    const found = this.find(path);
    const kind = this.random.chance(50) ? "file" : "directory";
    let want: string | number = 202;
    if (typeof found === "string") want = found;
    else if (found.there?.kind !== kind) want = "ResourceNotFound";
    else if (found.there.kind === "directory" && found.there.children.size > 0) {
      want = "DirectoryNotEmpty";
    } else found.parent.children.delete(folded(path.at(-1) ?? ""));
    const query: Record<string, string> = kind === "directory" ? { restype: "directory" } : {};
    const answer = await this.service.ask({ method: "DELETE", path: urlOf(path), query });
    answered(answer, want, `remove ${kind} ${path.join("/")}`);
    return `remove ${kind} ${path.join("/")}: ${want}`;
  }

  async rename(): Promise<string> {
    const [from, to] = [this.path(), this.path()];
    const kind = this.random.chance(60) ? "file" : "directory";
    const replaces = this.random.chance(40);
    const source = this.find(from);
    const target = this.find(to);
    const what = `rename ${kind} ${from.join("/")} to ${to.join("/")}${replaces ? ", replacing" : ""}`;
    const want = this.renamed({ source, target, kind, to, replaces });
    const headers = { "x-ms-file-rename-replace-if-exists": String(replaces) };
    const answer = await this.service.rename(kind, urlOf(from), urlOf(to), headers);
    answered(answer, want, what);
    if (want === 200 && typeof source !== "string" && source.there !== undefined) {
      source.parent.children.delete(folded(source.there.name));
      this.put(to, source.there);
    }
    return `${what}: ${want}`;
  }

  renamed(of: {
    source: ReturnType<Run["find"]>;
    target: ReturnType<Run["find"]>;
    kind: string;
    to: readonly string[];
    replaces: boolean;
  }): string | number {
    const { source, target, kind, to, replaces } = of;
    if (typeof target === "string") return target;
    if (typeof source === "string") return source;
    if (source.there === undefined) return "ResourceNotFound";
    if (source.there.kind !== kind) return "ResourceTypeMismatch";
    let at: Model | undefined = this.root;
    for (const name of to.slice(0, -1)) {
      at = at?.kind === "directory" ? at.children.get(folded(name)) : undefined;
      if (at === source.there) return "InvalidHeaderValue"; // into itself
    }
    if (target.there === undefined || target.there === source.there) return 200;
    if (!replaces || target.there.kind === "directory") return "ResourceAlreadyExists";
    return 200;
  }

  async takeSnapshot(): Promise<string> {
    const query = { restype: "share", comp: "snapshot" };
    const answer = await this.service.ask({ method: "PUT", path: SHARE, query });
    assert.equal(answer.status, 201);
    const at = answer.header("x-ms-snapshot") ?? "";
    this.snapshots.set(at, copyOf(this.root) as ModelDirectory);
    return `snapshot ${at}`;
  }

  async dropSnapshot(): Promise<string> {
    if (this.snapshots.size === 0) return "no snapshot to drop";
    const at = this.random.pick([...this.snapshots.keys()]);
    const query = { restype: "share", sharesnapshot: at };
    const answer = await this.service.ask({ method: "DELETE", path: SHARE, query });
    assert.equal(answer.status, 202);
    this.snapshots.delete(at);
    return `drop ${at}`;
  }

  put(path: readonly string[], model: Model, name: string = path.at(-1) ?? ""): void {
    const found = this.find(path);
    assert.ok(typeof found !== "string");
    model.name = name;
    found.parent.children.set(folded(name), model);
  }

  /** Walks the share as clients see it, now and at every snapshot, and compares. */
  async verify(): Promise<void> {
    assert.deepEqual(await this.seen([], undefined), shown(this.root), "now");
    for (const [at, model] of this.snapshots) {
      assert.deepEqual(await this.seen([], at), shown(model), `at ${at}`);
    }
  }

  async seen(path: readonly string[], at: string | undefined): Promise<Shown[]> {
    const snapshot: Record<string, string> = at === undefined ? {} : { sharesnapshot: at };
    const found: Shown[] = [];
    for (let marker = ""; ; ) {
      const query = { restype: "directory", comp: "list", maxresults: "3", marker, ...snapshot };
      const { status, text } = await this.service.ask({ path: urlOf(path), query });
      assert.equal(status, 200, `list ${path.join("/")} at ${at}`);
      const items = text.matchAll(
        /<(File|Directory)><FileId>\d+<\/FileId><Name>([^<]*)<\/Name><Properties(?: \/>|>(.*?)<\/Properties>)/g,
      );
      for (const [, kind, name = "", properties = ""] of items) {
        const below = [...path, name];
        if (kind === "Directory") {
          found.push({ name, children: await this.seen(below, at) });
          continue;
        }
        const file = await this.service.ask({ path: urlOf(below), query: snapshot });
        assert.equal(file.status, 200, `get ${below.join("/")} at ${at}`);
        const size = /<Content-Length>(\d+)</.exec(properties)?.[1];
        assert.equal(Number(size), file.text.length, `the size of ${below.join("/")}`);
        found.push({ name, content: runs(file.text) });
      }
      marker = /<NextMarker>([^<]*)</.exec(text)?.[1] ?? "";
      if (marker === "") return found;
    }
  }
}

/** A text of few letters, shortened so that a difference can be read. */
const runs = (text: string): string =>
  text.replace(/(.)\1*/gs, (run) => `${run[0] === "\0" ? "0" : run[0]}${run.length} `);

type Shown =
  | { readonly name: string; readonly content: string }
  | { readonly name: string; readonly children: Shown[] };

function shown(model: ModelDirectory): Shown[] {
  const order = [...model.children].sort(([a], [b]) =>
    Buffer.compare(Buffer.from(a), Buffer.from(b)),
  );
  return order.map(([, child]) =>
    child.kind === "file"
      ? { name: child.name, content: runs(child.content) }
      : { name: child.name, children: shown(child) },
  );
}

const urlOf = (path: readonly string[]) => [SHARE, ...path].join("/");

const swapped = (name: string) =>
  [...name]
    .map((char) => (char === char.toUpperCase() ? char.toLowerCase() : char.toUpperCase()))
    .join("");

function answered(answer: Answer, want: string | number, what: string): void {
  assert.equal(answer.code ?? answer.status, want, what);
}

suite("A share does what a map of maps would do, at every snapshot too", () => {
  for (let seed = 1; seed <= 12; seed++) {
    test(`seed ${seed}`, async () => {
      const run = new Run(seed);
      const log: string[] = [];
      await run.service.createShare("share");
      try {
        for (let step = 0; step < STEPS; step++) {
          log.push(await run.step());
          if (step % 50 === 49) await run.verify();
        }
        await run.verify();
        assert.deepEqual(await run.service.problems(), []);
      } catch (error) {
        (error as Error).message += `\nafter:\n${log.slice(-25).join("\n")}`;
        throw error;
      }
      await freed(run);
    });
  }
});

/** Without snapshots no old version is left; without the share nothing is. */
async function freed({ service, snapshots }: Run): Promise<void> {
  for (const at of snapshots.keys()) {
    const query = { restype: "share", sharesnapshot: at };
    assert.equal((await service.ask({ method: "DELETE", path: SHARE, query })).status, 202);
  }
  await service.sweep();
  const left = await service.engine.read(async (tx) => ({
    nodes: await oldNodes.walk(tx, [], { limit: 10 }),
    entries: await oldEntries.walk(tx, [], { limit: 10 }),
  }));
  assert.deepEqual(left, { nodes: [], entries: [] });
  const gone = await service.ask({ method: "DELETE", path: SHARE, query: { restype: "share" } });
  assert.equal(gone.status, 202);
  await service.sweep();
  const contents = await service.engine.read((tx) => sparses.walk(tx, [], { limit: 10 }));
  assert.deepEqual(contents, []);
  assert.deepEqual(await service.problems(), []);
}
