import { createCipheriv, createDecipheriv, createHash, createHmac, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, type Socket } from "node:net";

/** The NT hash of the development account's key: known, so that no test has to compute it as the server does. */
const NT_HASH = Buffer.from("9f309c5840bd070991c81133b05c3a0f", "hex");
const ACCOUNT = "devstoreaccount1";

const hmac = (name: "md5" | "sha256", key: Uint8Array, ...parts: readonly Uint8Array[]): Buffer => {
  const mac = createHmac(name, key);
  for (const part of parts) mac.update(part);
  return mac.digest();
};
const utf16 = (text: string) => Buffer.from(text, "utf16le");

export const commands = {
  negotiate: 0,
  sessionSetup: 1,
  logoff: 2,
  treeConnect: 3,
  treeDisconnect: 4,
  create: 5,
  close: 6,
  flush: 7,
  read: 8,
  write: 9,
  lock: 10,
  ioctl: 11,
  cancel: 12,
  echo: 13,
  queryDirectory: 14,
  changeNotify: 15,
  queryInfo: 16,
  setInfo: 17,
  oplockBreak: 18,
} as const;

export const status = {
  ok: 0,
  pending: 0x103,
  notifyCleanup: 0x10b,
  bufferOverflow: 0x80000005,
  noMoreFiles: 0x80000006,
  invalidParameter: 0xc000000d,
  endOfFile: 0xc0000011,
  moreProcessing: 0xc0000016,
  accessDenied: 0xc0000022,
  duplicateObjectId: 0xc000022a,
  nameNotFound: 0xc0000034,
  collision: 0xc0000035,
  sharingViolation: 0xc0000043,
  lockConflict: 0xc0000054,
  lockNotGranted: 0xc0000055,
  deletePending: 0xc0000056,
  logonFailure: 0xc000006d,
  diskFull: 0xc000007f,
  networkNameDeleted: 0xc00000c9,
  badNetworkName: 0xc00000cc,
  cancelled: 0xc0000120,
  cannotDelete: 0xc0000121,
  fileClosed: 0xc0000128,
  sessionDeleted: 0xc0000203,
} as const;

export type Answer = {
  readonly status: number;
  readonly command: number;
  readonly messageId: bigint;
  readonly credits: number;
  readonly flags: number;
  readonly treeId: number;
  readonly asyncId: bigint;
  readonly sessionId: bigint;
  /** From the header on. */
  readonly message: Buffer;
  readonly body: Buffer;
  /** Whether a signature was there and right; undefined if there was none. */
  readonly signed: boolean | undefined;
  readonly sealed: boolean;
};

export type Dialect = 0x0202 | 0x0210 | 0x0300 | 0x0302 | 0x0311;
export type Protection = "plain" | "signed" | "sealed";
export type ClientOptions = {
  readonly port: number;
  readonly dialect?: Dialect;
  readonly protection?: Protection;
  readonly cipher?: 1 | 2 | 3 | 4;
  readonly signing?: 0 | 1 | 2;
  readonly user?: string;
  readonly ntHash?: Buffer;
  readonly clientGuid?: Buffer;
  readonly raw?: boolean;
};

const CIPHERS = { 1: "aes-128-ccm", 2: "aes-128-gcm", 3: "aes-256-ccm", 4: "aes-256-gcm" } as const;

/** A small SMB 2 and 3 client for tests, written apart from the server so that both must be right. */
export class SmbClient {
  readonly #socket: Socket;
  readonly options: Required<ClientOptions>;
  /** All that came and nobody waited for: breaks of oplocks. */
  readonly news: Answer[] = [];
  sessionId = 0n;
  treeId = 0;
  messageId = 0n;
  capabilities = 0;
  provesLogon = true;
  isClosed = false;
  readonly #waiting = new Map<bigint, { resolve(answer: Answer): void; interim: Answer[] }>();
  readonly #newsWaiting: ((answer: Answer) => void)[] = [];
  #input = Buffer.alloc(0);
  #hash = Buffer.alloc(64);
  #keys: { signing: Buffer; toServer: Buffer; toClient: Buffer } | undefined;
  #nonce = 0;

