import { readFileSync } from "node:fs";
import { theBlob, theContainer } from "../src/blob/resource.ts";
import { links } from "../src/file/links.ts";
import { theShare } from "../src/file/resource.ts";
import type { Operation, ServiceDefinition } from "../src/http/operation.ts";
import { type Conditions, failedCondition } from "../src/rules/conditions.ts";
import { type ErrorCode, errors } from "../src/rules/errors.ts";
import {
  acquired,
  available,
  broken,
  changed,
  failedLease,
  type Lease,
  released,
  renewed,
} from "../src/rules/lease.ts";
import {
  ALL,
  DELETE,
  noOplock,
  READ,
  type RestUse,
  type Rights,
  restOpens,
  WRITE,
} from "../src/rules/sharing.ts";
import { services } from "../src/services.ts";
import { type OpenFile, Opens } from "../src/store/opens.ts";

const PAGE = "docs/concurrency.md";

/**
 * The guide to concurrency. Its words are its own; between `<!-- table: … -->` or `<!-- from: … -->` and
 * `<!-- end -->` stands what is made from the rows, the rules and the examples.
 */
export function concurrencyPage(): string {
  return readFileSync(PAGE, "utf8").replace(
    /<!-- (table|from): (.*?) -->\n[\s\S]*?<!-- end -->/g,
    (_, kind: string, what: string) => {
      const text = kind === "table" ? tableOf(what) : snippetOf(what);
      return `<!-- ${kind}: ${what} -->\n${text}\n<!-- end -->`;
    },
  );
}

/** A function of an example, with the comment above it: "examples/concurrency/wiki.ts edit". */
function snippetOf(what: string): string {
  const [path = "", name = ""] = what.split(" ");
  const pattern = `(?:^/\\*\\*(?:(?!\\*/)[\\s\\S])*\\*/\\n)?^(?:export )?(?:async )?function ${name}\\b[\\s\\S]*?^}$`;
  const found = new RegExp(pattern, "m").exec(readFileSync(path, "utf8"))?.[0];
  if (found === undefined) throw new Error(`${PAGE}: ${path} has no function ${name}`);
  return `\`\`\`ts\n${found.replace(/^export /m, "")}\n\`\`\``;
}

function tableOf(name: string): string {
  const table = tables[name];
  if (table === undefined) throw new Error(`${PAGE}: there is no table "${name}"`);
  const [head = [], ...rows] = table();
  return [head, head.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`)
    .join("\n");
}

type Cells = readonly string[];

const tables: Readonly<Record<string, () => readonly Cells[]>> = {
  "conditions of containers": () => conditionsTable(rowsOn(theContainer)),
  "conditions of blobs": () => conditionsTable(rowsOn(theBlob)),
  "leases of containers": () => leaseTable(rowsOn(theContainer)),
  "leases of blobs": () => leaseTable(rowsOn(theBlob)),
  "leases of shares": () => leaseTable(rowsOn(theShare)),
  "leases of files": () => leaseTable(fileRows),
  "lease ids": leaseIdsTable,
  "lease actions": leaseActionsTable,
  entities: entitiesTable,
  queues: queuesTable,
  "uses of files": usesTable,
  "REST beside SMB": sharingTable,
  failures: failuresTable,
};

/** What a client sees of a refusal, or that there is none. */
function outcome(code: ErrorCode | undefined): string {
  if (code === undefined) return "done";
  const [status, , wire]: readonly [number, string, string?] = errors[code];
  return `${status} ${wire ?? code}`;
}

const operationsOf = (name: ServiceDefinition["name"]): readonly Operation[] =>
  services.find((service) => service.name === name)?.operations ?? [];

/** The rows that are about one kind of thing; a batch is about its parts. */
const rowsOn = (target: object): Operation[] =>
  services
    .flatMap(({ operations }) => operations)
    .filter(({ guard, kind }) => guard.on === target && kind !== "batch");

const fileRows = operationsOf("file").filter(
  (row) => row.match.on === "file" && !links.includes(row),
);

/** Rows of one operation that differ in their action alone, as those of leases do, are told as one. */
function together(rows: readonly (readonly [name: string, ...cells: string[]])[]): Cells[] {
  const groups = new Map<string, { name: string; cells: string[] }>();
  for (const [name, ...cells] of rows) {
    const [family = "", action] = name.split(": ");
    const key = action === undefined ? name : `${family}: ${cells.join()}`;
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { name, cells });
    else group.name += `, ${action}`;
  }
  return [...groups.values()].map(({ name, cells }) => [name, ...cells]);
}

const ETAG = "0x1";
const OTHER = "0x2";
const found = { etag: ETAG, modifiedAt: 0 };

function conditionsTable(rows: readonly Operation[]): readonly Cells[] {
  const judged = (conditions: Conditions, { guard }: Operation) => {
    if (guard.conditions === "own") throw new Error("a table of its own tells these");
    const code =
      guard.conditions === "none"
        ? "ConditionHeadersNotSupported"
        : failedCondition(conditions, found, guard.conditions);
    return outcome(code).slice(0, 3); // the status alone: the codes are always the same
  };
  return [
    ["Operation", "ETag in the reply", "Headers", "A failing If-Match", "A failing If-None-Match"],
    ...together(
      rows.map((row) => [
        row.name,
        row.givesEtag ? "yes" : "–",
        row.guard.conditions === "none" ? "–" : `\`${row.guard.prefix ?? ""}if-…\``,
        judged({ ifMatch: [OTHER] }, row),
        judged({ ifNoneMatch: [ETAG] }, row),
      ]),
    ),
  ];
}

