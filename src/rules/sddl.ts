import type { NodeKind } from "./smb-properties.ts";

/** One entry of an access list, its six or seven fields as they stand. */
type Ace = readonly string[];

/** A security descriptor in SDDL, taken apart as far as inheritance needs it (MS-DTYP 2.5.1). */
type Descriptor = {
  readonly owner: string;
  readonly group: string;
  readonly aces: readonly Ace[];
};

const SID = "(?:S-1-[0-9A-Fa-fx]+(?:-\\d+)+|[A-Z]{2})";
const ACES = "(?:\\([^()]*\\))*";
const FORM = new RegExp(
  `^O:(${SID})G:(${SID})D:(?:NO_ACCESS_CONTROL|(?:P|AR|AI)*(${ACES}))(?:S:(?:P|AR|AI)*(${ACES}))?$`,
);
const ACE_TYPES = new Set("A D OA OD AU OU AL OL ML XA XD XU ZA RA SP TL FL".split(" "));
const ACE_FLAGS = /^(?:CI|OI|NP|IO|ID|SA|FA|TP|CR)*$/;
const RIGHTS =
  /^(?:0x[0-9a-fA-F]{1,8}|\d{1,10}|(?:G[ARWX]|R[CP]|SD|W[DOP]|CC|DC|LC|SW|DT|LO|CR|F[ARWX]|K[ARWX]|N[RWX])*)$/;
const WHOLE_SID = new RegExp(`^${SID}$`);

// Aliases that mean something only within a domain, which a share has none of ("Create Permission", remarks).
const DOMAIN_ALIASES = new Set("CA CN CY DA DC DD DG DU EA EK KA LA LG PA RO RS SA".split(" "));

const isSid = (text: string) => WHOLE_SID.test(text) && !DOMAIN_ALIASES.has(text);

function parse(text: string): Descriptor | undefined {
  const match = FORM.exec(text);
  if (match === null) return undefined;
  const [, owner = "", group = "", list = "", audit = ""] = match;
  const aces = acesOf(list);
  if (!isSid(owner) || !isSid(group) || ![...aces, ...acesOf(audit)].every(isAce)) return undefined;
  return { owner, group, aces };
}

const acesOf = (list: string): Ace[] =>
  list === ""
    ? []
    : list
        .slice(1, -1)
        .split(")(")
        .map((ace) => ace.split(";"));

function isAce(ace: Ace): boolean {
  const [type = "", flags = "", rights = "", , , sid = ""] = ace;
  if (ace.length < 6 || ace.length > 7) return false;
  return ACE_TYPES.has(type) && ACE_FLAGS.test(flags) && RIGHTS.test(rights) && isSid(sid);
}

/** Whether a text is a security descriptor that a file can have: owner, group and access list are there. */
export const isPermission = (text: string): boolean => parse(text) !== undefined;

/** What a share's root has when nobody said: what the service grants on a new share, written as SDDL. */
export const ROOT_PERMISSION =
  "O:BAG:SYD:(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1301bf;;;AU)(A;;0x1200a9;;;BU)(A;OICIIO;GXGR;;;BU)(A;OICIIO;FA;;;CO)";

/** What a new file or directory has from the directory it is made in (MS-DTYP 2.5.3.4). */
export function inheritedPermission(parent: string, kind: NodeKind): string {
  const descriptor = parse(parent);
  if (descriptor === undefined) return ROOT_PERMISSION;
  const { owner, group, aces } = descriptor;
  const list = aces.flatMap((ace) => inheritedAces(ace, kind, { owner, group }));
  return `O:${owner}G:${group}D:AI${list.map((ace) => `(${ace.join(";")})`).join("")}`;
}

function inheritedAces(ace: Ace, kind: NodeKind, who: { owner: string; group: string }): Ace[] {
  const flags = ace[1] ?? "";
  const has = (flag: string) => [...flags.matchAll(/../g)].some(([each]) => each === flag);
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
