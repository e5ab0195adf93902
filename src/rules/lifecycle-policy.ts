import {
  type LifecycleAction,
  type LifecycleRule,
  type LifecycleStep,
  lifecycleActions,
  type Subject,
  subjects,
} from "./lifecycle.ts";

const RULES_MAX = 100;
const PREFIXES_MAX = 10;
const TAGS_MAX = 10;
const DAYS_MAX = 100_000;
const NAME_FORM = /^[A-Za-z0-9_-]{1,256}$/;

type Node = { readonly [name: string]: unknown };

/** A management policy that can be obeyed, or a sentence for each mistake in it. */
export type CheckedPolicy =
  | { readonly rules: readonly LifecycleRule[] }
  | { readonly problems: readonly string[] };

/** Reads a policy in the form of Azure's management policies ("Lifecycle management policy definition"). */
export function checkedPolicy(text: string): CheckedPolicy {
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch (error) {
    return { problems: [`It is no JSON: ${(error as Error).message}.`] };
  }
  const check = new Check();
  const rules = check.policy(document);
  return check.problems.length > 0 ? { problems: check.problems } : { rules };
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Goes through a policy and gathers what is wrong with it. */
class Check {
  readonly problems: string[] = [];

  policy(document: unknown): LifecycleRule[] {
    const root = isNode(document) && isNode(document.policy) ? document.policy : document;
    const list = isNode(root) ? root.rules : undefined;
    if (!Array.isArray(list)) {
      this.#say("There is no list named rules in it.");
      return [];
    }
    if (list.length === 0) this.#say("It has no rules.");
    if (list.length > RULES_MAX) this.#say(`It has more than ${RULES_MAX} rules.`);
    const names = new Set<string>();
    return list.slice(0, RULES_MAX).flatMap((rule, i) => {
      const name = this.#name(rule, i);
      if (names.has(name.toLowerCase())) this.#say(`Two rules are named ${name}.`);
      names.add(name.toLowerCase());
      return this.#rule(rule, name);
    });
  }

  #name(rule: unknown, index: number): string {
    const name = isNode(rule) ? rule.name : undefined;
    if (typeof name === "string" && NAME_FORM.test(name)) return name;
    this.#say(`Rule ${index + 1} has no name of letters, digits, dashes and underscores.`);
    return `number ${index + 1}`;
  }

  #rule(rule: unknown, name: string): LifecycleRule[] {
    if (!isNode(rule)) return [];
    this.#known(rule, ["enabled", "name", "type", "definition"], `Rule ${name}`);
    if (rule.enabled !== undefined && typeof rule.enabled !== "boolean") {
      this.#say(`Rule ${name}: enabled is neither true nor false.`);
    }
    if (rule.type !== "Lifecycle") this.#say(`Rule ${name}: its type is not "Lifecycle".`);
    const { definition } = rule;
    if (!isNode(definition)) {
      this.#say(`Rule ${name} has no definition.`);
      return [];
    }
    this.#known(definition, ["actions", "filters"], `Rule ${name}, definition`);
    const made: LifecycleRule = {
      name,
      ...this.#filters(definition.filters, name),
      actions: this.#actions(definition.actions, name),
    };
    return rule.enabled === false ? [] : [made];
  }

  #filters(filters: unknown, name: string) {
    const where = `Rule ${name}, filters`;
    if (!isNode(filters)) {
      this.#say(`${where}: blobTypes is missing.`);
      return { blobTypes: [], prefixes: [], tags: [] };
    }
    this.#known(filters, ["blobTypes", "prefixMatch", "blobIndexMatch"], where);
    return {
      blobTypes: this.#blobTypes(filters.blobTypes, where),
      prefixes: this.#prefixes(filters.prefixMatch, where),
      tags: this.#tags(filters.blobIndexMatch, where),
    };
  }

  #blobTypes(value: unknown, where: string): ("BlockBlob" | "AppendBlob")[] {
    if (!Array.isArray(value) || value.length === 0) {
      this.#say(`${where}: blobTypes names no type; there are blockBlob and appendBlob.`);
      return [];
    }
    return value.flatMap((type) => {
      if (type === "blockBlob") return ["BlockBlob" as const];
      if (type === "appendBlob") return ["AppendBlob" as const];
      this.#say(`${where}: blobTypes cannot be ${show(type)}; there are blockBlob and appendBlob.`);
      return [];
    });
  }

  #prefixes(value: unknown, where: string): string[] {
    if (value === undefined) return [];
    if (!Array.isArray(value) || value.some((prefix) => typeof prefix !== "string")) {
      this.#say(`${where}: prefixMatch is no list of texts.`);
      return [];
    }
    if (value.length > PREFIXES_MAX) {
      this.#say(`${where}: prefixMatch has more than ${PREFIXES_MAX} prefixes.`);
    }
    for (const prefix of value as string[]) {
      if (prefix === "" || prefix.startsWith("/")) {
        this.#say(`${where}: prefixMatch ${show(prefix)} does not begin with a container's name.`);
      }
    }
    return value as string[];
  }

  #tags(value: unknown, where: string): LifecycleRule["tags"] {
    if (value === undefined) return [];
    if (!Array.isArray(value) || value.length > TAGS_MAX) {
      this.#say(`${where}: blobIndexMatch is no list of at most ${TAGS_MAX} tags.`);
      return [];
    }
    return value.flatMap((tag) => {
      const { name, op, value: wanted } = isNode(tag) ? tag : ({} as Node);
      if (op === "==" && typeof name === "string" && typeof wanted === "string") {
        return [{ name, value: wanted }];
      }
      this.#say(`${where}: blobIndexMatch ${show(tag)} is not {"name", "op": "==", "value"}.`);
      return [];
    });
  }

  #actions(actions: unknown, name: string): LifecycleRule["actions"] {
    const made: Record<Subject, LifecycleStep[]> = { baseBlob: [], snapshot: [], version: [] };
    if (!isNode(actions)) {
      this.#say(`Rule ${name} has no actions.`);
      return made;
    }
    this.#known(actions, subjects, `Rule ${name}, actions`);
    for (const subject of subjects) {
      const given = actions[subject];
      if (given === undefined) continue;
      if (isNode(given)) made[subject] = this.#steps(given, subject, `Rule ${name}, ${subject}`);
      else this.#say(`Rule ${name}: ${subject} is no object of actions.`);
    }
    if (Object.values(made).every((steps) => steps.length === 0)) {
      this.#say(`Rule ${name} has no actions.`);
    }
    return made;
  }

  #steps(given: Node, subject: Subject, where: string): LifecycleStep[] {
    if ("enableAutoTierToHotFromCool" in given) {
      this.#say(`${where}: enableAutoTierToHotFromCool needs times of access, which are not kept.`);
    }
    this.#known(given, [...lifecycleActions, "enableAutoTierToHotFromCool"], where);
    return lifecycleActions.flatMap((action) => {
      const when = given[action];
      if (when === undefined) return [];
      if (isNode(when)) return [this.#step(when, action, subject, `${where}, ${action}`)];
      this.#say(`${where}: ${action} is no object of conditions.`);
      return [];
    });
  }

  #step(when: Node, action: LifecycleAction, subject: Subject, where: string): LifecycleStep {
    const modified = this.#days(when, "daysAfterModificationGreaterThan", where);
    const created = this.#days(when, "daysAfterCreationGreaterThan", where);
    const tierChanged = this.#days(when, "daysAfterLastTierChangeGreaterThan", where);
    if ("daysAfterLastAccessTimeGreaterThan" in when) {
      this.#say(
        `${where}: daysAfterLastAccessTimeGreaterThan needs times of access, which are not kept.`,
      );
    }
    this.#known(when, CONDITIONS, where);
    if (subject !== "baseBlob" && modified !== undefined) {
      this.#say(`${where}: daysAfterModificationGreaterThan is for baseBlob only.`);
    }
    if (tierChanged !== undefined && action !== "tierToArchive") {
      this.#say(`${where}: daysAfterLastTierChangeGreaterThan is for tierToArchive only.`);
    }
    if ((modified === undefined) === (created === undefined)) {
      const names =
        subject === "baseBlob"
          ? "daysAfterModificationGreaterThan or daysAfterCreationGreaterThan"
          : "daysAfterCreationGreaterThan";
      this.#say(`${where} takes one condition of ${names}.`);
    }
    return {
      action,
      ...(modified === undefined ? {} : { modified }),
      ...(created === undefined ? {} : { created }),
      ...(tierChanged === undefined ? {} : { tierChanged }),
    };
  }

  #days(when: Node, name: string, where: string): number | undefined {
    const value = when[name];
    if (value === undefined) return undefined;
    if (typeof value === "number" && value >= 0 && value <= DAYS_MAX) return value;
    this.#say(`${where}: ${name} ${show(value)} is no number of days.`);
    return 0;
  }

  /** A name that nobody knows is most likely misspelt, and would be passed over in silence. */
  #known(node: Node, names: readonly string[], where: string): void {
    for (const name of Object.keys(node)) {
      if (!names.includes(name)) this.#say(`${where}: ${name} is not known here.`);
    }
  }

  #say(problem: string): void {
    this.problems.push(problem);
  }
}

const CONDITIONS = [
  "daysAfterModificationGreaterThan",
  "daysAfterCreationGreaterThan",
  "daysAfterLastTierChangeGreaterThan",
  "daysAfterLastAccessTimeGreaterThan",
];

const show = (value: unknown): string => JSON.stringify(value) ?? "nothing";
