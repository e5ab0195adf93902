/** A query after it was read: what evaluate.ts turns into functions. */
export type Query = {
  readonly select: Select;
  /** Where rows are, below each JSON record; empty for the record itself. */
  readonly from: readonly TableStep[];
  readonly where: Expression | undefined;
  readonly limit: number | undefined;
};

export type Select =
  | { readonly kind: "all" }
  | { readonly kind: "columns"; readonly columns: readonly Column<Expression>[] }
  | { readonly kind: "aggregates"; readonly columns: readonly Column<Aggregate>[] }
  | { readonly kind: "split"; readonly size: number };

/** `name` is the alias, else the name of the field that is selected alone. */
export type Column<T> = { readonly value: T; readonly name: string | undefined };

export type Aggregate = {
  readonly name: "COUNT" | "SUM" | "AVG" | "MIN" | "MAX";
  /** Undefined for COUNT(*). */
  readonly of: Expression | undefined;
};

export type TableStep = { readonly member: FieldName } | { readonly index: number | "*" };

/** A name without quotes is found in any case. */
export type FieldName = { readonly text: string; readonly exact: boolean };
export type FieldStep = FieldName | number;

export type Comparison = "=" | "<>" | "<" | "<=" | ">" | ">=";
export type Arithmetic = "+" | "-" | "*" | "/" | "%";
export type TypeName = "INT" | "FLOAT" | "STRING" | "TIMESTAMP" | "BOOLEAN";
export const dateParts = ["year", "month", "day", "hour", "minute", "second"] as const;
export type DatePart = (typeof dateParts)[number];
export type ExtractPart = DatePart | "timezone_hour" | "timezone_minute";

export type Expression =
  | { readonly kind: "literal"; readonly value: string | bigint | number | boolean | null }
  | { readonly kind: "field"; readonly path: readonly [FieldName, ...FieldStep[]] }
  | { readonly kind: "and" | "or"; readonly all: readonly Expression[] }
  | { readonly kind: "not" | "negative"; readonly of: Expression }
  | {
      readonly kind: "comparison";
      readonly sign: Comparison;
      readonly left: Expression;
      readonly right: Expression;
    }
  | {
      readonly kind: "arithmetic";
      readonly sign: Arithmetic;
      readonly left: Expression;
      readonly right: Expression;
    }
  | {
      readonly kind: "like";
      readonly of: Expression;
      readonly pattern: Expression;
      readonly escapeMark: Expression | undefined;
    }
  | { readonly kind: "in"; readonly of: Expression; readonly list: readonly Expression[] }
  | {
      readonly kind: "between";
      readonly of: Expression;
      readonly low: Expression;
      readonly high: Expression;
    }
  | { readonly kind: "null" | "missing"; readonly of: Expression }
  | { readonly kind: "cast"; readonly of: Expression; readonly to: TypeName }
  | {
      readonly kind: "trim";
      readonly side: "BOTH" | "LEADING" | "TRAILING";
      readonly characters: Expression | undefined;
      readonly of: Expression;
    }
  | { readonly kind: "extract"; readonly part: ExtractPart; readonly of: Expression }
  | {
      readonly kind: "dateAdd" | "dateDiff";
      readonly part: DatePart;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly kind: "call"; readonly name: FunctionName; readonly of: readonly Expression[] };

/** Functions whose arguments are only expressions, and how many they take. */
export const functions = {
  LOWER: [1, 1],
  UPPER: [1, 1],
  CHAR_LENGTH: [1, 1],
  CHARACTER_LENGTH: [1, 1],
  SUBSTRING: [2, 3],
  COALESCE: [1, 100],
  NULLIF: [2, 2],
  TO_STRING: [1, 2],
  TO_TIMESTAMP: [1, 1],
  UTCNOW: [0, 0],
} as const satisfies Record<string, readonly [least: number, most: number]>;
export type FunctionName = keyof typeof functions;
