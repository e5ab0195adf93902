import assert from "node:assert/strict";
import { createOperation, readOperation, writeOperation } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import type { Metadata } from "../rules/metadata.ts";
import { POLICIES_XML_MAX, policiesOf, policiesXml } from "../service/policies.ts";
import { metadataHeaders, metadataOf } from "../service/resource.ts";
import { garbage, queueNames, queueStates, queues } from "../store/keys.ts";
import { beginGeneration } from "../store/messages.ts";
import { theQueue } from "./resource.ts";

/** Whether both say the same; names of metadata differ by more than case. */
export function sameMetadata(one: Metadata, other: Metadata): boolean {
  const sorted = (metadata: Metadata) =>
    Object.entries(metadata)
      .map(([name, value]) => [name.toLowerCase(), value])
      .sort(([a = ""], [b = ""]) => (a < b ? -1 : 1));
  return JSON.stringify(sorted(one)) === JSON.stringify(sorted(other));
}

export const createQueue = createOperation({
  name: "Create Queue",
  match: { method: "PUT", on: "queue" },
  allow: { sas: "cw", resource: "c" },
  guard: { on: theQueue, conditions: "none", lease: "own" },
  input: metadataOf,
  async apply({ tx, place, found, input: metadata }) {
    if (found !== undefined) {
      if (sameMetadata(found.metadata, metadata)) return { status: 204, headers: {} };
      throw new StorageError("QueueAlreadyExists");
    }
    queues.put(tx, [place.account, place.name], { metadata, policies: [] });
    beginGeneration(tx, place);
    return { status: 201, headers: {} };
  },
});

/** The messages are taken apart in the background: they have a number that no queue has any more. */
export const deleteQueue = writeOperation({
  name: "Delete Queue",
  match: { method: "DELETE", on: "queue" },
  allow: { sas: "d", resource: "c" },
  guard: { on: theQueue, conditions: "none", lease: "own" },
  async apply({ tx, place: { account, name } }) {
    // Differs from Azure: the name of a deleted queue can be used again at once, not after 30 seconds.
    const state = await queueStates.get(tx, account, name);
    assert.ok(state !== undefined, "a queue without a state");
    queues.delete(tx, account, name);
    queueStates.delete(tx, account, name);
    queueNames.delete(tx, state.generation);
    garbage.put(tx, [tx.tick()], { messages: state.generation.toString(16) });
    return { status: 204, headers: {} };
  },
});

export const getQueueMetadata = readOperation({
  name: "Get Queue Metadata",
  match: { method: "GET", headToo: true, on: "queue", comp: "metadata" },
  allow: { sas: "r", resource: "c", service: "r" },
  guard: { on: theQueue, conditions: "none", lease: "own" },
  async apply({ tx, place: { account, name }, found }) {
    const state = await queueStates.get(tx, account, name);
    const headers = {
      ...metadataHeaders(found.metadata),
      "x-ms-approximate-messages-count": state?.count,
    };
    return { status: 200, headers };
  },
});

export const setQueueMetadata = writeOperation({
  name: "Set Queue Metadata",
  match: { method: "PUT", on: "queue", comp: "metadata" },
  allow: { sas: "w", resource: "c" },
  guard: { on: theQueue, conditions: "none", lease: "own" },
  input: metadataOf,
  async apply({ tx, place, found: { policies }, input: metadata }) {
    queues.put(tx, [place.account, place.name], { metadata, policies });
    return { status: 204, headers: {} };
  },
});

export const getQueueAcl = readOperation({
  name: "Get Queue ACL",
  match: { method: "GET", headToo: true, on: "queue", comp: "acl" },
  allow: { sas: "", resource: "c" },
  guard: { on: theQueue, conditions: "none", lease: "own" },
  async apply({ found }) {
    const headers = { "Content-Type": "application/xml" };
    return { status: 200, headers, body: policiesXml(found.policies) };
  },
});

export const setQueueAcl = writeOperation({
  name: "Set Queue ACL",
  match: { method: "PUT", on: "queue", comp: "acl" },
  allow: { sas: "", resource: "c" },
  body: { kind: "xml", sizeMax: POLICIES_XML_MAX, optional: true },
  guard: { on: theQueue, conditions: "none", lease: "own" },
  input: (_request, { xml }) => (xml === undefined ? [] : policiesOf(xml, "raup")),
  async apply({ tx, place, found: { metadata }, input: policies }) {
    queues.put(tx, [place.account, place.name], { metadata, policies });
    return { status: 204, headers: {} };
  },
});
