/** NTLMSSP's object identifier, as DER has it. */
const NTLM_OID = Buffer.from("060a2b06010401823702020a", "hex");
const SPNEGO_OID = Buffer.from("06062b0601050502", "hex");
const HINT = Buffer.from("not_defined_in_RFC4178@please_ignore", "latin1");

type Element = { readonly tag: number; readonly value: Buffer; readonly end: number };

/** Reads one element of DER; undefined if the bytes hold none. */
function elementAt(bytes: Buffer, at: number): Element | undefined {
  const tag = bytes[at];
  const first = bytes[at + 1];
  if (tag === undefined || first === undefined) return undefined;
  let size = first;
  let start = at + 2;
  if (first >= 0x80) {
    const count = first & 0x7f;
    if (count < 1 || count > 3 || start + count > bytes.length) return undefined;
    size = bytes.readUIntBE(start, count);
    start += count;
  }
  const end = start + size;
  return end <= bytes.length ? { tag, value: bytes.subarray(start, end), end } : undefined;
}

/** The elements inside of another one, by their tags. */
function partsOf(bytes: Buffer): ReadonlyMap<number, Buffer> {
  const parts = new Map<number, Buffer>();
  for (let at = 0; at < bytes.length; ) {
    const part = elementAt(bytes, at);
    if (part === undefined) break;
    parts.set(part.tag, part.value);
    at = part.end;
  }
  return parts;
}

function made(tag: number, ...values: readonly Buffer[]): Buffer {
  const size = values.reduce((sum, { length }) => sum + length, 0);
  const head =
    size < 0x80
      ? Buffer.of(tag, size)
      : size < 0x100
        ? Buffer.of(tag, 0x81, size)
        : Buffer.of(tag, 0x82, size >> 8, size & 0xff);
  return Buffer.concat([head, ...values]);
}

/** What the server offers before anybody has asked: NTLM, and a hint that nobody reads (MS-SPNG 2.2.1). */
export const offer: Buffer = made(
  0x60,
  SPNEGO_OID,
  made(
    0xa0,
    made(
      0x30,
      made(0xa0, made(0x30, NTLM_OID)),
      made(0xa3, made(0x30, made(0xa0, made(0x1b, HINT)))),
    ),
  ),
);

/** What a client's token says. */
export type Token = {
  /** The list of mechanisms as it was sent, for the code over it; only the first token has it. */
  readonly mechanisms?: Buffer;
  /** Whether the token inside is meant for the mechanism that the server chose. */
  readonly isNtlmFirst: boolean;
  readonly inner: Buffer | undefined;
  readonly mic: Buffer | undefined;
};

const octets = (bytes: Buffer | undefined): Buffer | undefined => {
  const element = bytes === undefined ? undefined : elementAt(bytes, 0);
  return element?.tag === 0x04 ? element.value : undefined;
};

/** Reads NegTokenInit or NegTokenResp (RFC 4178); undefined if it is neither, or does not name NTLM. */
export function parseToken(blob: Buffer): Token | undefined {
  const outer = elementAt(blob, 0);
  if (outer === undefined) return undefined;
  if (outer.tag === 0xa1) {
    const body = partsOf(outer.value).get(0x30);
    if (body === undefined) return undefined;
    const parts = partsOf(body);
    return { isNtlmFirst: true, inner: octets(parts.get(0xa2)), mic: octets(parts.get(0xa3)) };
  }
  if (outer.tag !== 0x60) return undefined;
  const init = partsOf(outer.value).get(0xa0);
  const body = init === undefined ? undefined : partsOf(init).get(0x30);
  if (body === undefined) return undefined;
  const parts = partsOf(body);
  const mechanisms = parts.get(0xa0);
  const list = mechanisms === undefined ? undefined : elementAt(mechanisms, 0);
  if (mechanisms === undefined || list === undefined) return undefined;
  if (list.value.indexOf(NTLM_OID) < 0) return undefined;
  return {
    mechanisms,
    isNtlmFirst: list.value.indexOf(NTLM_OID) === 0,
    inner: octets(parts.get(0xa2)),
    mic: octets(parts.get(0xa3)),
  };
}

/** The answer that asks for another token. */
export const more = (inner: Buffer | undefined): Buffer =>
  made(
    0xa1,
    made(
      0x30,
      made(0xa0, Buffer.of(0x0a, 1, 1)),
      made(0xa1, NTLM_OID),
      ...(inner === undefined ? [] : [made(0xa2, made(0x04, inner))]),
    ),
  );

/** The answer that all is well. */
export const completed = (mic: Buffer | undefined): Buffer =>
  made(
    0xa1,
    made(
      0x30,
      made(0xa0, Buffer.of(0x0a, 1, 0)),
      ...(mic === undefined ? [] : [made(0xa3, made(0x04, mic))]),
    ),
  );