  private constructor(socket: Socket, options: Required<ClientOptions>) {
    this.#socket = socket;
    this.options = options;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("error", () => {});
    socket.on("close", () => {
      this.isClosed = true;
      for (const { resolve } of this.#waiting.values()) resolve(closed);
      this.#waiting.clear();
    });
  }

  static async connect(options: ClientOptions): Promise<SmbClient> {
    const socket = connect(options.port, "127.0.0.1").setNoDelay(true);
    await once(socket, "connect");
    return new SmbClient(socket, {
      dialect: 0x0311,
      protection: "signed",
      cipher: 2,
      signing: 2,
      user: ACCOUNT,
      ntHash: NT_HASH,
      clientGuid: randomBytes(16),
      raw: false,
      ...options,
    });
  }

  /** Connects, logs on, and connects to a share. */
  static async open(options: ClientOptions, share: string): Promise<SmbClient> {
    const client = await SmbClient.connect(options);
    await client.negotiate();
    const answer = await client.logon();
    if (answer.status !== 0) throw new Error(`logon: ${answer.status.toString(16)}`);
    const tree = await client.treeConnect(share);
    if (tree.status !== 0) throw new Error(`tree connect: ${tree.status.toString(16)}`);
    return client;
  }

  async negotiate(): Promise<Answer> {
    const { dialect, cipher, signing, clientGuid, protection } = this.options;
    const fixed = Buffer.alloc(36);
    fixed.writeUInt16LE(36, 0);
    fixed.writeUInt16LE(1, 2);
    fixed.writeUInt16LE(protection === "signed" ? 3 : 1, 4);
    fixed.writeUInt32LE(dialect >= 0x300 ? 0x7f : 0, 8);
    clientGuid.copy(fixed, 12);
    const list = Buffer.alloc(4);
    list.writeUInt16LE(dialect, 0);
    const parts = [fixed, list];
    if (dialect === 0x0311) {
      fixed.writeUInt32LE(64 + 40, 28);
      fixed.writeUInt16LE(3, 32);
      const context = (type: number, data: Buffer) => {
        const head = Buffer.alloc(8);
        head.writeUInt16LE(type, 0);
        head.writeUInt16LE(data.length, 2);
        return Buffer.concat([head, data, Buffer.alloc((8 - (data.length % 8)) % 8)]);
      };
      parts.push(context(1, Buffer.concat([Buffer.of(1, 0, 32, 0, 1, 0), randomBytes(32)])));
      parts.push(context(2, Buffer.of(1, 0, cipher, 0)));
      parts.push(context(8, Buffer.of(1, 0, signing, 0)));
    }
    const answer = await this.request(commands.negotiate, Buffer.concat(parts), { hashed: true });
    if (answer.status === 0) this.capabilities = answer.body.readUInt32LE(24);
    return answer;
  }

  async logon(previous = 0n): Promise<Answer> {
    const negotiate = Buffer.alloc(40);
    negotiate.write("NTLMSSP\0", "latin1");
    negotiate.writeUInt32LE(1, 8);
    negotiate.writeUInt32LE(0xa2088205, 12); // without an exchange of keys
    const first = await this.#setup(this.#wrapped(negotiate, true), previous);
    if (first.status !== status.moreProcessing) return first;
    this.sessionId = first.sessionId;
    const blob = securityBlob(first);
    const challenge = blob.subarray(blob.indexOf("NTLMSSP\0"));
    const authenticate = this.#authenticate(negotiate, challenge);
    const last = await this.#setup(this.#wrapped(authenticate.message, false), previous);
    if (last.status === 0) this.#derive(authenticate.key);
    return last;
  }

  #setup(blob: Buffer, previous: bigint): Promise<Answer> {
    const body = Buffer.alloc(24);
    body.writeUInt16LE(25, 0);
    body[3] = this.options.protection === "signed" ? 3 : 1;
    body.writeUInt16LE(64 + 24, 12);
    body.writeUInt16LE(blob.length, 14);
    body.writeBigUInt64LE(previous, 16);
    return this.request(commands.sessionSetup, Buffer.concat([body, blob]), { hashed: true });
  }

