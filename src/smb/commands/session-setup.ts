import { services } from "../../store/keys.ts";
import type { ProtocolSettings } from "../../store/records.ts";
import { type CallWith, command, type Reply } from "../command.ts";
import type { Negotiated } from "../connection.ts";
import { Logon } from "../logon.ts";
import { hashedOn, Sealer, Signer, SMB_300, SMB_311, sessionKeys } from "../protection.ts";
import { Session } from "../session.ts";
import { isAllowed } from "../settings.ts";
import { ProtocolViolation, SmbError } from "../status.ts";
import { FLAG_SIGNED } from "../wire/header.ts";
import { layout, partOf, u8, u16, u32, u64 } from "../wire/layout.ts";

const BINDING = 1;
const SIGNING_REQUIRED = 2;
const ENCRYPT_DATA = 4;
const SESSIONS_MAX = 256;

const answerLayout = layout({
  structureSize: u16,
  sessionFlags: u16,
  securityBufferOffset: u16,
  securityBufferLength: u16,
});

const bodyOf = (blob: Buffer, sessionFlags: number): Buffer[] => [
  answerLayout.bytes({
    structureSize: 9,
    sessionFlags,
    securityBufferOffset: 64 + answerLayout.size,
    securityBufferLength: blob.length,
  }),
  blob,
];

export const sessionSetup = command({
  code: 0x0001,
  name: "SESSION_SETUP",
  needs: "connection",
  structureSize: 25,
  request: {
    structureSize: u16,
    flags: u8,
    securityMode: u8,
    capabilities: u32,
    channel: u32,
    securityBufferOffset: u16,
    securityBufferLength: u16,
    previousSessionId: u64,
  },
  async handle(call, request) {
    const { connection, header, message } = call;
    const { negotiated } = connection;
    if (negotiated === undefined) throw new ProtocolViolation("it did not negotiate first");
    if ((request.flags & BINDING) !== 0) {
      // Sessions have one connection: several channels are not offered.
      const isKnown = call.around.sessions.has(header.sessionId);
      throw new SmbError(
        negotiated.dialect < SMB_300 || isKnown
          ? "STATUS_REQUEST_NOT_ACCEPTED"
          : "STATUS_USER_SESSION_DELETED",
      );
    }
    const blob = partOf(message, request.securityBufferOffset, request.securityBufferLength);
    const session = sessionOf(call);
    const isAgain = session.account !== undefined;
    session.logon ??= new Logon(call.around.logon);
    if (negotiated.dialect === SMB_311 && !isAgain) session.hash = hashedOn(session.hash, message);
    try {
      const { answer, proved } = session.logon.step(blob);
      if (proved === undefined) return goesOn(session, answer, negotiated);
      session.logon = undefined;
      if (isAgain) {
        if (session.account?.name !== proved.account.name)
          throw new SmbError("STATUS_ACCESS_DENIED");
        return { body: bodyOf(answer, session.isEncrypted ? ENCRYPT_DATA : 0), session };
      }
      const settings = await settingsOf(call, proved.account.name);
      if (!isAllowed(settings, negotiated)) throw new SmbError("STATUS_ACCESS_DENIED");
      protect(session, proved.sessionKey, negotiated, request.securityMode);
      if (settings.encryptionRequired) session.isEncrypted = true;
      session.account = proved.account;
      await forgetPrevious(session, request.previousSessionId);
      return {
        body: bodyOf(answer, session.isEncrypted ? ENCRYPT_DATA : 0),
        session,
        isSigned: true,
      };
    } catch (error) {
      await session.end();
      throw error;
    }
  },
});

/** How the account wants SMB to be spoken; it is asked at each logon. */
async function settingsOf(
  { around }: CallWith<"connection">,
  account: string,
): Promise<ProtocolSettings> {
  const record = await around.engine.read((tx) => services.get(tx, account, "file"));
  return record?.protocolSettings ?? {};
}

/** The session that the request goes on with, or a new one. */
function sessionOf({
  around,
  connection,
  header,
  message,
  isSealed,
}: CallWith<"connection">): Session {
  if (header.sessionId !== 0n) {
    const session = connection.sessions.get(header.sessionId);
    if (session === undefined) throw new SmbError("STATUS_USER_SESSION_DELETED");
    const isSigned = (header.flags & FLAG_SIGNED) !== 0;
    if (!isSealed && session.signer !== undefined) {
      if (isSigned ? !session.signer.isSigned(message) : session.isSigningRequired) {
        throw new SmbError("STATUS_ACCESS_DENIED");
      }
    }
    return session;
  }
  if (connection.sessions.size >= SESSIONS_MAX) throw new SmbError("STATUS_REQUEST_NOT_ACCEPTED");
  let id = 0n;
  while (id === 0n || around.sessions.has(id)) id = BigInt(around.random(4).readUInt32LE());
  const session = new Session(id, connection);
  connection.sessions.set(id, session);
  around.sessions.set(id, session);
  return session;
}

function goesOn(session: Session, answer: Buffer, { dialect }: Negotiated): Reply {
  return {
    status: "STATUS_MORE_PROCESSING_REQUIRED",
    body: bodyOf(answer, 0),
    session,
    sent: (message) => {
      if (dialect === SMB_311 && session.account === undefined) {
        session.hash = hashedOn(session.hash, message);
      }
    },
  };
}

/** Makes the keys, and says what the session must do with them. */
function protect(
  session: Session,
  sessionKey: Buffer,
  { dialect, cipher, signing, clientSecurityMode }: Negotiated,
  securityMode: number,
): void {
  const { around } = session.connection;
  if (around.isEncryptionRequired && cipher === undefined)
    throw new SmbError("STATUS_ACCESS_DENIED");
  const keys = sessionKeys(sessionKey, { dialect, cipher, hash: session.hash });
  session.signer = new Signer(keys.signing, signing);
  if (cipher !== undefined) session.sealer = new Sealer(keys, cipher, session.id);
  session.isSigningRequired = ((securityMode | clientSecurityMode) & SIGNING_REQUIRED) !== 0;
  session.isEncrypted = around.isEncryptionRequired;
}

/** A client that comes back says which session it had; that one is over (MS-SMB2 3.3.5.5.3). */
async function forgetPrevious(session: Session, id: bigint): Promise<void> {
  const previous = session.connection.around.sessions.get(id);
  if (previous === undefined || previous === session) return;
  if (previous.account?.name !== session.account?.name) return;
  previous.lost();
}
