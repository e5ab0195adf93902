import { refusalOf } from "../auth/caller.ts";
import { judge, mayDo, mayOverwrite, needsAccess } from "../auth/may-do.ts";
import type { Engine, ReadTx, WriteTx } from "../engine/engine.ts";
import {
  type Conditions,
  failedCondition,
  noConditions,
  unusableConditions,
} from "../rules/conditions.ts";
import { invalidQuery, refuse, StorageError } from "../rules/errors.ts";
import { available, failedLease, leaseAt } from "../rules/lease.ts";
import { meetsTags, type TagExpression } from "../rules/tag-expressions.ts";
import { parseConditions, tagCondition } from "./conditions.ts";
import { refuseUnheeded } from "./heeded.ts";
import {
  type Applied,
  type Guard,
  type Guarded,
  MustWait,
  type Operation,
  Refused,
  type Reply,
  type Request,
  type Surroundings,
  unfinished,
} from "./operation.ts";
import { noBody, receive } from "./receive.ts";
import {
  framedReply,
  unframedRequest,
  unsupportedStructured,
  wantsStructured,
  withStructuredHeader,
} from "./structured.ts";

/** Throws unless the caller may do it, as far as their own rights tell. */
export function permit({ allow }: Operation, request: Request): void {
  const code = mayDo(request.caller, allow, request);
  if (code !== undefined) throw refusalOf(request.caller, code);
}

/** The life of a request once it is parsed, matched and its sender known. */
export async function run(
  operation: Operation,
  request: Request,
  engine: Engine,
  around: Surroundings,
): Promise<Reply> {
  permit(operation, request);
  if (!wantsStructured(request)) return runPlain(operation, request, engine, around);
  if (operation.body?.kind === "bytes") {
    const plain = await unframedRequest(request);
    return withStructuredHeader(await runPlain(operation, plain, engine, around));
  }
  if (!operation.structured) throw unsupportedStructured();
  return framedReply(await runPlain(operation, request, engine, around));
}

async function runPlain(
  operation: Operation,
  request: Request,
  engine: Engine,
  around: Surroundings,
): Promise<Reply> {
  const { guard } = operation;
  if (request.snapshot !== undefined && !operation.snapshots) {
    const name = request.service === "file" ? "sharesnapshot" : "snapshot";
    throw invalidQuery(name, request.query.get(name) ?? "");
  }
  if (request.versionId !== undefined) {
    const text = request.query.get("versionid") ?? "";
    if (!operation.versions || request.snapshot !== undefined)
      throw invalidQuery("versionid", text);
  }
  guard.on.check?.(request);
  refuseUnheeded(operation, request);
  const judged = judgedBy(request, guard);
  // Headers are judged before a body is taken in; what the body itself says, after.
  const isLate = operation.body !== undefined && operation.body.kind !== "bytes";
  const early = isLate ? undefined : operation.input?.(request, noBody);
  if ((operation.body ?? operation.prepare) !== undefined && needsAccess(request.caller)) {
    // Nobody stores bytes here who may not; the transaction asks again.
    await engine.read((tx) => judge(tx, request.caller, operation.allow, request));
  }
  const received =
    operation.prepare === undefined
      ? await receive(request, operation.body, around.contents)
      : await operation.prepare(request, early, around);
  try {
    const call = {
      request,
      received,
      input: isLate ? operation.input?.(request, received) : early,
      around,
    };
    if (operation.kind === "batch") {
      await engine.read((tx) => guarded(operation, tx, { request, judged, around }));
      return await operation.answer(call);
    }
    if (operation.kind === "read") {
      const reply = await finished(request, () =>
        engine.read(async (tx) => {
          const target = await guarded(operation, tx, { request, judged, around });
          return operation.apply({ tx, ...call, ...target });
        }),
      );
      return operation.finish === undefined ? reply : await operation.finish(reply, call.input);
    }
    return await finished(request, () =>
      engine.write(async (tx: WriteTx) => {
        const target = await guarded(operation, tx, { request, judged, around });
        const reply = await operation.apply({ tx, ...call, ...target });
        if (reply !== unfinished) {
          await around.changes?.note({ tx, operation, request, reply, ...target });
        }
        return reply;
      }),
    );
  } catch (error) {
    around.contents.discard(received.staged);
    if (error instanceof Refused) return error.reply;
    throw error;
  }
}

/** Runs a transaction, and once more each time it had more to do or had to wait for something. */
async function finished(request: Request, step: () => Promise<Applied>): Promise<Reply> {
  for (;;) {
    try {
      const reply = await step();
      if (reply !== unfinished) return reply;
    } catch (error) {
      if (!(error instanceof MustWait)) throw error;
      await error.until(timeoutMs(request));
    }
  }
}

/** How long a request is ready to wait; undefined if it does not say. */
function timeoutMs({ query }: Request): number | undefined {
  const seconds = Number(query.get("timeout") ?? 0);
  return seconds > 0 ? seconds * 1000 : undefined;
}

/** What a request asks of its target. */
type Judged = { readonly conditions: Conditions; readonly tags: TagExpression | undefined };

function judgedBy(request: Request, guard: Guard<unknown, Guarded>): Judged {
  let { conditions } = request;
  const tags = tagCondition(request.header, "x-ms-if-tags");
  if (guard.conditions === "own") return { conditions, tags };
  if (conditions !== noConditions && (guard.conditions === "none" || guard.prefix !== undefined)) {
    throw new StorageError("ConditionHeadersNotSupported");
  }
  if (guard.prefix !== undefined) conditions = parseConditions(request.header, guard.prefix);
  if (guard.conditions !== "none") refuse(unusableConditions(conditions, guard.conditions));
  return { conditions, tags };
}

/**
 * Finds the target and judges rights, lease and conditions, in the transaction that acts on it. The order is
 * the service's: rights, existence, then lease, then conditions (decision 4).
 */
async function guarded(
  { guard, allow }: Operation,
  tx: ReadTx,
  { request, judged, around }: { request: Request; judged: Judged; around: Surroundings },
): Promise<{ place: unknown; found: Guarded | undefined }> {
  const { on, lease, conditions }: Guard<unknown, Guarded> = guard;
  const caller = needsAccess(request.caller)
    ? await judge(tx, request.caller, allow, request)
    : request.caller;
  const target = await on.find(tx, request, around);
  const { found } = target;
  if (found === undefined && !guard.mayMiss) throw new StorageError(on.missing);
  if (found !== undefined && allow.overwrite !== undefined) {
    refuse(mayOverwrite(caller, allow.overwrite, request));
  }
  if (lease !== "own" && (found !== undefined || conditions === "create")) {
    const state = found === undefined ? available : leaseAt(found.lease, tx.now);
    refuse(failedLease(state, request.leaseId, lease, on.leaseCodes));
  }
  if (conditions !== "none" && conditions !== "own") {
    refuse(failedCondition(judged.conditions, found, conditions));
  }
  if (judged.tags !== undefined && !meetsTags(judged.tags, found?.tags)) {
    const isMissed = found === undefined && conditions !== "create";
    throw new StorageError(isMissed ? on.missing : "ConditionNotMet");
  }
  return target;
}
