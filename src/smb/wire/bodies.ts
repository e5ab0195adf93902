/** The body of an answer that says nothing but that all is well. */
export const EMPTY_BODY: Buffer = Buffer.of(4, 0, 0, 0);