  #wrapped(message: Buffer, isFirst: boolean): Buffer {
    if (this.options.raw) return message;
    const oid = Buffer.from("060a2b06010401823702020a", "hex");
    const token = der(0xa2, der(0x04, message));
    if (!isFirst) return der(0xa1, der(0x30, token));
    const init = der(0xa0, der(0x30, Buffer.concat([der(0xa0, der(0x30, oid)), token])));
    return der(0x60, Buffer.concat([Buffer.from("06062b0601050502", "hex"), init]));
  }

  #authenticate(negotiate: Buffer, challenge: Buffer): { message: Buffer; key: Buffer } {
    const { user, ntHash } = this.options;
    const domain = "WORKGROUP";
    const infoAt = challenge.readUInt32LE(44);
    const info = challenge.subarray(infoAt, infoAt + challenge.readUInt16LE(40));
    const owf = hmac("md5", ntHash, utf16(user.toUpperCase() + domain));
    const time = Buffer.alloc(8);
    time.writeBigUInt64LE(130_000_000_000_000_000n);
    const flags = Buffer.from("060004000200000000000000", "hex"); // a MIC follows; end of the list
    const pairs = Buffer.concat([info.subarray(0, -4), flags, Buffer.alloc(4)]);
    const temp = Buffer.concat([
      Buffer.of(1, 1, 0, 0, 0, 0, 0, 0),
      time,
      randomBytes(8),
      Buffer.alloc(4),
      pairs,
    ]);
    const proof = hmac("md5", owf, challenge.subarray(24, 32), temp);
    const key = hmac("md5", owf, proof);
    const head = Buffer.alloc(88);
    head.write("NTLMSSP\0", "latin1");
    head.writeUInt32LE(3, 8);
    const payload: Buffer[] = [];
    let at = 88;
    const field = (place: number, value: Buffer) => {
      head.writeUInt16LE(value.length, place);
      head.writeUInt16LE(value.length, place + 2);
      head.writeUInt32LE(at, place + 4);
      payload.push(value);
      at += value.length;
    };
    field(12, Buffer.alloc(24));
    field(20, Buffer.concat([proof, temp]));
    field(28, utf16(domain));
    field(36, utf16(user));
    field(44, utf16("TEST"));
    field(52, Buffer.alloc(0));
    head.writeUInt32LE(0xa2088205, 60);
    const message = Buffer.concat([head, ...payload]);
    hmac("md5", key, negotiate, challenge, message).copy(message, 72);
    return { message, key };
  }

  #derive(key: Buffer): void {
    const { dialect, cipher } = this.options;
    const kdf = (label: string, context: Buffer, bits: number) =>
      hmac(
        "sha256",
        key,
        Buffer.of(0, 0, 0, 1),
        Buffer.from(`${label}\0\0`, "latin1"),
        context,
        Buffer.of(0, 0, bits >> 8, bits & 255),
      ).subarray(0, bits / 8);
    const text = (value: string) => Buffer.from(`${value}\0`, "latin1");
    const bits = dialect === 0x0311 && cipher > 2 ? 256 : 128;
    this.#keys =
      dialect === 0x0311
        ? {
            signing: kdf("SMBSigningKey", this.#hash, 128),
            toServer: kdf("SMBC2SCipherKey", this.#hash, bits),
            toClient: kdf("SMBS2CCipherKey", this.#hash, bits),
          }
        : dialect >= 0x0300
          ? {
              signing: kdf("SMB2AESCMAC", text("SmbSign"), 128),
              toServer: kdf("SMB2AESCCM", text("ServerIn "), 128),
              toClient: kdf("SMB2AESCCM", text("ServerOut"), 128),
            }
          : { signing: key, toServer: key, toClient: key };
  }

  async treeConnect(share: string): Promise<Answer> {
    const path = utf16(`\\\\127.0.0.1\\${share}`);
    const body = Buffer.alloc(8);
    body.writeUInt16LE(9, 0);
    body.writeUInt16LE(64 + 8, 4);
    body.writeUInt16LE(path.length, 6);
    const answer = await this.request(commands.treeConnect, Buffer.concat([body, path]));
    if (answer.status === 0) this.treeId = answer.treeId;
    return answer;
  }

  /** One request and its answer; answers that only say to wait are kept in `interim`. */
  async request(command: number, body: Buffer, more: RequestOptions = {}): Promise<Answer> {
    return (await this.begin(command, body, more)).answer;
  }

  /** Sends a request without waiting for it. */
  async begin(command: number, body: Buffer, more: RequestOptions = {}): Promise<Begun> {
    const message = this.message(command, body, more);
    const id = message.readBigUInt64LE(24);
    const interim: Answer[] = [];
    const told = Promise.withResolvers<Answer>();
    if (this.isClosed) told.resolve(closed);
    else this.#waiting.set(id, { resolve: told.resolve, interim });
    if (more.hashed === true) this.#hashOn(message);
    this.send([message]);
    const answer = told.promise.then((found) => {
      const isLast = found.command === commands.sessionSetup && found.status === 0;
      if (more.hashed === true && !isLast && found !== closed) this.#hashOn(found.message);
      return found;
    });
    return { answer, interim, messageId: id };
  }

  /** Several requests in one frame, related to the first if it is wanted. */
  async compound(parts: readonly (readonly [command: number, body: Buffer])[]): Promise<Answer[]> {
    const promises: Promise<Answer>[] = [];
    const messages = parts.map(([command, body], index) => {
      const message = this.message(command, body, { related: index > 0 });
      const id = message.readBigUInt64LE(24);
      const told = Promise.withResolvers<Answer>();
      if (this.isClosed) told.resolve(closed);
      else this.#waiting.set(id, { resolve: told.resolve, interim: [] });
      promises.push(told.promise);
      return message;
    });
    this.send(messages);
    return Promise.all(promises);
  }

  message(command: number, body: Buffer, more: RequestOptions = {}): Buffer {
    const size = more.payload ?? 0;
    const isOld = this.options.dialect === 0x0202;
    const charge = isOld ? 1 : Math.max(1, Math.ceil(size / 65536));
    const header = Buffer.alloc(64);
    header.writeUInt32LE(0x424d53fe, 0);
    header.writeUInt16LE(64, 4);
    header.writeUInt16LE(isOld ? 0 : charge, 6);
    header.writeUInt16LE(more.channelSequence ?? 0, 8);
    header.writeUInt16LE(command, 12);
    header.writeUInt16LE(more.credits ?? 256, 14);
    const replayed = more.replayed === true ? 0x20000000 : 0;
    header.writeUInt32LE(replayed | (more.related === true ? 4 : 0), 16);
    header.writeBigUInt64LE(more.messageId ?? this.messageId, 24);
    if (more.messageId === undefined) this.messageId += BigInt(charge);
    header.writeUInt32LE(more.treeId ?? this.treeId, 36);
    header.writeBigUInt64LE(more.sessionId ?? this.sessionId, 40);
    return Buffer.concat([header, body]);
  }

  /** Protects messages as the client does, and sends them in one frame. */
  send(messages: readonly Buffer[]): void {
    const last = messages.length - 1;
    const isOn = this.#keys !== undefined;
    const filled = messages.map((message, index) => {
      if (index === last) return message;
      const whole = Buffer.concat([message, Buffer.alloc((8 - (message.length % 8)) % 8)]);
      whole.writeUInt32LE(whole.length, 20);
      return whole;
    });
    const { protection, dialect } = this.options;
    if (isOn && protection !== "sealed") {
      for (const message of filled) {
        // Also who signs nothing signs the way into a share, in the newest dialect.
        const isProof = dialect === 0x0311 && message.readUInt16LE(12) === commands.treeConnect;
        if (protection !== "signed" && !(isProof && this.provesLogon)) continue;
        message.writeUInt32LE((message.readUInt32LE(16) | 8) >>> 0, 16);
        this.#signature(message).copy(message, 48);
      }
    }
    const plain = Buffer.concat(filled);
    const isSealed = isOn && protection === "sealed";
    this.sendRaw(isSealed ? this.#sealed(plain) : plain);
  }

  /** Sends bytes behind a prefix, as they are. */
  sendRaw(bytes: Buffer): void {
    const prefix = Buffer.alloc(4);
    prefix.writeUInt32BE(bytes.length);
    this.#socket.write(Buffer.concat([prefix, bytes]));
  }

  writeBytes(bytes: Buffer): void {
    this.#socket.write(bytes);
  }

  async end(): Promise<void> {
    if (this.isClosed) return;
    this.#socket.destroy();
    await once(this.#socket, "close");
  }

  /** Waits until the server ends the connection. */
  async ended(): Promise<void> {
    if (!this.isClosed) await once(this.#socket, "close");
  }

  /** The next break of an oplock or lease. */
  async nextNews(): Promise<Answer> {
    const known = this.news.shift();
    if (known !== undefined) return known;
    return new Promise((resolve) => this.#newsWaiting.push(resolve));
  }

  #hashOn(message: Buffer): void {
    if (this.options.dialect !== 0x0311) return;
    this.#hash = createHash("sha512").update(this.#hash).update(message).digest();
  }

  #signature(message: Buffer): Buffer {
    const { dialect, signing } = this.options;
    const key = this.#keys?.signing ?? Buffer.alloc(16);
    const blank = Buffer.from(message);
    blank.fill(0, 48, 64);
    const algorithm = dialect < 0x0300 ? 0 : dialect < 0x0311 ? 1 : signing;
    if (algorithm === 0) return hmac("sha256", key, blank).subarray(0, 16);
    if (algorithm === 1) return cmac(key, blank);
    const nonce = Buffer.alloc(12);
    message.copy(nonce, 0, 24, 32);
    nonce[8] = (message[16] ?? 0) & 1;
    if (message.readUInt16LE(12) === commands.cancel) nonce[8] |= 2;
    const cipher = createCipheriv("aes-128-gcm", key, nonce);
    cipher.setAAD(blank);
    cipher.final();
    return cipher.getAuthTag();
  }

  get #cipher() {
    const name = CIPHERS[this.options.dialect === 0x0311 ? this.options.cipher : 1];
    return { name: name as "aes-128-ccm", nonceSize: name.endsWith("gcm") ? 12 : 11 };
  }

  #sealed(plain: Buffer): Buffer {
    const { name, nonceSize } = this.#cipher;
    const header = Buffer.alloc(52);
    header.writeUInt32LE(0x424d53fd, 0);
    header.writeUInt32LE(this.#nonce++, 20);
    header.writeUInt32LE(plain.length, 36);
    header.writeUInt16LE(1, 42);
    header.writeBigUInt64LE(this.sessionId, 44);
    const key = this.#keys?.toServer ?? Buffer.alloc(16);
    const nonce = header.subarray(20, 20 + nonceSize);
    const cipher = createCipheriv(name, key, nonce, { authTagLength: 16 });
    cipher.setAAD(header.subarray(20), { plaintextLength: plain.length });
    const sealed = cipher.update(plain);
    cipher.final();
    cipher.getAuthTag().copy(header, 4);
    return Buffer.concat([header, sealed]);
  }

  #unsealed(frame: Buffer): Buffer {
    const { name, nonceSize } = this.#cipher;
    const key = this.#keys?.toClient ?? Buffer.alloc(16);
    const nonce = frame.subarray(20, 20 + nonceSize);
    const cipher = createDecipheriv(name, key, nonce, { authTagLength: 16 });
    cipher.setAuthTag(frame.subarray(4, 20));
    cipher.setAAD(frame.subarray(20, 52), { plaintextLength: frame.length - 52 });
    const plain = cipher.update(frame.subarray(52));
    cipher.final();
    return plain;
  }

  #take(chunk: Buffer): void {
    this.#input = Buffer.concat([this.#input, chunk]);
    while (this.#input.length >= 4) {
      const size = this.#input.readUInt32BE(0);
      if (this.#input.length < 4 + size) return;
      const frame = this.#input.subarray(4, 4 + size);
      this.#input = this.#input.subarray(4 + size);
      const isSealed = frame.readUInt32LE(0) === 0x424d53fd;
      this.#frame(isSealed ? this.#unsealed(frame) : frame, isSealed);
    }
  }

  #frame(frame: Buffer, sealed: boolean): void {
    for (let at = 0; ; ) {
      const next = frame.readUInt32LE(at + 20);
      const message = Buffer.from(frame.subarray(at, next === 0 ? frame.length : at + next));
      const flags = message.readUInt32LE(16);
      const isSigned = (flags & 8) !== 0 && this.#keys !== undefined;
      const answer: Answer = {
        status: message.readUInt32LE(8),
        command: message.readUInt16LE(12),
        credits: message.readUInt16LE(14),
        flags,
        messageId: message.readBigUInt64LE(24),
        asyncId: message.readBigUInt64LE(32),
        treeId: message.readUInt32LE(36),
        sessionId: message.readBigUInt64LE(40),
        message,
        body: message.subarray(64),
        signed: isSigned ? this.#signature(message).equals(message.subarray(48, 64)) : undefined,
        sealed,
      };
      this.#deliver(answer);
      if (next === 0) return;
      at += next;
    }
  }

  #deliver(answer: Answer): void {
    const waiting = this.#waiting.get(answer.messageId);
    if (waiting === undefined) {
      const reader = this.#newsWaiting.shift();
      if (reader === undefined) this.news.push(answer);
      else reader(answer);
    } else if (answer.status === status.pending) waiting.interim.push(answer);
    else {
      this.#waiting.delete(answer.messageId);
      waiting.resolve(answer);
    }
  }
}

