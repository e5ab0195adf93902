import { jsonObject, objectOf } from "./accounts.ts";
import type { Grant, Service } from "./caller.ts";

/** Who has which role where; what --roles holds. */
export type Roles = readonly Assignment[];

type Assignment = {
  /** The object id of a user, group or application; "*" is everybody with a token. */
  readonly principal: string;
  readonly service: Service;
  readonly letters: string;
  /** Everywhere if not given. */
  readonly account: string | undefined;
  readonly container: string | undefined;
};

// "g" is the right to ask for a user delegation key; "*" is everything.
const READER = "rlg";
const CONTRIBUTOR = "rlgacwdupme";
const OWNER = "*";

const services = { Blob: "blob", Queue: "queue", Table: "table", File: "file" } as const;
const levels = { Reader: READER, Contributor: CONTRIBUTOR, Owner: OWNER } as const;

// Differs from Azure: there is an Owner role for every service, and it covers the service's settings.
/** Azure's role names and what they allow. */
const roles: ReadonlyMap<string, Pick<Assignment, "service" | "letters">> = new Map<
  string,
  Pick<Assignment, "service" | "letters">
>([
  ...Object.entries(services).flatMap(([name, service]) =>
    Object.entries(levels).map(
      ([level, letters]) => [`Storage ${name} Data ${level}`, { service, letters }] as const,
    ),
  ),
  ["Storage Blob Delegator", { service: "blob", letters: "g" }],
  ["Storage Queue Data Message Processor", { service: "queue", letters: "rp" }],
  ["Storage Queue Data Message Sender", { service: "queue", letters: "a" }],
  ["Storage File Data Privileged Reader", { service: "file", letters: READER }],
  ["Storage File Data Privileged Contributor", { service: "file", letters: CONTRIBUTOR }],
]);

export const roleNames: readonly string[] = [...roles.keys()];

const FIELDS = ["principal", "role", "account", "container"];
const ASSIGNMENTS_MAX = 10_000;

/** Reads the roles file: `{"assignments": [{"principal", "role", "account"?, "container"?}]}`. */
export function parseRoles(text: string): Roles {
  const { assignments } = jsonObject(text);
  if (!Array.isArray(assignments)) throw new Error('it needs a list "assignments".');
  if (assignments.length > ASSIGNMENTS_MAX) {
    throw new Error(`more than ${ASSIGNMENTS_MAX} assignments are too many.`);
  }
  return assignments.map((entry: unknown) => {
    const fields = objectOf(entry);
    for (const [name, value] of Object.entries(fields)) {
      if (!FIELDS.includes(name)) {
        throw new Error(`"${name}" is no field of an assignment; there are ${FIELDS.join(", ")}.`);
      }
      if (typeof value !== "string" || value === "") throw new Error(`"${name}" must be a text.`);
    }
    const { principal, role, account, container } = fields as Record<string, string | undefined>;
    if (principal === undefined) throw new Error('an assignment has no "principal".');
    const known = roles.get(role ?? "");
    if (known === undefined) {
      throw new Error(`"${role ?? ""}" is no role; there are ${roleNames.join(", ")}.`);
    }
    return { principal, ...known, account, container };
  });
}

/** What somebody may in an account, by the ids that a token gives them: their own and their groups'. */
export const grantsOf = (all: Roles, principals: readonly string[], account: string): Grant[] =>
  all
    .filter(({ principal }) => principal === "*" || principals.includes(principal))
    .filter((assignment) => assignment.account === undefined || assignment.account === account)
    .map(({ service, letters, container }) => ({ service, letters, container }));

/** Everything, for a server that takes tokens and has no roles. */
export const everything: readonly Grant[] = Object.values(services).map((service) => ({
  service,
  letters: OWNER,
  container: undefined,
}));
