/** One rule of a service's CORS setting, lists as texts with commas. */
export type Rule = {
  readonly origins: string;
  readonly methods: string;
  readonly allowedHeaders: string;
  readonly exposedHeaders: string;
  readonly maxAgeSeconds: number;
};

/** What a browser asks before it sends a request. */
export type Preflight = {
  readonly origin: string;
  readonly method: string;
  /** The names of Access-Control-Request-Headers, as they came. */
  readonly headers: string | undefined;
};

/** What CORS adds to a reply; `exposed` are names and prefixes to be held against the reply's own headers. */
export type CorsReply = {
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly exposed: readonly string[];
};

const listOf = (text: string): string[] =>
  text
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");

/**
 * The headers of the reply to a preflight, or undefined if the rules forbid the request. The first rule of that
 * origin and method decides, also if its headers do not fit ("CORS support for Azure Storage").
 */
export function preflightHeaders(
  rules: readonly Rule[],
  { origin, method, headers }: Preflight,
): Record<string, string | number> | undefined {
  const rule = matching(rules, origin, method);
  if (rule === undefined) return undefined;
  const allowed = listOf(rule.allowedHeaders);
  const wanted = listOf(headers ?? "");
  if (!wanted.every((name) => allowed.some((entry) => fits(entry, name)))) return undefined;
  return {
    ...Object.fromEntries(originHeaders(rule, origin)),
    "Access-Control-Allow-Methods": method,
    ...(headers === undefined ? {} : { "Access-Control-Allow-Headers": wanted.join(",") }),
    "Access-Control-Max-Age": rule.maxAgeSeconds,
    Vary: "Origin",
  };
}

/** What CORS adds to the reply of a request itself; undefined if nothing. */
export function corsReply(
  rules: readonly Rule[],
  origin: string | undefined,
  method: string,
): CorsReply | undefined {
  if (rules.length === 0) return undefined;
  const rule = matching(rules, origin, method);
  const isRead = method === "GET" || method === "HEAD";
  // A cache must not give one origin what was meant for another, nor what was asked for without one.
  const vary: [string, string][] =
    isRead && (rule === undefined || !isForAll(rule)) ? [["Vary", "Origin"]] : [];
  if (rule === undefined) return vary.length === 0 ? undefined : { headers: vary, exposed: [] };
  if (origin === undefined && !isRead) return undefined;
  return {
    headers: [...originHeaders(rule, origin ?? "*"), ...vary],
    exposed: listOf(rule.exposedHeaders),
  };
}

/** The names of a reply's headers that a browser may show to the page. */
export function exposedNames(exposed: readonly string[], names: readonly string[]): string[] {
  const found = names.filter((name) => exposed.some((entry) => fits(entry, name)));
  const literal = exposed.filter((entry) => !entry.endsWith("*"));
  const known = new Set(found.map((name) => name.toLowerCase()));
  return [...found, ...literal.filter((entry) => !known.has(entry.toLowerCase()))];
}

function matching(
  rules: readonly Rule[],
  origin: string | undefined,
  method: string,
): Rule | undefined {
  return rules.find(
    ({ origins, methods }) =>
      listOf(methods).includes(method) &&
      listOf(origins).some((entry) => entry === "*" || hasOrigin(entry, origin)),
  );
}

const isForAll = ({ origins }: Rule): boolean => listOf(origins).includes("*");

/** An origin as it is written, or any below a domain, as `https://*.example.com`; case counts. */
function hasOrigin(entry: string, origin: string | undefined): boolean {
  if (origin === undefined) return false;
  if (entry === origin) return true;
  const at = entry.indexOf("://*.");
  if (at === -1) return false;
  const scheme = entry.slice(0, at + 3);
  const domain = entry.slice(at + 4);
  const isLonger = origin.length > scheme.length + domain.length;
  return isLonger && origin.startsWith(scheme) && origin.endsWith(domain);
}

const originHeaders = (rule: Rule, origin: string): [string, string][] =>
  isForAll(rule)
    ? [["Access-Control-Allow-Origin", "*"]]
    : [
        ["Access-Control-Allow-Origin", origin],
        ["Access-Control-Allow-Credentials", "true"],
      ];

/** Whether a name is an entry's, or begins as an entry with `*` at its end does. */
function fits(entry: string, name: string): boolean {
  const rule = entry.toLowerCase();
  const text = name.toLowerCase();
  return rule.endsWith("*") ? text.startsWith(rule.slice(0, -1)) : text === rule;
}
