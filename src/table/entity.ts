import { type Operation, type Request, readOperation, writeOperation } from "../http/operation.ts";
import { allowed, applyChange, changeOf, changeReply } from "./change.ts";
import { answerPoint, answerQuery, pointOf, queryOf } from "./query.ts";
import { entitiesGuard } from "./resource.ts";

/** JSON writes some values longer than they count: base64 by a third, escapes up to six times. */
const BODY_SIZE_MAX = 4 * 1024 * 1024;

/** A row that changes one entity; what it does is in the request, see change.ts. */
const changeRow = (row: Pick<Operation, "name" | "match" | "allow" | "givesEtag">): Operation =>
  writeOperation({
    givesEtag: true,
    ...row,
    body: { kind: "whole", sizeMax: BODY_SIZE_MAX },
    guard: entitiesGuard,
    input: (request: Request, { bytes }) => changeOf(request, bytes),
    async apply({ tx, place: table, request, input: change }) {
      return changeReply(request, change, await applyChange(tx, table, change));
    },
  });

export const insertEntity: Operation = changeRow({
  name: "Insert Entity",
  match: { method: "POST", on: "entities" },
  allow: allowed.insert,
});

const ifMatch = { name: "if-match" };

/** Whether If-Match is there tells an update from an upsert, which checks nothing. */
export const changeEntity: readonly Operation[] = [
  changeRow({
    name: "Update Entity",
    match: { method: "PUT", on: "entity", header: ifMatch },
    allow: allowed.update,
  }),
  changeRow({
    name: "Insert Or Replace Entity",
    match: { method: "PUT", on: "entity" },
    allow: allowed.upsert,
  }),
  ...["MERGE", "PATCH"].flatMap((method) => [
    changeRow({
      name: `Merge Entity (${method})`,
      match: { method, on: "entity", header: ifMatch },
      allow: allowed.update,
    }),
    changeRow({
      name: `Insert Or Merge Entity (${method})`,
      match: { method, on: "entity" },
      allow: allowed.upsert,
    }),
  ]),
  changeRow({
    name: "Delete Entity",
    match: { method: "DELETE", on: "entity" },
    allow: allowed.delete,
    givesEtag: false,
  }),
];

/** A point query. */
export const getEntity: Operation = readOperation({
  name: "Query Entities (one by its keys)",
  match: { method: "GET", on: "entity" },
  allow: allowed.query,
  givesEtag: true,
  guard: entitiesGuard,
  input: pointOf,
  apply: ({ tx, place: table, input }) => answerPoint(tx, table, input),
});

export const queryEntities: Operation = readOperation({
  name: "Query Entities",
  match: { method: "GET", on: "entities" },
  allow: allowed.query,
  givesEtag: true,
  guard: { ...entitiesGuard, conditions: "none" },
  input: queryOf,
  apply: ({ tx, place: table, input }) => answerQuery(tx, table, input),
});
