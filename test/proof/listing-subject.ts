import { CONTAINER, madeContainer } from "./blob-subject.ts";
import type { Call } from "./linearizable.ts";
import { isUntold, type Subject, shows, toldBy, untold } from "./traffic.ts";

const NAMES = ["a", "b", "c", "d", "e"];

export type ListingInput =
  | { readonly kind: "put"; readonly name: string; readonly word: string }
  | { readonly kind: "delete"; readonly name: string }
  /** All blobs, or the first few. */
  | { readonly kind: "list"; readonly most?: number };
type Item = { readonly name: string; readonly stamp: string; readonly etag: string };
export type ListingOutput = {
  readonly told: string;
  readonly etag?: string | undefined;
  readonly items?: readonly Item[];
};
type State = readonly Item[];

function next(state: State, { input, output, from }: Call<ListingInput, ListingOutput>): State[] {
  if (input.kind === "list") {
    const items = output?.items ?? [];
    const page = state.slice(0, input.most);
    if (output?.told !== "200" || items.length !== page.length) return [];
    const isIt = page.every(({ name, stamp, etag }, index) => {
      const item = items[index];
      return item?.name === name && item.stamp === stamp && shows(item.etag, etag);
    });
    if (!isIt) return [];
    const isKnown = !page.some(({ etag }) => isUntold(etag));
    return [isKnown ? state : [...items, ...state.slice(page.length)]];
  }
  const others = state.filter(({ name }) => name !== input.name);
  if (input.kind === "delete") {
    const isThere = others.length < state.length;
    if (output === undefined) return isThere ? [others] : [];
    return output.told === (isThere ? "202" : "404 BlobNotFound") ? [others] : [];
  }
  if (output !== undefined && output.told !== "201") return [];
  const item = { name: input.name, stamp: input.word, etag: output?.etag ?? untold(from) };
  return [[...others, item].sort((a, b) => (a.name < b.name ? -1 : 1))];
}

/** Several blobs as List Blobs shows them: one page is one state of all of them. */
export const listingSubject: Subject<State, ListingInput, ListingOutput, undefined> = {
  name: "Listing",
  model: { initial: [], next, text: (state) => JSON.stringify(state) },
  memory: () => undefined,
  choose(random, _memory, fresh) {
    const dice = random.below(100);
    if (dice < 30) return { kind: "list" };
    if (dice < 40) return { kind: "list", most: 2 };
    const name = random.pick(NAMES);
    return dice < 80 ? { kind: "put", name, word: fresh() } : { kind: "delete", name };
  },
  looks: () => [{ kind: "list" }],
  async ask(line, object, input) {
    const to = { service: "blob", method: "PUT", path: `/${CONTAINER}` } as const;
    if (input.kind === "list") {
      const query = { restype: "container", comp: "list", include: "metadata" };
      const most = input.most === undefined ? {} : { maxresults: String(input.most) };
      const all = { ...query, ...most, prefix: `${object}/` };
      const answer = await line({ ...to, method: "GET", query: all });
      return { told: toldBy(answer), items: itemsIn(answer.text, object) };
    }
    const path = `${to.path}/${object}/${input.name}`;
    if (input.kind === "delete") {
      return { told: toldBy(await line({ ...to, method: "DELETE", path })) };
    }
    const headers = { "x-ms-blob-type": "BlockBlob", "x-ms-meta-stamp": input.word };
    const answer = await line({ ...to, path, headers, body: input.word });
    return { told: toldBy(answer), etag: answer.headers.etag?.replaceAll('"', "") };
  },
  learn() {},
  prepare: (line) => madeContainer(line),
};

function itemsIn(text: string, object: string): Item[] {
  return [...text.matchAll(/<Blob>(.*?)<\/Blob>/gs)].map(([, xml = ""]) => {
    const has = (name: string) => new RegExp(`<${name}>([^<]*)<`).exec(xml)?.[1] ?? "";
    return {
      name: has("Name").slice(object.length + 1),
      stamp: has("stamp"),
      etag: has("Etag").replaceAll(/"|&quot;/g, ""),
    };
  });
}
