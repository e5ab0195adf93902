import { blobService } from "./blob/operations.ts";
import { fileService } from "./file/operations.ts";
import type { ServiceDefinition } from "./http/operation.ts";
import { queueService } from "./queue/operations.ts";
import { tableService } from "./table/operations.ts";

/** All services, each on a port of its own: main.ts serves them, docs/operations.md lists their rows. */
export const services: readonly ServiceDefinition[] = [
  blobService,
  queueService,
  tableService,
  fileService,
];
