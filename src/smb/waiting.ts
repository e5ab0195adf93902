import type { Call } from "./command.ts";
import { SmbError } from "./status.ts";

/** Waits for something that other clients have to do; the client may cancel it. */
export async function waitedFor<T>(call: Call, what: Promise<T>): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  aborted.promise.catch(() => {}); // nobody may be listening any more
  call.pend((status) => aborted.reject(new SmbError(status)));
  return Promise.race([what, aborted.promise]);
}
