import { invalidHeader, invalidQuery, missingHeader, StorageError } from "../rules/errors.ts";
import type { HeaderMatch, Match, Operation, Request } from "./operation.ts";

/** Finds the row of a request; built once from the rows. */
export type Router = (request: Request) => Operation;

/** What tells rows apart before their headers are looked at. */
export const routeKey = ({ method, on, restype = "", comp = "" }: Match): string =>
  `${method} ${on} restype=${restype} comp=${comp}`;

/** All keys of a row: a second one where HEAD does the same. */
export const routeKeys = (match: Match): string[] =>
  match.headToo ? [routeKey(match), routeKey({ ...match, method: "HEAD" })] : [routeKey(match)];

/** A map of all rows; where several share a key, a header of the request decides. */
export function router(operations: readonly Operation[]): Router {
  const routes = new Map<string, Operation[]>();
  for (const operation of operations) {
    for (const key of routeKeys(operation.match)) {
      const rows = routes.get(key) ?? [];
      rows.push(operation);
      routes.set(key, rows);
    }
  }
  // The row that asks for more is the one that is meant where several fit.
  for (const rows of routes.values()) rows.sort((a, b) => asked(b.match) - asked(a.match));
  return (request) => {
    const { method, level: on, query } = request;
    const restype = query.get("restype") ?? "";
    const comp = query.get("comp") ?? "";
    const rows = routes.get(routeKey({ method, on, restype, comp }));
    if (rows === undefined) throw unmatched(request, routes, { on, restype, comp });
    const row = rows.find(({ match }) => fits(request, match));
    if (row !== undefined) return row;
    throw unfit(rows, request);
  };
}

const asked = ({ header, also, query }: Match): number =>
  Number(header !== undefined) + Number(also !== undefined) + Number(query !== undefined);

/** What is wrong with the headers of a request that no row fits: a wrong value before a missing header. */
function unfit(rows: readonly Operation[], request: Request): StorageError {
  const names = rows.flatMap(({ match }) =>
    match.header === undefined ? [] : [match.header.name],
  );
  const sent = names.find((name) => request.header(name) !== undefined);
  if (sent !== undefined) return invalidHeader(sent, request.header(sent) ?? "");
  return missingHeader(rows.find(({ match }) => asked(match) === 1)?.match.header?.name ?? "");
}

const fits = (request: Request, { header, also, query }: Match): boolean =>
  hasHeader(request, header) &&
  hasHeader(request, also) &&
  (query === undefined || request.query.get(query.name)?.toLowerCase() === query.value);

function hasHeader(request: Request, header: HeaderMatch | undefined): boolean {
  if (header === undefined) return true;
  const value = request.header(header.name);
  return header.value === undefined
    ? value !== undefined
    : value?.toLowerCase() === header.value.toLowerCase();
}

const METHODS = ["GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH", "MERGE"];

/** Why there is no such operation: the verb, or the parameters. */
function unmatched(
  { method }: Request,
  routes: ReadonlyMap<string, unknown>,
  rest: Omit<Match, "method">,
): StorageError {
  if (!METHODS.includes(method)) return new StorageError("InvalidHttpVerb");
  const known = METHODS.some((other) => routes.has(routeKey({ ...rest, method: other })));
  if (known) return new StorageError("UnsupportedHttpVerb");
  if (rest.comp !== undefined && rest.comp !== "") return invalidQuery("comp", rest.comp);
  if (rest.restype !== undefined && rest.restype !== "")
    return invalidQuery("restype", rest.restype);
  return rest.on === "service"
    ? new StorageError("MissingRequiredQueryParameter", { QueryParameterName: "comp" })
    : new StorageError("UnsupportedHttpVerb");
}
