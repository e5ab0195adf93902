import type { Engine, ReadTx, WriteTx } from "../engine/engine.ts";
import { failedCondition, noConditions, unusableConditions } from "../rules/conditions.ts";
import { invalidQuery, refuse, StorageError } from "../rules/errors.ts";
import { available, failedLease, leaseAt } from "../rules/lease.ts";
import type { Guard, Guarded, Operation, Reply, Request, Surroundings } from "./operation.ts";
import { noBody, receive } from "./receive.ts";

/** The life of a request once it is parsed, matched and authorized. */
export async function run(
  operation: Operation,
  request: Request,
  engine: Engine,
  around: Surroundings,
): Promise<Reply> {
  const { guard } = operation;
  if (request.snapshot !== undefined && !operation.snapshots) {
    throw invalidQuery("snapshot", request.query.get("snapshot") ?? "");
  }
  guard.on.check?.(request);
  refuseUnusable(request, guard);
  // Headers are judged before a body is taken in; what the body itself says, after.
  const isLate = operation.body !== undefined && operation.body.kind !== "bytes";
  const early = isLate ? undefined : operation.input?.(request, noBody);
  const received = await receive(request, operation.body, around.contents);
  try {
    const call = {
      request,
      received,
      input: isLate ? operation.input?.(request, received) : early,
      around,
    };
    if (operation.kind === "read") {
      const reply = await engine.read(async (tx) => {
        const target = await guarded(guard, tx, request);
        return operation.apply({ tx, ...call, ...target });
      });
      return operation.finish === undefined ? reply : await operation.finish(reply, call.input);
    }
    return await engine.write(async (tx: WriteTx) => {
      const target = await guarded(guard, tx, request);
      return operation.apply({ tx, ...call, ...target });
    });
  } catch (error) {
    around.contents.discard(received.staged);
    throw error;
  }
}

function refuseUnusable(request: Request, guard: Guard<unknown, Guarded>): void {
  if (request.conditions === noConditions) return;
  if (guard.conditions === "none") throw new StorageError("ConditionHeadersNotSupported");
  refuse(unusableConditions(request.conditions, guard.conditions));
}

/**
 * Finds the target and judges lease and conditions, in the transaction that acts on it. The order is the
 * service's: existence, then lease, then conditions (SEMANTICS a.4, j.16).
 */
async function guarded(
  guard: Guard<unknown, Guarded>,
  tx: ReadTx,
  request: Request,
): Promise<{ place: unknown; found: Guarded | undefined }> {
  const { on, lease, conditions } = guard;
  const target = await on.find(tx, request);
  const { found } = target;
  if (found === undefined && !guard.mayMiss) throw new StorageError(on.missing);
  if (lease !== "own" && (found !== undefined || conditions === "create")) {
    const state = found === undefined ? available : leaseAt(found.lease, tx.now);
    refuse(failedLease(state, request.leaseId, lease, on.leaseCodes));
  }
  if (conditions !== "none") refuse(failedCondition(request.conditions, found, conditions));
  return target;
}