const A = "a";
const B = "b";
const NOW = 100_000;
const leased: Lease = { state: "leased", id: A, seconds: 60, endsAt: NOW + 60_000 };
const expired: Lease = { ...leased, state: "expired", endsAt: NOW };
const breaking: Lease = { state: "breaking", id: A, endsAt: NOW + 30_000 };
const over: Lease = { state: "broken", id: A, endsAt: NOW };

function leaseTable(rows: readonly Operation[]): readonly Cells[] {
  return [
    ["Operation", "Without the id of the lease"],
    ...rows
      .map((row) => [row.name, useOf(row, leased, undefined)])
      .filter(([, cell]) => cell !== ""),
  ];
}

/** What becomes of a use of something in this state of its lease; "" if leases are no matter of it. */
const useOf = ({ guard }: Operation, lease: Lease, id: string | undefined): string =>
  guard.lease === "own" ? "" : outcome(failedLease(lease, id, guard.lease, guard.on.leaseCodes));

/** An id that is named is judged alike by every operation on one kind of thing. */
function leaseIdsTable(): readonly Cells[] {
  const kinds: [what: string, rows: readonly Operation[]][] = [
    ["container", rowsOn(theContainer)],
    ["blob", rowsOn(theBlob)],
    ["share", rowsOn(theShare)],
    ["file", fileRows],
  ];
  const cell = (rows: readonly Operation[], lease: Lease, id: string) => {
    const cells = new Set(rows.map((row) => useOf(row, lease, id)).filter((text) => text !== ""));
    if (cells.size !== 1) throw new Error("operations judge the id of a lease in different ways");
    return [...cells].join();
  };
  return [
    ["Leased", "Its id", "Another id", "Its id, after its end", "An id, never leased"],
    ...kinds.map(([what, rows]) => [
      what,
      cell(rows, leased, A),
      cell(rows, leased, B),
      cell(rows, over, A),
      cell(rows, available, A),
    ]),
  ];
}

function leaseActionsTable(): readonly Cells[] {
  const states = [available, leased, breaking, over, expired];
  const actions: [what: string, change: (lease: Lease) => Lease | ErrorCode][] = [
    ["acquire", (lease) => acquired(lease, { id: B, proposed: false, seconds: 60 }, NOW)],
    ["acquire A", (lease) => acquired(lease, { id: A, proposed: true, seconds: 60 }, NOW)],
    ["acquire B", (lease) => acquired(lease, { id: B, proposed: true, seconds: 60 }, NOW)],
    ["renew A", (lease) => renewed(lease, A, NOW)],
    ["renew B", (lease) => renewed(lease, B, NOW)],
    ["change A to B", (lease) => changed(lease, { id: A, proposed: B })],
    ["change B to A", (lease) => changed(lease, { id: B, proposed: A })],
    ["release A", (lease) => released(lease, A)],
    ["release B", (lease) => released(lease, B)],
    ["break, in 10 seconds", (lease) => broken(lease, 10, NOW)],
    ["break, at once", (lease) => broken(lease, 0, NOW)],
  ];
  return [
    ["Action", ...states.map(({ state }) => (state === "available" ? state : `${state} (A)`))],
    ...actions.map(([what, change]) => [
      what,
      ...states.map((lease) => {
        const after = change(lease);
        return typeof after === "string" ? outcome(after) : after.state;
      }),
    ]),
  ];
}

