/** A known bug: what is put in the place of which words of a file, and what is to find it. */
export type Mutant = {
  readonly bug: string;
  readonly edits: readonly (readonly [path: string, from: string, to: string])[];
  readonly found: Finder;
};

/** Simulated seeds; a fault over HTTP, with all kinds of objects or one; or a file of tests, where neither can see it. */
export type Finder =
  | { readonly by: "simulation" }
  | { readonly by: "HTTP" | "SMB"; readonly faults: string; readonly only?: string }
  | { readonly by: "test"; readonly file: string };

const simulation: Finder = { by: "simulation" };
const over = (faults: string): Finder => ({ by: "HTTP", faults });
const doors = (faults: string): Finder => ({ by: "SMB", faults, only: "Doors" });

const RUN = "src/http/run.ts";
const ENGINE = "src/engine/sqlite/engine.ts";

/** The bugs that `npm run mutants` plants. */
export const mutants: readonly Mutant[] = [
  {
    bug: "the lease is not checked",
    edits: [[RUN, "refuse(failedLease(state, request.leaseId, lease, on.leaseCodes));", ""]],
    found: simulation,
  },
  {
    bug: "conditions are not checked",
    edits: [[RUN, "refuse(failedCondition(judged.conditions, found, conditions));", ""]],
    found: simulation,
  },
  {
    bug: "lease and conditions are checked before the transaction",
    edits: [
      [
        RUN,
        "return await finished(request, () =>\n      engine.write(",
        "const tooEarly = await engine.read((tx) => guarded(operation, tx, { request, judged, around }));\n    return await finished(request, () =>\n      engine.write(",
      ],
      [
        RUN,
        "const target = await guarded(operation, tx, { request, judged, around });\n        const reply",
        "const target = tooEarly;\n        const reply",
      ],
    ],
    found: simulation,
  },
  {
    bug: "headers come from a later version than the body",
    edits: [
      [
        RUN,
        "return operation.finish === undefined ? reply :",
        "const later = await finished(request, () => engine.read(async (tx) => operation.apply({ tx, ...call, ...(await guarded(operation, tx, { request, judged, around })) })));\n      if (reply.body !== undefined && typeof reply.body !== 'string') return { ...later, body: reply.body };\n      return operation.finish === undefined ? reply :",
      ],
    ],
    found: simulation,
  },
  {
    bug: "Append Block forgets to change the ETag",
    edits: [
      [
        "src/blob/append-blob.ts",
        "...changedBlob(found, changedNow(tx), tx.now),\n    size: end,",
        "...found, size: end,",
      ],
    ],
    found: simulation,
  },
  {
    bug: "a change set that is refused keeps what it has done",
    edits: [["src/table/batch.ts", "throw new Refused(changesReply(", "return (changesReply("]],
    found: simulation,
  },
  {
    bug: "an update does not look at the entity's ETag",
    edits: [["src/table/change.ts", 'ifMatch !== "*" && ifMatch !== etagOf(found)', "false"]],
    found: simulation,
  },
  {
    bug: "a message that is received stays where it is, too",
    edits: [["src/queue/messages.ts", "leavePlace(tx, generation, before);", ""]],
    found: simulation,
  },
  {
    bug: "any id releases a lease",
    edits: [
      [
        "src/rules/lease.ts",
        'if (lease.state === "available" || !sameId(lease.id, id)) {\n    return "LeaseIdMismatchWithLeaseOperation";\n  }\n  return available;',
        "return available;",
      ],
    ],
    found: simulation,
  },
  {
    bug: "a write keeps a lease that has ended",
    edits: [["src/rules/lease.ts", "(isHeld(lease) ? lease : available)", "lease"]],
    found: simulation,
  },
  {
    bug: "time runs backwards for reads when the clock does",
    edits: [
      [
        "src/engine/buffered.ts",
        "Math.max(this.#now, clock, instantOf",
        "Math.max(clock, instantOf",
      ],
    ],
    found: simulation,
  },
  {
    bug: "Delete Blob with If-Match drops blocks where the blob is gone",
    edits: [
      [
        "src/blob/blob.ts",
        "found === undefined && call.request.conditions.ifMatch !== undefined",
        "false",
      ],
    ],
    found: { by: "test", file: "test/proof/found.test.ts" },
  },
  {
    bug: "a body that is cut short is taken for whole",
    edits: [
      ["src/http/exchange.ts", "reject(new ClientGone())", "(resolve(this.taken()), reject)"],
    ],
    found: over("none"),
  },
  {
    bug: "a write is acknowledged before the sync",
    edits: [
      [
        ENGINE,
        "this.#syncing = group;\n",
        "this.#syncing = group;\n    for (const settle of group.settled.splice(0)) settle();\n",
      ],
    ],
    found: over("power cut"),
  },
  {
    bug: "a write that a full disk undid is acknowledged",
    edits: [
      [
        ENGINE,
        "for (const fail of group?.failed ?? []) fail(error);\n    //",
        "for (const settle of group?.settled ?? []) settle();\n    //",
      ],
    ],
    found: over("full disk"),
  },
  {
    bug: "requests that are open are not counted",
    edits: [["src/http/server.ts", "if (this.#open > this.#requestsMax)", "if (false)"]],
    found: over("overload"),
  },
  {
    bug: "a rename leaves the old name where it was",
    edits: [
      [
        "src/file/tree.ts",
        "await dropEntry(tx, writing, from, node.name);\n  putEntry",
        "putEntry",
      ],
    ],
    found: simulation,
  },
  {
    bug: "a snapshot uses bytes without counting that it does",
    edits: [
      [
        "src/blob/blob.ts",
        "const snapshot = tx.tick();\n    const content = await around.contents.copied(tx, found.content);",
        "const snapshot = tx.tick();\n    const content = found.content;",
      ],
    ],
    found: simulation,
  },
  {
    bug: "a copy uses bytes without counting that it does",
    edits: [
      [
        "src/blob/local-copy.ts",
        "content: await around.contents.copied(tx, source.content),",
        "content: source.content,",
      ],
    ],
    found: simulation,
  },
  {
    bug: "bytes that somebody else names, too, are written over in their place",
    edits: [
      [
        "src/store/content.ts",
        'if ((await this.#count(tx, "heap", id, -1)) > 0) return next;\n    if',
        'await this.#count(tx, "heap", id, -1);\n    if',
      ],
    ],
    found: simulation,
  },
  {
    bug: "a version is kept with the metadata that comes after it",
    edits: [
      [
        "src/blob/history.ts",
        "{ ...past(before), content });\n    record",
        "{ ...past(next), content });\n    record",
      ],
    ],
    found: simulation,
  },
  {
    bug: "SMB CLOSE is answered before the sync",
    edits: [
      [
        "src/smb/file-open.ts",
        "await this.#remove();\n    await this.settled();",
        "await this.#remove();",
      ],
    ],
    found: doors("power cut"),
  },
  {
    bug: "SMB FLUSH is answered before the sync",
    edits: [
      [
        "src/smb/commands/flush.ts",
        "await around.engine.settled();\n      await open.settled();",
        "",
      ],
    ],
    found: { by: "test", file: "test/service/smb-durable.test.ts" },
  },
  {
    bug: "an SMB WRITE that is to go through is answered before the sync",
    edits: [
      [
        "src/smb/commands/write.ts",
        'given: isThrough ? "durable" : "soon"',
        'given: isThrough ? "soon" : "soon"',
      ],
    ],
    found: doors("power cut"),
  },
  {
    bug: "a write by REST does not look at SMB's locks",
    edits: [
      [
        "src/store/opens.ts",
        'writes && locks.length > 0 ? "FileLockConflict" : undefined',
        "undefined",
      ],
    ],
    found: doors("none"),
  },
  {
    bug: "a write by SMB does not look at the locks of others",
    edits: [["src/smb/commands/write.ts", "!mayTouch(around.opens, open, range, true)", "false"]],
    found: doors("none"),
  },
  {
    bug: "REST does not look at SMB's share modes",
    edits: [
      [
        "src/store/opens.ts",
        'if (this.#inTheWay(identity, use).length > 0) return "SharingViolation";',
        "",
      ],
    ],
    found: doors("none"),
  },
  {
    bug: "an SMB rename that replaces a file removes it in a transaction of its own, 10 ms before",
    edits: [
      [
        "src/smb/commands/set-info.ts",
        "const target = await open.change((change) =>",
        "if (replaces !== 0) {\n      await open.change(async (change) => {\n        const { node: there } = await walk(change.tx, viewOf(change.share), path);\n        if (there !== undefined && there.id !== (await open.node(change.tx)).id) await makeWay({ around, change, there, replaces: true });\n      });\n      await new Promise((resolve) => setTimeout(resolve, 10));\n    }\n    const target = await open.change((change) =>",
      ],
    ],
    found: doors("none,slow disk"),
  },
  {
    bug: "a delete on close is forgotten if others have the file open",
    edits: [
      [
        "src/smb/file-open.ts",
        "if (!this.isDirectory) opens.setDeletePending(this, true);",
        "if (!this.isDirectory) opens.setDeletePending(this, opens.of(this).length === 1);",
      ],
    ],
    found: doors("none"),
  },
  {
    bug: "a read tells what is not synced yet",
    edits: [[ENGINE, "if (view.seen === undefined || given", "if (view !== undefined || given"]],
    found: { by: "test", file: "src/engine/sqlite/durability.test.ts" },
  },
  {
    bug: "a file of bytes is named before it is synced",
    edits: [["src/engine/disk-files.ts", "await this.#disk.sync(this.#file);", ""]],
    found: { by: "test", file: "test/simulation/power-cut.test.ts" },
  },
];
