import { httpDate } from "../base/time.ts";
import { element, XML_DECLARATION } from "../base/xml.ts";
import { type Operation, readOperation, theService } from "../http/operation.ts";
import { invalidQuery } from "../rules/errors.ts";

// The root has this name in every service ("Get Queue Service Stats"); version 12.32 of the SDK for queues in JavaScript
// looks for another one, and finds no statistics in such a reply.
// Differs from Azure: the secondary address shows the same data as the primary one, so it is never behind.
/** How far the secondary is behind; it is asked there, and nowhere else. */
export const serviceStatsRow = (service: string): Operation =>
  readOperation({
    name: `Get ${service} Service Stats`,
    match: { method: "GET", on: "service", restype: "service", comp: "stats" },
    allow: { sas: "r", resource: "s" },
    guard: { on: theService, conditions: "none", lease: "own" },
    input({ secondary }) {
      if (!secondary) throw invalidQuery("comp", "stats", "Only the secondary has statistics.");
    },
    async apply({ tx }) {
      const state = element("Status", "live") + element("LastSyncTime", httpDate(tx.now));
      const body = `${XML_DECLARATION}<StorageServiceStats><GeoReplication>${state}</GeoReplication></StorageServiceStats>`;
      return { status: 200, headers: { "Content-Type": "application/xml" }, body };
    },
  });
