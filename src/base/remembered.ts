/**
 * A pure function that remembers what it gave for the last `max` texts, for work that is asked for again and
 * again with few of them.
 */
export function remembered<R>(max: number, give: (text: string) => R): (text: string) => R {
  const given = new Map<string, R>();
  return (text) => {
    const known = given.get(text);
    if (known !== undefined) return known;
    const result = give(text);
    if (given.size >= max) given.delete(given.keys().next().value as string);
    given.set(text, result);
    return result;
  };
}
