import { type Instant, parseHttpDate } from "../base/time.ts";
import { type Conditions, noConditions } from "../rules/conditions.ts";
import { invalidHeader } from "../rules/errors.ts";
import { parseTagCondition, type TagExpression } from "../rules/tag-expressions.ts";

/**
 * The conditional headers with a prefix before their names: none for the request's own, `x-ms-source-`
 * for those of a copy's source.
 */
export function parseConditions(
  header: (name: string) => string | undefined,
  prefix = "",
): Conditions {
  const tags = (name: string): readonly string[] | undefined => {
    const value = header(prefix + name);
    if (value === undefined) return undefined;
    const list = value.split(",").map((tag) => bareTag(tag.trim()));
    if (list.includes("")) throw invalidHeader(prefix + name, value);
    return list;
  };
  const time = (name: string): Instant | undefined => {
    const value = header(prefix + name);
    if (value === undefined) return undefined;
    const at = parseHttpDate(value);
    if (at === undefined) throw invalidHeader(prefix + name, value);
    return at;
  };
  const ifMatch = tags("if-match");
  const ifNoneMatch = tags("if-none-match");
  const ifModifiedSince = time("if-modified-since");
  const ifUnmodifiedSince = time("if-unmodified-since");
  if (
    ifMatch === undefined &&
    ifNoneMatch === undefined &&
    ifModifiedSince === undefined &&
    ifUnmodifiedSince === undefined
  ) {
    return noConditions;
  }
  return {
    ...(ifMatch === undefined ? {} : { ifMatch }),
    ...(ifNoneMatch === undefined ? {} : { ifNoneMatch }),
    ...(ifModifiedSince === undefined ? {} : { ifModifiedSince }),
    ...(ifUnmodifiedSince === undefined ? {} : { ifUnmodifiedSince }),
  };
}

/** Quotes are optional since 2011-08-18, and a weak tag compares as a strong one. */
function bareTag(text: string): string {
  const strong = text.startsWith("W/") ? text.slice(2) : text;
  const quoted = strong.length >= 2 && strong.startsWith('"') && strong.endsWith('"');
  return quoted ? strong.slice(1, -1) : strong;
}

/** A condition on tags, from the header of this name. */
export function tagCondition(
  header: (name: string) => string | undefined,
  name: string,
): TagExpression | undefined {
  const text = header(name);
  if (text === undefined) return undefined;
  const expression = parseTagCondition(text);
  if (expression === undefined) throw invalidHeader(name, text);
  return expression;
}