/** How an entity's row takes If-Match follows from its match: the header tells an update from an upsert. */
function entityCells(row: Operation, all: readonly Operation[]): Cells {
  const { method, header } = row.match;
  const stale = outcome("UpdateConditionNotSatisfied");
  const twin = all.find(
    ({ match }) => match.method === method && match.on === row.match.on && match.header !== header,
  );
  if (row.kind === "read") {
    const refused = outcome("ConditionHeadersNotSupported");
    return ["done", refused, refused];
  }
  if (header !== undefined) return [`is ${twin?.name}`, stale, "done"];
  if (method === "DELETE") return [outcome("MissingRequiredHeader"), stale, "done"];
  if (method === "POST") return ["done", outcome("InvalidInput"), outcome("InvalidInput")];
  return ["done", `is ${twin?.name}`, `is ${twin?.name}`];
}

function entitiesTable(): readonly Cells[] {
  const rows = operationsOf("table").filter(
    ({ match }) => (match.on === "entity" || match.on === "entities") && match.comp === undefined,
  );
  const etag = ({ givesEtag, kind, match }: Operation) => {
    if (!givesEtag) return "–";
    return kind === "read" && match.on === "entities" ? "with each entity" : "yes";
  };
  return [
    ["Operation", "ETag in the reply", "Without If-Match", "A stale If-Match", "If-Match: *"],
    ...rows.map((row) => [row.name, etag(row), ...entityCells(row, rows)]),
  ];
}

function queuesTable(): readonly Cells[] {
  const rows = operationsOf("queue").filter(({ kind }) => kind === "write");
  const between = ({ match }: Operation) =>
    match.comp !== undefined || match.method === "PUT" ? "the last writer wins" : "";
  return [
    ["Operation", "A conditional header", "Pop receipt", "An old pop receipt", "Two at once"],
    ...rows.map((row) => {
      const isMessage = row.match.on === "message";
      return [
        row.name,
        outcome(row.guard.conditions === "none" ? "ConditionHeadersNotSupported" : undefined),
        isMessage ? "required" : "–",
        isMessage ? outcome("MessageNotFound") : "–",
        row.guard.mayMiss ? "the first creates, the second finds it" : between(row) || "–",
      ];
    }),
  ];
}

const uses = Object.keys(restOpens) as RestUse[];
const words: readonly (readonly [bit: Rights, word: string])[] = [
  [READ, "Read"],
  [WRITE, "Write"],
  [DELETE, "Delete"],
];
const wordsOf = (rights: Rights): string =>
  words
    .filter(([bit]) => (rights & bit) !== 0)
    .map(([, word]) => word)
    .join(" + ") || "nothing";

/** Files that an operation enters beside the one that its URL names. */
const otherFiles: readonly (readonly [what: string, use: RestUse])[] = [
  ["the source of Copy File", "read"],
  ["the source of Rename File", "delete"],
  ["a file that Rename File replaces", "delete"],
];

function usesTable(): readonly Cells[] {
  return [
    ["Use", "Wants", "Operations"],
    ...uses.map((use) => {
      // A rename is told below: what its URL names need not be there.
      const own = fileRows
        .filter(({ guard, match }) => guard.on.use === use && match.comp !== "rename")
        .map(({ name }) => [name] as const);
      const others = otherFiles.filter(([, other]) => other === use).map(([what]) => what);
      const names = [...together(own).map(([name]) => name), ...others];
      return [use, wordsOf(restOpens[use].access), names.join("; ")];
    }),
  ];
}

const opened = (access: Rights, shares: Rights, more: Partial<OpenFile> = {}): OpenFile => ({
  ...{ share: 1n, file: 1n, handle: 1n, access, shares, locks: [], oplock: noOplock },
  holder: { session: 1n, address: "", name: "", openedAt: 0 },
  breakOplock: () => {},
  closed: () => {},
  ...more,
});

const lockOf = (exclusive: boolean) => ({ locks: [{ start: 0n, count: 1n, exclusive }] });

/** What an SMB client may have done to a file, in the words of the table. */
const handles: readonly (readonly [what: string, open: OpenFile, doomed?: boolean])[] = [
  ...[0, READ, WRITE, DELETE, READ | WRITE, READ | DELETE, WRITE | DELETE, ALL].map(
    (shares) => [`Read, shares ${wordsOf(shares)}`, opened(READ, shares)] as const,
  ),
  ["Read + Write, shares nothing", opened(READ | WRITE, 0)],
  ["Read + Write, shares Read + Write + Delete", opened(READ | WRITE, ALL)],
  ["Delete, shares Read + Write + Delete", opened(DELETE, ALL)],
  ["attributes only, shares nothing", opened(0, 0)],
  ["has locked bytes, shared", opened(READ, ALL, lockOf(false))],
  ["has locked bytes, exclusively", opened(READ, ALL, lockOf(true))],
  ["has marked it to be deleted", opened(DELETE, ALL), true],
];

