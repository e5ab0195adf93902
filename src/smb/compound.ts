import { isDiskFull, isOutOfFiles } from "../engine/disk-full.ts";
import { StorageError } from "../rules/errors.ts";
import type { Call, Command, FileIdFields, Reply } from "./command.ts";
import { negotiateUpgrade } from "./commands/negotiate.ts";
import { commandOf } from "./commands.ts";
import type { Connection, Part, Runner } from "./connection.ts";
import type { Open } from "./open.ts";
import { SMB_202, SMB_300 } from "./protection.ts";
import type { Session, Tree } from "./session.ts";
import { type NtStatus, ProtocolViolation, SmbError } from "./status.ts";
import { statusOf } from "./storage-status.ts";
import {
  answerHeader,
  FLAG_ASYNC,
  FLAG_RELATED,
  FLAG_REPLAY,
  FLAG_SIGNED,
  HEADER_SIZE,
  type Header,
  readHeader,
} from "./wire/header.ts";

const NEGOTIATE = 0;
const SESSION_SETUP = 1;
const CREATE = 5;
const CANCEL = 12;
const ECHO = 13;
const SET_INFO = 17;
const CREDIT_SIZE = 65536;
const PENDING_MAX = 512;
/** What a client must not do twice, nor too late (MS-SMB2 3.3.5.2.10): WRITE, IOCTL and SET_INFO. */
const CHANGING = new Set([9, 11, SET_INFO]);
const NO_ID = 0xffff_ffff_ffff_ffffn;
const NO_TREE = 0xffff_ffff;
/** An error's body: nine bytes, of which the last stands for data that is not there. */
const NO_DATA = Buffer.from([9, 0, 0, 0, 0, 0, 0, 0, 0]);

/** Runs what connections receive. */
export const runner: Runner = {
  run: (connection, parts, sealedBy, over) =>
    void new Compound(connection, sealedBy).run(parts, over),
  upgrade: (connection, dialect) => new Compound(connection, undefined).upgrade(dialect),
};

/** What requests of a compound take over from the one before. */
type Chain = {
  session: bigint;
  tree: number;
  file: bigint | undefined;
  /** Why there is no file. */
  failed: NtStatus | undefined;
};

const nothing: Chain = { session: NO_ID, tree: NO_TREE, file: undefined, failed: undefined };

/** The session and tree that a request names, or takes over. */
type Asked = { readonly session: bigint; readonly tree: number };

type Answer = {
  readonly header: Header;
  readonly reply: Reply;
  readonly status: NtStatus;
  readonly asyncId: bigint | undefined;
  readonly credits: number;
  readonly signedBy: Session | undefined;
};

type Current = {
  readonly part: Part;
  readonly isLast: boolean;
  session: Session | undefined;
  asyncId: bigint | undefined;
  /** By which number it waits, if its client is not told of that. */
  quietId: bigint | undefined;
};

/**
 * The requests of one message: for each it finds what its command needs, runs it, and makes what it throws
 * into a status. The answers go out together, but for a request that has to wait.
 */
class Compound {
  readonly #connection: Connection;
  readonly #sealedBy: Session | undefined;
  readonly #answers: Answer[] = [];
  #credits = 0;
  #over: () => void = () => {};
  #session: Session | undefined;

  constructor(connection: Connection, sealedBy: Session | undefined) {
    this.#connection = connection;
    this.#sealedBy = sealedBy;
  }

  /** Answers SMB1's negotiate with SMB2's. */
  upgrade(dialect: number): void {
    const header = readHeader(Buffer.alloc(HEADER_SIZE));
    const reply = negotiateUpgrade(this.#connection, dialect);
    this.#put(
      {
        part: { header, message: Buffer.alloc(0) },
        isLast: true,
        session: undefined,
        asyncId: undefined,
        quietId: undefined,
      },
      reply,
    );
    this.#flush();
  }

