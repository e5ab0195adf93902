import { sidBytes } from "./sids.ts";
import type { NodeKind } from "./smb-properties.ts";

/** One entry of an access list, its six or seven fields as they stand. */
export type Ace = readonly string[];

/** A list of entries; `isNull` means that there is none, so that everybody may do everything. */
export type AccessList = {
  readonly flags: readonly string[];
  readonly isNull: boolean;
  readonly aces: readonly Ace[];
};

/** A security descriptor in SDDL, taken apart (MS-DTYP 2.5.1). */
export type Descriptor = {
  readonly owner: string;
  readonly group: string;
  readonly access: AccessList;
  readonly audit?: AccessList;
};

const NO_LIST = "NO_ACCESS_CONTROL";
const SID = "(?:S-1-[0-9A-Fa-fx]+(?:-\\d+)+|[A-Z]{2})";
const FLAGS = `((?:P|AR|AI|${NO_LIST})*)`;
const ACES = "((?:\\([^()]*\\))*)";
const FORM = new RegExp(`^O:(${SID})G:(${SID})D:${FLAGS}${ACES}(?:S:${FLAGS}${ACES})?$`);
const ACE_TYPES = new Set("A D OA OD AU OU AL OL ML XA XD XU ZA RA SP TL FL".split(" "));
const ACE_FLAGS = /^(?:CI|OI|NP|IO|ID|SA|FA|TP|CR)*$/;
const RIGHTS =
  /^(?:0x[0-9a-fA-F]{1,8}|\d{1,10}|(?:G[ARWX]|R[CP]|SD|W[DOP]|CC|DC|LC|SW|DT|LO|CR|F[ARWX]|K[ARWX]|N[RWX])*)$/;

// Letters that mean somebody only within a domain, which a share has none of, are no SID here ("Create
// Permission", remarks).
const isSid = (text: string) => sidBytes(text) !== undefined;

/** What an SDDL text says; undefined if it is none that a file can have: owner, group and access list must be there. */
export function descriptorOf(text: string): Descriptor | undefined {
  const match = FORM.exec(text);
  if (match === null) return undefined;
  const [, owner = "", group = "", flags = "", aces = "", auditFlags, audits] = match;
  const access = listOf(flags, aces);
  const audit = auditFlags === undefined ? undefined : listOf(auditFlags, audits ?? "");
  const all = [...access.aces, ...(audit?.aces ?? [])];
  if (!isSid(owner) || !isSid(group) || !all.every(isAce)) return undefined;
  return { owner, group, access, ...(audit === undefined ? {} : { audit }) };
}

const listOf = (flags: string, aces: string): AccessList => ({
  flags: flags.replace(NO_LIST, "").match(/P|AR|AI/g) ?? [],
  isNull: flags.includes(NO_LIST),
  aces:
    aces === ""
      ? []
      : aces
          .slice(1, -1)
          .split(")(")
          .map((ace) => ace.split(";")),
});

function isAce(ace: Ace): boolean {
  const [type = "", flags = "", rights = "", , , sid = ""] = ace;
  if (ace.length < 6 || ace.length > 7) return false;
  return ACE_TYPES.has(type) && ACE_FLAGS.test(flags) && RIGHTS.test(rights) && isSid(sid);
}

const listText = ({ flags, isNull, aces }: AccessList): string =>
  `${flags.join("")}${isNull ? NO_LIST : ""}${aces.map((ace) => `(${ace.join(";")})`).join("")}`;

export const sddlText = ({ owner, group, access, audit }: Descriptor): string =>
  `O:${owner}G:${group}D:${listText(access)}${audit === undefined ? "" : `S:${listText(audit)}`}`;

/** Whether a text is a security descriptor that a file can have. */
export const isPermission = (text: string): boolean => descriptorOf(text) !== undefined;

/** What a share's root has when nobody said: what the service grants on a new share, written as SDDL. */
export const ROOT_PERMISSION =
  "O:BAG:SYD:(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1301bf;;;AU)(A;;0x1200a9;;;BU)(A;OICIIO;GXGR;;;BU)(A;OICIIO;FA;;;CO)";

/** What a new file or directory has from the directory it is made in (MS-DTYP 2.5.3.4). */
export function inheritedPermission(parent: string, kind: NodeKind): string {
  const descriptor = descriptorOf(parent);
  if (descriptor === undefined) return ROOT_PERMISSION;
  const { owner, group, access } = descriptor;
  const aces = access.aces.flatMap((ace) => inheritedAces(ace, kind, { owner, group }));
  return sddlText({ owner, group, access: { flags: ["AI"], isNull: access.isNull, aces } });
}

/**
 * What a new file or directory has that was given a permission of its own: beside its own entries those that the
 * directory passes on, unless it is protected from them (MS-DTYP 2.5.3.4). Entries that say they were inherited
 * are the old directory's, and make room for the new one's.
 */
export function mergedPermission(given: string, parent: string, kind: NodeKind): string {
  const own = descriptorOf(given);
  const above = descriptorOf(parent);
  if (own === undefined || above === undefined) return given;
  const { owner, group, access } = own;
  if (access.isNull || above.access.isNull || access.flags.includes("P")) return given;
  const explicit = access.aces.filter((ace) => !flagsOf(ace).includes("ID"));
  const passedOn = above.access.aces.flatMap((ace) => inheritedAces(ace, kind, { owner, group }));
  if (passedOn.length === 0 && explicit.length === access.aces.length) return given;
  const aces = [...explicit, ...passedOn];
  return sddlText({ ...own, access: { flags: ["AI"], isNull: false, aces } });
}

const flagsOf = (ace: Ace): string[] => (ace[1] ?? "").match(/../g) ?? [];

function inheritedAces(ace: Ace, kind: NodeKind, who: { owner: string; group: string }): Ace[] {
  const flags = flagsOf(ace);
  const has = (flag: string) => flags.includes(flag);
  const to = (given: string): Ace => [ace[0] ?? "", given, ...ace.slice(2)];
  const creator = ace[5] === "CO" ? who.owner : ace[5] === "CG" ? who.group : undefined;
  const effective = (given: string): Ace => {
    const own = to(given);
    return creator === undefined ? own : [...own.slice(0, 5), creator, ...own.slice(6)];
  };
  if (kind === "file") return has("OI") ? [effective("ID")] : [];
  const passedOn = has("NP") ? "" : `${has("OI") ? "OI" : ""}${has("CI") ? "CI" : ""}`;
  if (!has("CI")) return has("OI") && !has("NP") ? [to("OIIOID")] : [];
  if (creator === undefined || passedOn === "") return [effective(`${passedOn}ID`)];
  return [effective("ID"), to(`${passedOn}IOID`)];
}
