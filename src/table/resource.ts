import type { Instant } from "../base/time.ts";
import type { Guard, Guarded, Target } from "../http/operation.ts";
import { refuse } from "../rules/errors.ts";
import { available, containerLeaseCodes } from "../rules/lease.ts";
import { badTableName } from "../rules/table-names.ts";
import { tableIds, tables } from "../store/keys.ts";
import type { TableRecord } from "../store/table-records.ts";

/** Where a table's record is: names differ in more than case. */
export type TablePlace = { readonly account: string; readonly name: string };

/** Tables have neither ETag nor lease, and one target serves all rows: it never fails a condition. */
const unguarded: Guarded = { etag: "", modifiedAt: 0 as Instant, lease: available };

/** A table by its record, for what is about the table itself. */
export const theTable: Target<TablePlace, TableRecord & Guarded> = {
  check: ({ names: [name = ""] }) => refuse(badTableName(name)),
  async find(tx, { account, names: [name = ""] }) {
    const place = { account, name: name.toLowerCase() };
    const record = await tables.get(tx, account, place.name);
    return { place, found: record === undefined ? undefined : { ...record, ...unguarded } };
  },
  missing: "ResourceNotFound",
  leaseCodes: containerLeaseCodes,
};

/** A table by its number alone, for what is about its entities. */
export const theEntities: Target<bigint, Guarded> = {
  check: ({ names: [name = ""] }) => refuse(badTableName(name)),
  async find(tx, { account, names: [name = ""] }) {
    const id = await tableIds.get(tx, account, name.toLowerCase());
    return { place: id ?? 0n, found: id === undefined ? undefined : unguarded };
  },
  missing: "TableNotFound",
  leaseCodes: containerLeaseCodes,
};

export const tableGuard: Guard<TablePlace, TableRecord & Guarded> = {
  on: theTable,
  conditions: "none",
  lease: "own",
};

/** If-Match is judged by the operations themselves: only entities have ETags, and errors of their own. */
export const entitiesGuard: Guard<bigint, Guarded> = {
  on: theEntities,
  conditions: "own",
  lease: "own",
};
