import type { Random } from "../simulation/power-cut.ts";
import type { Call } from "./linearizable.ts";
import {
  type Answer,
  isNew,
  isUntold,
  type Line,
  made,
  type Sent,
  type Subject,
  shows,
  toldBy,
  untold,
} from "./traffic.ts";

export const TABLE = "proof";

/** One change of one entity; `ifMatch` is an ETag or `*`. */
type Change = {
  readonly action: "insert" | "replace" | "merge" | "delete";
  readonly row: string;
  readonly word: string;
  readonly ifMatch?: string;
};
export type PartitionInput =
  | { readonly kind: "change"; readonly change: Change }
  | { readonly kind: "set"; readonly changes: readonly Change[] }
  | { readonly kind: "get"; readonly row: string }
  /** All rows, or the first two after a row. */
  | { readonly kind: "query"; readonly after?: string };

const PAGE = 2;

type Row = { readonly row: string; readonly v: string; readonly w: string; readonly etag: string };
export type PartitionOutput = {
  readonly told: string;
  /** Of the change set's parts that were done, or the one that was refused. */
  readonly parts?: readonly { readonly told: string; readonly etag: string | undefined }[];
  readonly etag?: string | undefined;
  readonly rows?: readonly Row[];
};
type State = readonly Row[];

/** What one change does to a partition, and what it answers. */
function changed(
  state: State,
  { action, row, word, ifMatch }: Change,
  etag: string,
): [told: string, after: State] {
  const found = state.find((each) => each.row === row);
  if (action === "insert" && found !== undefined) return ["409 EntityAlreadyExists", state];
  if (ifMatch !== undefined) {
    if (found === undefined) return ["404 ResourceNotFound", state];
    if (ifMatch !== "*" && ifMatch !== found.etag) {
      return ["412 UpdateConditionNotSatisfied", state];
    }
  }
  const others = state.filter((each) => each.row !== row);
  if (action === "delete") return ["204", others];
  const w = action === "merge" ? (found?.w ?? "") : word;
  const after = [...others, { row, v: word, w, etag }].sort((a, b) => (a.row < b.row ? -1 : 1));
  return ["204", after];
}

function next(state: State, { input, output, from }: Call<PartitionInput, PartitionOutput>) {
  switch (input.kind) {
    case "change": {
      const { change } = input;
      const before = state.find(({ row }) => row === change.row);
      const [told, after] = changed(state, change, output?.etag ?? untold(from));
      if (output === undefined) return told < "300" ? [after] : [];
      if (told !== output.told) return [];
      if (told < "300" && change.action !== "delete" && !isNew(output.etag, before?.etag)) {
        return [];
      }
      return [after];
    }
    case "set": {
      const [first] = output?.parts ?? [];
      const refused = output?.parts?.length === 1 && first !== undefined && first.told >= "300";
      let after = state;
      for (const [index, change] of input.changes.entries()) {
        const part = output?.parts?.[index];
        const etag = part?.etag ?? untold(from + index / 1000);
        const [told, done] = changed(after, change, etag);
        if (told >= "300") {
          // The first that is refused is the only one that is answered, and nothing has happened.
          return refused && first.told === told ? [state] : [];
        }
        const before = state.find(({ row }) => row === change.row);
        if (output !== undefined && !refused && part?.told !== told) return [];
        const isPlain = output === undefined || refused || change.action === "delete";
        if (!isPlain && !isNew(part?.etag, before?.etag)) return [];
        after = done;
      }
      return refused ? [] : [after];
    }
    case "get": {
      const found = state.filter(({ row }) => row === input.row);
      if (output === undefined) return [];
      if (found.length === 0) return output.told === "404 ResourceNotFound" ? [state] : [];
      return output.told === "200" ? shownAs(state, found, output.rows ?? []) : [];
    }
    case "query":
      return output?.told === "200" ? shownAs(state, pageOf(state, input), output.rows ?? []) : [];
  }
}

const pageOf = (state: State, { after }: { readonly after?: string }): State =>
  after === undefined ? state : state.filter(({ row }) => row > after).slice(0, PAGE);

/** The state with the ETags that a read made known, if the read can have seen these rows of it. */
function shownAs(state: State, found: State, shown: readonly Row[]): State[] {
  if (shown.length !== found.length) return [];
  const isIt = found.every(({ row, v, w, etag }, index) => {
    const each = shown[index];
    return each?.row === row && each.v === v && each.w === w && shows(each.etag, etag);
  });
  if (!isIt) return [];
  if (!found.some(({ etag }) => isUntold(etag))) return [state];
  return [state.map((row) => shown.find((each) => each.row === row.row) ?? row)];
}

const ROWS = ["a", "b", "c", "d"];

type Memory = { readonly etags: Map<string, string> };

function chosenChange(random: Random, { etags }: Memory, row: string, fresh: () => string): Change {
  const action = random.pick(["insert", "replace", "replace", "merge", "merge", "delete"] as const);
  const word = fresh();
  if (action === "insert") return { action, row, word };
  const etag = random.chance(60) ? etags.get(row) : undefined;
  const ifMatch = etag ?? (action === "delete" || random.chance(30) ? "*" : undefined);
  return { action, row, word, ...(ifMatch === undefined ? {} : { ifMatch }) };
}