  async run(parts: readonly Part[], over: () => void): Promise<void> {
    this.#over = over;
    const chain: Chain = { ...nothing };
    try {
      for (const [index, part] of parts.entries()) {
        const isLast = index === parts.length - 1;
        const waits = { asyncId: undefined, quietId: undefined };
        const current: Current = { part, isLast, session: undefined, ...waits };
        if (part.header.command === CANCEL) {
          this.#cancel(part);
          continue;
        }
        const reply = await this.#one(current, chain, index === 0);
        this.#session = current.session ?? this.#session;
        this.#put(current, reply);
      }
      this.#flush();
    } catch (error) {
      if (error instanceof ProtocolViolation) this.#connection.violate(error.message);
      else {
        this.#connection.around.log.error("an SMB request failed", {
          error: String((error as Error).stack),
        });
        this.#connection.destroy();
      }
    } finally {
      over();
    }
  }

  #cancel({ header, message }: Part): void {
    const session = this.#connection.sessions.get(header.sessionId);
    const isSigned = (header.flags & FLAG_SIGNED) !== 0;
    if (this.#sealedBy === undefined && isSigned && session?.signer?.isSigned(message) !== true)
      return;
    this.#connection.cancel(header, session, (header.flags & FLAG_ASYNC) !== 0);
  }

  /** Runs one request; whatever goes wrong is in its reply. */
  async #one(current: Current, chain: Chain, isFirst: boolean): Promise<Reply> {
    const { header } = current.part;
    const isRelated = (header.flags & FLAG_RELATED) !== 0;
    try {
      if (isRelated && isFirst) throw new SmbError("STATUS_INVALID_PARAMETER");
      const { message } = current.part;
      const structureSize =
        message.length < HEADER_SIZE + 2 ? 0 : message.readUInt16LE(HEADER_SIZE);
      const command = commandOf(header.command, structureSize);
      if (command === undefined) throw new SmbError("STATUS_INVALID_PARAMETER");
      if (this.#connection.negotiated === undefined && header.command !== NEGOTIATE) {
        throw new ProtocolViolation("it did not negotiate first");
      }
      const asked = {
        session: isRelated ? chain.session : header.sessionId,
        tree: isRelated ? chain.tree : header.treeId,
      };
      if (isRelated && (chain.session === NO_ID || chain.tree === NO_TREE)) {
        throw new SmbError("STATUS_INVALID_PARAMETER");
      }
      if (!isRelated) Object.assign(chain, nothing);
      const reply = await this.#handled(command, current, { chain, asked, isRelated });
      if (reply.fileId !== undefined) {
        chain.file = reply.fileId;
        chain.failed = undefined;
      }
      if (reply.treeId !== undefined) chain.tree = reply.treeId;
      if (reply.session !== undefined) chain.session = reply.session.id;
      return reply;
    } catch (error) {
      const reply = this.#failed(error, header);
      if (header.command === CREATE) {
        chain.file = undefined;
        chain.failed = reply.status;
      }
      return reply;
    }
  }

  async #handled(
    command: Command,
    current: Current,
    { chain, asked, isRelated }: { chain: Chain; asked: Asked; isRelated: boolean },
  ): Promise<Reply> {
    const { header, message } = current.part;
    const session = this.#sessionFor(command, header, asked);
    current.session = session;
    this.#checkProtection(command, current.part, session);
    chain.session = asked.session;
    const tree = this.#treeFor(command, session, asked);
    chain.tree = asked.tree;
    const body = message.subarray(HEADER_SIZE);
    if (body.length < 2 || body.readUInt16LE(0) !== command.structureSize) {
      throw new SmbError("STATUS_INVALID_PARAMETER");
    }
    const request = command.layout.read(body);
    this.#checkCredits(command.payload?.(request) ?? 0, header);
    const open =
      command.needs === "open"
        ? this.#openFor(request as FileIdFields, { session, tree, chain, isRelated })
        : undefined;
    const file = open ?? namedIn(request, session);
    if (file !== undefined) chain.file = file.handle;
    if (file?.kind === "file") file.isUsed = true;
    const over = this.#begun(file, header);
    const { around } = this.#connection;
    const call: Call = {
      around,
      connection: this.#connection,
      header,
      message,
      isSealed: this.#sealedBy !== undefined,
      session,
      tree,
      open,
      relatedFile: isRelated ? chain.file : undefined,
      failed: isRelated ? chain.failed : undefined,
      pend: (onAbort) => this.#pend(current, onAbort),
    };
    try {
      return await command.handle(call, request);
    } finally {
      over?.();
    }
  }

  /** Counts what runs on an open, by how often its client has lost its connection; the newer dialects say that. */
  #begun(open: Open | undefined, header: Header): (() => void) | undefined {
    const isSaid = (this.#connection.negotiated?.dialect ?? 0) >= SMB_300;
    if (!isSaid || open?.kind !== "file") return undefined;
    const over = open.sequence.begin({
      number: header.channelSequence,
      isAgain: (header.flags & FLAG_REPLAY) !== 0,
      changes: CHANGING.has(header.command),
    });
    if (over === undefined) throw new SmbError("STATUS_FILE_NOT_AVAILABLE");
    return over;
  }

  #sessionFor(command: Command, header: Header, asked: Asked): Session | undefined {
    const { sessions } = this.#connection;
    if (command.code === NEGOTIATE || command.code === SESSION_SETUP) {
      return sessions.get(header.sessionId);
    }
    const session = sessions.get(asked.session);
    if (this.#sealedBy !== undefined && session !== this.#sealedBy) {
      throw new SmbError("STATUS_USER_SESSION_DELETED");
    }
    if (command.needs === "connection") return session;
    if (session === undefined) throw new SmbError("STATUS_USER_SESSION_DELETED");
    if (session.account === undefined) throw new SmbError("STATUS_INVALID_HANDLE");
    return session;
  }

  #checkProtection(
    command: Command,
    { header, message }: Part,
    session: Session | undefined,
  ): void {
    if (this.#sealedBy !== undefined) return;
    if (command.code === NEGOTIATE) return;
    const isSigned = (header.flags & FLAG_SIGNED) !== 0;
    if (command.code === SESSION_SETUP) return; // session-setup.ts checks it, where there is a key
    if (session === undefined) return;
    if (session.isEncrypted && command.code !== ECHO) throw new SmbError("STATUS_ACCESS_DENIED");
    if (isSigned) {
      if (session.signer?.isSigned(message) !== true) throw new SmbError("STATUS_ACCESS_DENIED");
    } else if (session.isSigningRequired && session.account !== undefined) {
      throw new SmbError("STATUS_ACCESS_DENIED");
    }
  }

  #treeFor(command: Command, session: Session | undefined, asked: Asked): Tree | undefined {
    if (command.needs !== "tree" && command.needs !== "open") return undefined;
    const tree = session?.trees.get(asked.tree);
    if (tree === undefined) throw new SmbError("STATUS_NETWORK_NAME_DELETED");
    return tree;
  }

  #openFor(
    { filePersistent, fileVolatile }: FileIdFields,
    {
      session,
      tree,
      chain,
      isRelated,
    }: {
      session: Session | undefined;
      tree: Tree | undefined;
      chain: Chain;
      isRelated: boolean;
    },
  ): Open | undefined {
    let handle = fileVolatile;
    if (isRelated && fileVolatile === NO_ID && filePersistent === NO_ID) {
      if (chain.failed !== undefined) throw new SmbError(chain.failed);
      if (chain.file === undefined) throw new SmbError("STATUS_FILE_CLOSED");
      handle = chain.file;
    } else if (filePersistent !== fileVolatile) {
      // Both halves of an id are the same number; ioctl.ts has requests that name none.
      if (filePersistent !== NO_ID || fileVolatile !== NO_ID)
        throw new SmbError("STATUS_FILE_CLOSED");
    }
    const open = session?.opens.get(handle);
    if (open === undefined || open.tree !== tree) throw new SmbError("STATUS_FILE_CLOSED");
    return open;
  }

  /** What a request moves must be paid for, 64 KiB with each credit (MS-SMB2 3.3.5.2.5). */
  #checkCredits(size: number, header: Header): void {
    const { negotiated } = this.#connection;
    const isMany = negotiated !== undefined && negotiated.dialect !== SMB_202;
    const charge = isMany ? Math.max(header.creditCharge, 1) : 1;
    if (size > charge * CREDIT_SIZE) throw new SmbError("STATUS_INVALID_PARAMETER");
  }

  #failed(error: unknown, header: Header): Reply & { status: NtStatus } {
    if (error instanceof SmbError) return { status: error.status, body: errorBody(error.data) };
    if (error instanceof StorageError) return { status: statusOf(error.code), body: [NO_DATA] };
    if (error instanceof ProtocolViolation) throw error;
    if (isDiskFull(error)) return { status: "STATUS_DISK_FULL", body: [NO_DATA] };
    if (isOutOfFiles(error)) return { status: "STATUS_INSUFFICIENT_RESOURCES", body: [NO_DATA] };
    this.#connection.around.log.error("an SMB request failed", {
      command: header.command,
      error: String((error as Error).stack ?? error),
    });
    return { status: "STATUS_INTERNAL_ERROR", body: [NO_DATA] };
  }

  /** Sends what is answered so far, and that this request waits. */
  #pend(current: Current, onAbort: (status: NtStatus) => void): void {
    const { header } = current.part;
    const connection = this.#connection;
    let isAborted = false;
    const pending = {
      header,
      session: current.session,
      abort: (status: NtStatus) => {
        if (isAborted) return;
        isAborted = true;
        onAbort(status);
      },
    };
    if (current.asyncId !== undefined) {
      connection.pending.set(current.asyncId, pending);
      return;
    }
    if (connection.pending.size >= PENDING_MAX) throw new SmbError("STATUS_INSUFFICIENT_RESOURCES");
    if (!current.isLast && header.command === SET_INFO) {
      // A rename amid its open and its close, as Linux sends it: others are given the time to let go of the
      // file, which is limited, and the answers stay together.
      current.quietId ??= connection.nextAsyncId();
      connection.pending.set(current.quietId, pending);
      this.#over();
      return;
    }
    // Only the last of a compound is told to wait, or an open (MS-SMB2 3.3.5.2.7).
    if (!current.isLast && header.command !== CREATE) throw new SmbError("STATUS_INTERNAL_ERROR");
    this.#flush();
    current.asyncId = connection.nextAsyncId();
    connection.pending.set(current.asyncId, pending);
    this.#put(current, { status: "STATUS_PENDING", body: [NO_DATA] });
    this.#flush();
    this.#over();
  }

  #put(current: Current, reply: Reply): void {
    const { header } = current.part;
    const { negotiated, credits, around } = this.#connection;
    const status = reply.status ?? "STATUS_SUCCESS";
    const isInterim = status === "STATUS_PENDING";
    const isEarly =
      header.command === NEGOTIATE ||
      (header.command === SESSION_SETUP && status !== "STATUS_SUCCESS");
    const isPaid = current.asyncId !== undefined && !isInterim;
    const asked = isEarly || negotiated === undefined ? 1 : header.creditRequest;
    const granted = isPaid ? 0 : credits.grant(asked);
    const waited = current.asyncId ?? current.quietId;
    if (waited !== undefined && !isInterim) this.#connection.pending.delete(waited);
    const session = reply.session ?? current.session;
    const isSigned =
      reply.isSigned === true || (header.flags & FLAG_SIGNED) !== 0 || session?.isSigningRequired;
    this.#answers.push({
      header,
      reply,
      status,
      asyncId: current.asyncId,
      credits: granted,
      signedBy: this.#sealedBy === undefined && isSigned ? session : undefined,
    });
    this.#credits += granted;
    if (around.log.requests && !isInterim) {
      const name = commandOf(header.command, 0)?.name ?? String(header.command);
      around.log.info("smb", { command: name, status, address: this.#connection.address });
    }
  }

  /** Sends the answers there are, in one frame; the last of them has all their credits. */
  #flush(): void {
    const answers = this.#answers.splice(0);
    if (answers.length === 0) return;
    const parts: Buffer[] = [];
    for (const [index, answer] of answers.entries()) {
      const isLast = index === answers.length - 1;
      parts.push(...answerParts(answer, isLast ? this.#credits : 0, isLast));
    }
    this.#credits = 0;
    // A session that just logged off is answered as it spoke.
    const sealer = this.#sealedBy?.sealer;
    this.#connection.send(sealer === undefined ? parts : sealer.seal(parts));
  }
}

/** The open that a request may name without needing one, as controls do: related ones that follow mean it, too. */
function namedIn(request: Partial<FileIdFields>, session: Session | undefined): Open | undefined {
  const { filePersistent, fileVolatile } = request;
  if (fileVolatile === undefined || fileVolatile !== filePersistent) return undefined;
  return session?.opens.get(fileVolatile);
}

/** One answer as it goes out, filled up to eight bytes unless it is the last one, and signed if it must be. */
function answerParts(answer: Answer, credits: number, isLast: boolean): Buffer[] {
  const { header, reply, status, asyncId, signedBy } = answer;
  const made = answerHeader(header, {
    status,
    credits,
    asyncId,
    treeId: reply.treeId,
    sessionId: reply.session?.id,
  });
  let size = HEADER_SIZE;
  for (const part of reply.body) size += part.length;
  const parts = [made, ...reply.body];
  if (!isLast) {
    const rest = size % 8;
    if (rest !== 0) {
      parts.push(Buffer.alloc(8 - rest));
      size += 8 - rest;
    }
    made.writeUInt32LE(size, 20);
  }
  const { signer } = signedBy ?? {};
  if (signer === undefined && reply.sent === undefined) return parts;
  const whole = Buffer.concat(parts, size);
  signer?.sign(whole);
  reply.sent?.(whole);
  return [whole];
}

function errorBody(data: Buffer | undefined): Buffer[] {
  if (data === undefined) return [NO_DATA];
  const head = Buffer.alloc(8);
  head.writeUInt16LE(9, 0);
  head.writeUInt32LE(data.length, 4);
  return [head, data];
}