export type RequestOptions = {
  readonly hashed?: boolean;
  readonly related?: boolean;
  /** Says that the request was sent before, and that its answer was lost. */
  readonly replayed?: boolean;
  /** How often the client has lost its connection. */
  readonly channelSequence?: number;
  readonly credits?: number;
  readonly payload?: number;
  readonly messageId?: bigint;
  readonly treeId?: number;
  readonly sessionId?: bigint;
};

export type Begun = {
  readonly answer: Promise<Answer>;
  readonly interim: readonly Answer[];
  readonly messageId: bigint;
};

/** What a request gets when the connection is gone. */
export const closed: Answer = {
  status: -1,
  command: -1,
  messageId: -1n,
  credits: 0,
  flags: 0,
  treeId: 0,
  asyncId: 0n,
  sessionId: 0n,
  message: Buffer.alloc(0),
  body: Buffer.alloc(0),
  signed: undefined,
  sealed: false,
};

function securityBlob({ message, body }: Answer): Buffer {
  const at = body.readUInt16LE(4);
  return message.subarray(at, at + body.readUInt16LE(6));
}

function der(tag: number, value: Buffer): Buffer {
  const size = value.length;
  const head =
    size < 128 ? [tag, size] : size < 256 ? [tag, 0x81, size] : [tag, 0x82, size >> 8, size & 255];
  return Buffer.concat([Buffer.from(head), value]);
}

