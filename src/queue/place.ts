import type { Place } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";

/**
 * What a path names: nothing is the service, one part a queue, `messages` below it all its messages, and a
 * part below those one of them. The names are the queue's and the message's.
 */
export function queuePlace(segments: readonly string[]): Place {
  const [queue = "", messages, message, ...rest] =
    segments.at(-1) === "" ? segments.slice(0, -1) : segments;
  if (queue === "") return { level: "service", names: [] };
  if (messages === undefined) return { level: "queue", names: [queue] };
  if (messages !== "messages" || rest.length > 0) throw new StorageError("InvalidUri");
  if (message === undefined) return { level: "messages", names: [queue] };
  return { level: "message", names: [queue, message] };
}
