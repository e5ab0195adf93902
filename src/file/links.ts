import { type Operation, type Request, readOperation, writeOperation } from "../http/operation.ts";
import { StorageError } from "../rules/errors.ts";
import { theNode } from "./resource.ts";

/** Links belong to NFS shares; a share of SMB, which all are here, has none. */
function refuseLink({ query }: Request): never {
  throw new StorageError("UnsupportedQueryParameter", {
    QueryParameterName: "restype",
    QueryParameterValue: query.get("restype") ?? "",
    Reason: "Links are for NFS shares only.",
  });
}

const row = (name: string, method: "GET" | "PUT", restype: string): Operation => {
  const shared = {
    name,
    match: { method, on: "file", restype },
    allow: { sas: method === "GET" ? "r" : "cw", resource: "o" },
    input: refuseLink,
    guard: { on: theNode("look"), conditions: "none", lease: "own" },
  } as const;
  const never = async () => ({ status: 200, headers: {} });
  return method === "GET"
    ? readOperation({ ...shared, apply: never })
    : writeOperation({ ...shared, apply: never });
};

/** The three rows of links, each a refusal. */
export const links: readonly Operation[] = [
  row("Create Symbolic Link", "PUT", "symboliclink"),
  row("Get Symbolic Link", "GET", "symboliclink"),
  row("Create Hard Link", "PUT", "hardlink"),
];
