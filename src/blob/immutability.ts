import { httpDate, type Instant, parseHttpDate } from "../base/time.ts";
import type { WriteTx } from "../engine/engine.ts";
import { IMMUTABILITY_HEADERS } from "../http/heeded.ts";
import { type Request, type Settings, writeOperation } from "../http/operation.ts";
import { invalidHeader, missingHeader, StorageError } from "../rules/errors.ts";
import { type Held, type Policy, policyChanged, policyRemoved } from "../rules/immutability.ts";
import { containers } from "../store/keys.ts";
import { type BlobPlace, putBlobRecord, theBlob } from "./resource.ts";

function policyOf(request: Request): Policy | undefined {
  const date = request.header("x-ms-immutability-policy-until-date");
  const mode = request.header("x-ms-immutability-policy-mode");
  if (date === undefined) {
    if (mode !== undefined) throw missingHeader("x-ms-immutability-policy-until-date");
    return undefined;
  }
  const until = parseHttpDate(date);
  if (until === undefined) throw invalidHeader("x-ms-immutability-policy-until-date", date);
  const known = (["Unlocked", "Locked"] as const).find(
    (name) => name.toLowerCase() === (mode ?? "Unlocked").toLowerCase(),
  );
  if (known === undefined) throw invalidHeader("x-ms-immutability-policy-mode", mode ?? "");
  return { until, mode: known };
}

function holdOf(request: Request): boolean | undefined {
  const text = request.header("x-ms-legal-hold");
  if (text === undefined) return undefined;
  const lower = text.toLowerCase();
  if (lower !== "true" && lower !== "false") throw invalidHeader("x-ms-legal-hold", text);
  return lower === "true";
}

/** What a request that makes a blob says of how long it must stay as it is. */
export function heldOf(request: Request): Held {
  const immutability = policyOf(request);
  return {
    ...(immutability === undefined ? {} : { immutability }),
    ...(holdOf(request) ? { legalHold: true } : {}),
  };
}

/** Refuses a policy or hold where the account has none, and one that ends in the past. */
export function refuseHold(held: Held, settings: Settings, now: Instant): void {
  if (held.immutability === undefined && held.legalHold === undefined) return;
  refuseSwitchedOff(settings);
  if (held.immutability !== undefined && held.immutability.until <= now) {
    throw invalidHeader("x-ms-immutability-policy-until-date", httpDate(held.immutability.until));
  }
}

/** Notes at the container that it may have to stay for the sake of a blob. */
export async function noteHeld(tx: WriteTx, { account, containerName }: BlobPlace): Promise<void> {
  const record = await containers.get(tx, account, containerName);
  if (record === undefined || record.hasHeld) return;
  containers.put(tx, [account, containerName], { ...record, hasHeld: true });
}

const refuseSwitchedOff = ({ immutableStorage }: Settings): void => {
  if (!immutableStorage) throw new StorageError("FeatureNotEnabled");
};

export const setImmutabilityPolicy = writeOperation({
  name: "Set Blob Immutability Policy",
  match: { method: "PUT", on: "blob", comp: "immutabilityPolicies" },
  allow: { sas: "i", resource: "o" },
  snapshots: true,
  versions: true,
  heeds: IMMUTABILITY_HEADERS,
  guard: { on: theBlob, conditions: "write", lease: "free" },
  input(request) {
    const policy = policyOf(request);
    if (policy === undefined) throw missingHeader("x-ms-immutability-policy-until-date");
    return policy;
  },
  async apply({ tx, place, found, input, around }) {
    refuseSwitchedOff(around.settings);
    const policy = policyChanged(found.immutability, input, tx.now);
    if (policy === "InvalidHeaderValue") {
      throw invalidHeader("x-ms-immutability-policy-until-date", httpDate(input.until));
    }
    if (typeof policy === "string") throw new StorageError(policy);
    putBlobRecord(tx, place, { ...found, immutability: policy });
    await noteHeld(tx, place);
    const headers = {
      "x-ms-immutability-policy-until-date": httpDate(policy.until),
      "x-ms-immutability-policy-mode": policy.mode.toLowerCase(),
    };
    return { status: 200, headers };
  },
});

export const deleteImmutabilityPolicy = writeOperation({
  name: "Delete Blob Immutability Policy",
  match: { method: "DELETE", on: "blob", comp: "immutabilityPolicies" },
  allow: { sas: "i", resource: "o" },
  snapshots: true,
  versions: true,
  guard: { on: theBlob, conditions: "none", lease: "free" },
  async apply({ tx, place, found, around }) {
    refuseSwitchedOff(around.settings);
    const refused = policyRemoved(found.immutability, tx.now);
    if (refused !== undefined) throw new StorageError(refused);
    const { immutability: _before, ...record } = found;
    putBlobRecord(tx, place, record);
    return { status: 200, headers: {} };
  },
});

export const setLegalHold = writeOperation({
  name: "Set Blob Legal Hold",
  match: { method: "PUT", on: "blob", comp: "legalhold" },
  allow: { sas: "i", resource: "o" },
  snapshots: true,
  versions: true,
  heeds: ["x-ms-legal-hold"],
  guard: { on: theBlob, conditions: "none", lease: "free" },
  input(request) {
    const hold = holdOf(request);
    if (hold === undefined) throw missingHeader("x-ms-legal-hold");
    return hold;
  },
  async apply({ tx, place, found, input: hold, around }) {
    refuseSwitchedOff(around.settings);
    const { legalHold: _before, ...rest } = found;
    putBlobRecord(tx, place, hold ? { ...rest, legalHold: true } : rest);
    if (hold) await noteHeld(tx, place);
    return { status: 200, headers: { "x-ms-legal-hold": hold } };
  },
});
