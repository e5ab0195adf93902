/** A service version, `YYYY-MM-DD`; as texts they compare as dates do. */
export type ServiceVersion = string;

/** What we answer with when a request names none, and what newer ones are treated as. */
export const NEWEST_VERSION: ServiceVersion = "2026-06-06";
const OLDEST_VERSION: ServiceVersion = "2009-04-14";

const FORM = /^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$/;

/** Any date from the first version on is taken, also one newer than we know: new SDKs work. */
export const isServiceVersion = (text: string): boolean =>
  FORM.test(text) && text >= OLDEST_VERSION;

const MIB = 1024 * 1024;

/** How large a body Put Blob, Put Block and Append Block take, by version ("Scalability and performance targets"). */
export function bodySizeMax(version: ServiceVersion): {
  block: number;
  blob: number;
  append: number;
} {
  const append = version >= "2022-11-02" ? 100 * MIB : 4 * MIB;
  if (version >= "2019-12-12") return { block: 4000 * MIB, blob: 5000 * MIB, append };
  if (version >= "2016-05-31") return { block: 100 * MIB, blob: 256 * MIB, append };
  return { block: 4 * MIB, blob: 64 * MIB, append };
}
