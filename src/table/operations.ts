import type { Operation, ServiceDefinition } from "../http/operation.ts";
import { servicePropertiesRows } from "../service/properties.ts";
import { serviceStatsRow } from "../service/stats.ts";
import { entityGroupTransaction } from "./batch.ts";
import { changeEntity, getEntity, insertEntity, queryEntities } from "./entity.ts";
import { errorJson } from "./format.ts";
import { getMetadata } from "./metadata.ts";
import { tablePlace, tableVerb } from "./place.ts";
import {
  createTable,
  deleteTable,
  getTable,
  getTableAcl,
  queryTables,
  setTableAcl,
} from "./table.ts";

const operations: readonly Operation[] = [
  ...servicePropertiesRows("Table", ["Logging", "HourMetrics", "MinuteMetrics", "Cors"]),
  serviceStatsRow("Table"),
  getMetadata,
  queryTables,
  getTable,
  createTable,
  deleteTable,
  getTableAcl,
  setTableAcl,
  queryEntities,
  getEntity,
  insertEntity,
  ...changeEntity,
  entityGroupTransaction,
];

/** What is not OData is XML, and so are its errors: access policies, and the service's properties. */
const IS_XML = /[?&](?:comp|restype)=/i;

/** The Table service, whole. */
export const tableService: ServiceDefinition = {
  name: "table",
  operations,
  place: tablePlace,
  verb: tableVerb,
  errorBody: (url) => (IS_XML.test(url) ? undefined : errorJson),
};