function sharingTable(): readonly Cells[] {
  return [
    ["The SMB client's handle", ...uses],
    ...handles.map(([what, open, doomed = false]) => {
      const opens = new Opens();
      opens.enter(open);
      opens.setDeletePending(open, doomed);
      return [what, ...uses.map((use) => outcome(opens.failedUse(open, use)))];
    }),
  ];
}

/** What to do about each refusal that another client is the cause of. */
const remedies: readonly (readonly [code: ErrorCode, means: string, then: string])[] = [
  [
    "ConditionNotMet",
    "It changed since you read it, or is not what your condition asks for. Nothing was done.",
    "Read it again, do your change on what is there now, write with the new ETag. Give up or wait after some tries.",
  ],
  [
    "NotModified",
    "What you have is what is there.",
    "Use your copy. It is no failure, though SDKs throw it.",
  ],
  ["UpdateConditionNotSatisfied", "The same for an entity.", "The same: read, merge, write again."],
  [
    "EntityAlreadyExists",
    "Somebody inserted an entity of these keys.",
    "Read it; update it, or take other keys.",
  ],
  [
    "BlobAlreadyExists",
    "You wanted to create (`If-None-Match: *`) and somebody did so before you.",
    "Read what is there. In an election: you lost.",
  ],
  [
    "AppendPositionConditionNotMet",
    "Another append came before yours.",
    "Look whether it was your own, sent twice; else append at the new end.",
  ],
  [
    "SequenceNumberConditionNotMet",
    "The page blob has another sequence number: a newer writer has taken over.",
    "Stop writing.",
  ],
  [
    "SourceConditionNotMet",
    "The source of a copy is not what you asked for.",
    "Read the source anew.",
  ],
  [
    "MultipleConditionHeadersNotSupported",
    "The conditions cannot be combined on a write.",
    "Send one of them, or If-Match with If-Unmodified-Since.",
  ],
  [
    "ConditionHeadersNotSupported",
    "This operation has no conditions. It is refused, so that you do not trust in a check that nobody makes.",
    "Leave the header out, or use a lease.",
  ],
  [
    "LeaseAlreadyPresent",
    "Somebody else holds the lease.",
    "Wait and try again, with some random delay; or break it, if you may.",
  ],
  [
    "LeaseIdMissing",
    "It is leased, and you named no lease.",
    "Whoever holds the lease may write. Acquire it first, and name it with each write.",
  ],
  [
    "LeaseIdMismatchWithBlobOperation",
    "Somebody else holds the lease now.",
    "You have lost it: stop, drop what you planned, acquire anew.",
  ],
  [
    "LeaseLost",
    "Your lease has ended: its time ran out, or it was broken.",
    "Stop. Acquire it anew and read again; one that ran out can be renewed if nobody has written since.",
  ],
  [
    "LeaseNotPresentWithBlobOperation",
    "You named a lease, and there is none.",
    "It ran out or was released, and the blob was written since. Acquire anew and read again.",
  ],
  [
    "LeaseIdMismatchWithLeaseOperation",
    "You renew, change or release a lease that is not yours any more.",
    "Treat it as lost.",
  ],
  [
    "LeaseIsBrokenAndCannotBeRenewed",
    "Somebody broke your lease.",
    "Finish in the time that is left; then acquire anew.",
  ],
  [
    "MessageNotFound",
    "The message was deleted, has expired, or was given to somebody else since: your pop receipt is old.",
    "Another worker does it or has done it. Do not send it again.",
  ],
  [
    "SharingViolation",
    "An SMB client has the file open and does not share what you want.",
    "Wait and try again; List Handles tells who, Force Close Handles ends it.",
  ],
  [
    "FileLockConflict",
    "An SMB client has locked bytes of the file.",
    "Wait and try again: REST needs the whole file.",
  ],
  [
    "SMBDeletePending",
    "An SMB client has marked the file to be deleted when the last handle is closed.",
    "Wait. It may become 404, or come back.",
  ],
  [
    "ClientCacheFlushDelay",
    "An SMB client did not write back in time what it kept to itself.",
    "Try again.",
  ],
  [
    "ServerBusy",
    "There is more to do than the server takes on at once.",
    "Try again after the seconds in `Retry-After`; SDKs do so themselves.",
  ],
];

function failuresTable(): readonly Cells[] {
  return [
    ["Failure", "What it means", "What to do"],
    ...remedies.map(([code, means, then]) => [outcome(code), means, then]),
  ];
}
