import { folded } from "./file-names.ts";

/**
 * Whether names match a pattern of SMB, whatever their case (MS-FSA 2.1.4.4): `*` is any text, `?` any
 * character; of DOS there are `<`, any text up to the last dot, `>`, a character or none at a dot or the end,
 * and `"`, a dot or the end.
 */
export function matcher(pattern: string): (name: string) => boolean {
  if (pattern === "*") return () => true;
  const steps = [...folded(pattern)];
  return (name) => isMatch(steps, [...folded(name)]);
}

/** Keeps the set of places in the pattern that the name so far can lead to, so that no pattern takes long. */
function isMatch(steps: readonly string[], name: readonly string[]): boolean {
  const lastDot = name.lastIndexOf(".");
  let places = closed(steps, new Set([0]), name, 0);
  for (let at = 0; at < name.length; at++) {
    const next = new Set<number>();
    for (const place of places) {
      const step = steps[place];
      const char = name[at];
      if (step === undefined) continue;
      if (step === "*" || (step === "<" && at !== lastDot)) next.add(place);
      if (step === "<" && at === lastDot) next.add(place + 1);
      if (step === "?" || (step === ">" && char !== ".") || (step === '"' && char === ".")) {
        next.add(place + 1);
      }
      if (step === char) next.add(place + 1);
    }
    places = closed(steps, next, name, at + 1);
    if (places.size === 0) return false;
  }
  return places.has(steps.length);
}

/** Steps that stand for nothing may be left out. */
function closed(
  steps: readonly string[],
  places: Set<number>,
  name: readonly string[],
  at: number,
): Set<number> {
  for (const place of places) {
    const step = steps[place];
    const isEnd = at >= name.length;
    const isNothing =
      step === "*" ||
      step === "<" ||
      (step === ">" && (isEnd || name[at] === ".")) ||
      (step === '"' && isEnd);
    if (isNothing) places.add(place + 1);
  }
  return places;
}
