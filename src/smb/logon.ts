import { timingSafeEqual } from "node:crypto";
import {
  challengeOf,
  isMangled,
  isNtlm,
  messageTypeOf,
  type NtlmAccounts,
  ntlmSignature,
  type Proved,
} from "../auth/ntlm.ts";
import * as spnego from "./spnego.ts";
import { SmbError } from "./status.ts";

export type LogonSurroundings = {
  readonly accounts: NtlmAccounts;
  readonly serverName: string;
  nonce(): Buffer;
  /** The time as Windows counts it. */
  time(): bigint;
};

/** What the server answers to a leg of a logon; the last one says who it is. */
export type Leg = { readonly answer: Buffer; readonly proved?: Proved };

/** One logon, of two or three legs, in SPNEGO or as NTLM alone. */
export class Logon {
  readonly #around: LogonSurroundings;
  #mechanisms: Buffer | undefined;
  #isNtlmFirst = true;
  #sent: { readonly negotiate: Buffer; readonly challenge: Buffer } | undefined;

  constructor(around: LogonSurroundings) {
    this.#around = around;
  }

  step(blob: Buffer): Leg {
    if (isNtlm(blob)) return this.#ntlm(blob);
    const token = spnego.parseToken(blob);
    if (token === undefined) throw new SmbError("STATUS_LOGON_FAILURE");
    if (token.mechanisms !== undefined) {
      this.#mechanisms = Buffer.from(token.mechanisms);
      this.#isNtlmFirst = token.isNtlmFirst;
      if (!token.isNtlmFirst) return { answer: spnego.more(undefined) };
    }
    if (token.inner === undefined) throw new SmbError("STATUS_LOGON_FAILURE");
    const { answer, proved } = this.#ntlm(token.inner);
    if (proved === undefined) return { answer: spnego.more(answer) };
    return { answer: spnego.completed(this.#checkedMic(token.mic, proved)), proved };
  }

  #ntlm(message: Buffer): Leg {
    const type = messageTypeOf(message);
    if (type === 1 && this.#sent === undefined) {
      const { serverName: name } = this.#around;
      const drawn = { nonce: this.#around.nonce(), name, time: this.#around.time() };
      const challenge = challengeOf(message, drawn);
      if (challenge === undefined) throw new SmbError("STATUS_LOGON_FAILURE");
      this.#sent = { negotiate: Buffer.from(message), challenge };
      return { answer: challenge };
    }
    const proved =
      type === 3 && this.#sent !== undefined
        ? this.#around.accounts.proved(message, this.#sent)
        : undefined;
    if (proved === undefined) {
      const isWrong = type === 3 && isMangled(message);
      throw new SmbError(isWrong ? "STATUS_INVALID_PARAMETER" : "STATUS_LOGON_FAILURE");
    }
    return { answer: Buffer.alloc(0), proved };
  }

  /** Checks the client's code over the list of mechanisms, and gives the server's. */
  #checkedMic(mic: Buffer | undefined, { sessionKey }: Proved): Buffer | undefined {
    const list = this.#mechanisms;
    if (list === undefined) return undefined;
    if (mic === undefined) {
      // Without it somebody on the way could have put another mechanism first.
      if (!this.#isNtlmFirst) throw new SmbError("STATUS_LOGON_FAILURE");
      return undefined;
    }
    const own = ntlmSignature(sessionKey, "client-to-server", list);
    if (mic.length !== own.length || !timingSafeEqual(mic, own)) {
      throw new SmbError("STATUS_LOGON_FAILURE");
    }
    return ntlmSignature(sessionKey, "server-to-client", list);
  }
}
