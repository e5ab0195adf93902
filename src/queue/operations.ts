import type { Operation, ServiceDefinition } from "../http/operation.ts";
import { servicePropertiesRows } from "../service/properties.ts";
import { serviceStatsRow } from "../service/stats.ts";
import { userDelegationKeyRow } from "../service/user-delegation-key.ts";
import { listQueues } from "./list-queues.ts";
import { deleteMessage, updateMessage } from "./message.ts";
import { clearMessages, getMessages, peekMessages, putMessage } from "./messages.ts";
import { queuePlace } from "./place.ts";
import {
  createQueue,
  deleteQueue,
  getQueueAcl,
  getQueueMetadata,
  setQueueAcl,
  setQueueMetadata,
} from "./queue.ts";

const settings = ["Logging", "HourMetrics", "MinuteMetrics", "Cors"];

const operations: readonly Operation[] = [
  listQueues,
  ...servicePropertiesRows("Queue", settings),
  serviceStatsRow("Queue"),
  userDelegationKeyRow("q"),
  createQueue,
  deleteQueue,
  getQueueMetadata,
  setQueueMetadata,
  getQueueAcl,
  setQueueAcl,
  putMessage,
  peekMessages,
  getMessages,
  clearMessages,
  updateMessage,
  deleteMessage,
];

/** The Queue service, whole. */
export const queueService: ServiceDefinition = { name: "queue", operations, place: queuePlace };