/** RFC 4493 block by block: slow, and not the server's way. */
function cmac(key: Buffer, message: Buffer): Buffer {
  const block = (data: Buffer) =>
    createCipheriv("aes-128-ecb", key, null).setAutoPadding(false).update(data);
  const twice = (data: Buffer) => {
    const value = BigInt(`0x${data.toString("hex")}`) << 1n;
    const folded = value >> 128n === 1n ? (value & ((1n << 128n) - 1n)) ^ 0x87n : value;
    return Buffer.from(folded.toString(16).padStart(32, "0"), "hex");
  };
  const xor = (a: Buffer, b: Buffer) => Buffer.from(a.map((byte, i) => byte ^ (b[i] ?? 0)));
  const first = twice(block(Buffer.alloc(16)));
  const count = Math.max(1, Math.ceil(message.length / 16));
  let state = Buffer.alloc(16);
  for (let i = 0; i < count; i++) {
    let data: Buffer = message.subarray(i * 16, i * 16 + 16);
    if (i === count - 1) {
      const isWhole = data.length === 16;
      const fill = Buffer.concat([data, Buffer.of(0x80), Buffer.alloc(16)]).subarray(0, 16);
      data = isWhole ? xor(data, first) : xor(fill, twice(first));
    }
    state = block(xor(state, data));
  }
  return state;
}