function choose(random: Random, memory: Memory, fresh: () => string): PartitionInput {
  const dice = random.below(100);
  if (dice < 20) return { kind: "query" };
  if (dice < 30) return { kind: "query", after: random.pick(["", ...ROWS.slice(0, -1)]) };
  if (dice < 40) return { kind: "get", row: random.pick(ROWS) };
  if (dice < 60) {
    return { kind: "change", change: chosenChange(random, memory, random.pick(ROWS), fresh) };
  }
  const rows = ROWS.filter(() => random.chance(60));
  if (rows.length === 0) return { kind: "query" };
  // Half of the sets consist of what cannot be refused, so that many are done.
  if (random.chance(50)) {
    const word = fresh();
    const changes = rows.map((row) => ({ action: "replace", row, word }) as const);
    return { kind: "set", changes };
  }
  return { kind: "set", changes: rows.map((row) => chosenChange(random, memory, row, fresh)) };
}

const CRLF = "\r\n";
const METHODS = { insert: "POST", replace: "PUT", merge: "PATCH", delete: "DELETE" } as const;

function partOf(partition: string, change: Change) {
  const { action, row, word, ifMatch } = change;
  const keys = { PartitionKey: partition, RowKey: row };
  const path =
    action === "insert" ? `/${TABLE}` : `/${TABLE}(PartitionKey='${partition}',RowKey='${row}')`;
  const properties = action === "merge" ? { V: word } : { V: word, W: word };
  const body = action === "delete" ? undefined : JSON.stringify({ ...keys, ...properties });
  const headers: Record<string, string> = { prefer: "return-no-content" };
  if (action !== "insert") delete headers.prefer;
  if (ifMatch !== undefined) headers["if-match"] = ifMatch;
  return { method: METHODS[action], path, headers, body };
}

const PLAIN = { accept: "application/json;odata=minimalmetadata", dataserviceversion: "3.0" };

function queryOf(partition: string, after: string | undefined): Record<string, string> {
  const all = `PartitionKey eq '${partition}'`;
  if (after === undefined) return { $filter: all };
  return { $filter: `${all} and RowKey gt '${after}'`, $top: String(PAGE) };
}

function sentFor(partition: string, input: PartitionInput): Sent {
  const to = { service: "table", method: "GET", path: `/${TABLE}` } as const;
  switch (input.kind) {
    case "query":
      return { ...to, query: queryOf(partition, input.after), headers: PLAIN };
    case "get": {
      const path = `/${TABLE}(PartitionKey='${partition}',RowKey='${input.row}')`;
      return { ...to, path, headers: PLAIN };
    }
    case "change": {
      const { body, headers, ...rest } = partOf(partition, input.change);
      const type = body === undefined ? {} : { "content-type": "application/json" };
      const all = { ...PLAIN, ...type, ...headers };
      return { ...to, ...rest, headers: all, ...(body === undefined ? {} : { body }) };
    }
    case "set": {
      const parts = input.changes.map((change) => {
        const { method, path, headers, body } = partOf(partition, change);
        const lines = [
          "--changeset_1",
          "Content-Type: application/http",
          "Content-Transfer-Encoding: binary",
          "",
          `${method} http://localhost/devstoreaccount1${path} HTTP/1.1`,
          ...(body === undefined ? [] : ["Content-Type: application/json"]),
          "Accept: application/json;odata=minimalmetadata",
          "DataServiceVersion: 3.0",
          ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
          "",
          body ?? "",
        ];
        return `${lines.join(CRLF)}${CRLF}`;
      });
      const body = `--batch_1${CRLF}Content-Type: multipart/mixed; boundary=changeset_1${CRLF}${CRLF}${parts.join("")}--changeset_1--${CRLF}--batch_1--${CRLF}`;
      const headers = { ...PLAIN, "content-type": "multipart/mixed; boundary=batch_1" };
      return { ...to, method: "POST", path: "/$batch", headers, body };
    }
  }
}

type Json = Readonly<Record<string, unknown>>;

function rowsIn({ text }: Answer): Row[] {
  const json = JSON.parse(text) as Json;
  const all = (Array.isArray(json.value) ? json.value : [json]) as Json[];
  return all.map((each) => ({
    row: String(each.RowKey),
    v: String(each.V ?? ""),
    w: String(each.W ?? ""),
    etag: String(each["odata.etag"]),
  }));
}

/** The parts of a change set's answer; a refused one begins its message with its index. */
function partsIn({ text }: Answer): { told: string; etag: string | undefined }[] {
  return text
    .split("HTTP/1.1 ")
    .slice(1)
    .map((part) => {
      const status = part.slice(0, 3);
      const code = /"code":"(\w+)"/.exec(part)?.[1];
      const told = code === undefined ? status : `${status} ${code}`;
      return { told, etag: /^ETag: (.*?)\r?$/im.exec(part)?.[1] };
    });
}

/** The entities of one partition: changes of one, change sets, reads of one and queries of all. */
export const partitionSubject: Subject<State, PartitionInput, PartitionOutput, Memory> = {
  name: "Partition",
  model: { initial: [], next, text: (state) => JSON.stringify(state) },
  memory: () => ({ etags: new Map() }),
  choose,
  looks: () => [{ kind: "query" }],
  async ask(line, object, input) {
    const answer = await line(sentFor(object, input));
    const told = toldBy(answer);
    if (input.kind === "set") {
      return answer.status === 202 ? { told, parts: partsIn(answer) } : { told };
    }
    if (answer.status !== 200) return { told, etag: answer.headers.etag };
    return { told, rows: rowsIn(answer) };
  },
  learn({ etags }, input, output) {
    for (const { row, etag } of output.rows ?? []) etags.set(row, etag);
    if (input.kind === "change" && output.etag !== undefined) {
      etags.set(input.change.row, output.etag);
    }
  },
  prepare: (line) => madeTable(line),
};

const madeTable = (line: Line): Promise<void> =>
  made(line, {
    ...{ service: "table", method: "POST", path: "/Tables" },
    headers: { ...PLAIN, "content-type": "application/json" },
    body: JSON.stringify({ TableName: TABLE }),
  });
