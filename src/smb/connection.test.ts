import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import type { Socket } from "node:net";
import { test } from "node:test";
import { silentLog } from "../base/log.ts";
import type { Around } from "./around.ts";
import { Connection } from "./connection.ts";
import type { Session } from "./session.ts";

const READ = 8;
const MIB = 1024 * 1024;

/** A request of a client that pays for so many bytes of its answer. */
function request(messageId: number, size: number): Buffer {
  const frame = Buffer.alloc(4 + 64 + 48);
  frame.writeUInt32BE(frame.length - 4);
  const message = frame.subarray(4);
  message.writeUInt32LE(0x424d53fe, 0);
  message.writeUInt16LE(64, 4);
  message.writeUInt16LE(Math.max(1, size / 65536), 6);
  message.writeUInt16LE(READ, 12);
  message.writeBigUInt64LE(BigInt(messageId), 24);
  return frame;
}

/** A connection whose requests run until they are let go, one after another. */
function connected() {
  const socket = Object.assign(new EventEmitter(), {
    destroyed: false,
    writableLength: 0,
    isListening: true,
    setNoDelay() {},
    destroy() {
      socket.destroyed = true;
    },
    pause() {
      socket.isListening = false;
    },
    resume() {
      socket.isListening = true;
    },
  });
  const running: (() => void)[] = [];
  const around = { connections: new Set(), log: silentLog } as unknown as Around;
  const connection = new Connection(socket as unknown as Socket, around, {
    run: (_connection, _parts, _sealedBy, over) => running.push(over),
    upgrade() {},
  });
  connection.negotiated = { dialect: 0x0311 } as NonNullable<Connection["negotiated"]>;
  connection.credits.grant(8191);
  return { socket, running, connection };
}

test("Connection: requests whose answers are too much wait, also those that came in one piece", () => {
  const { socket, running } = connected();
  const all = Array.from({ length: 16 }, (_, i) => request(i * 128, 8 * MIB));
  socket.emit("data", Buffer.concat(all));
  assert.equal(running.length, 5);
  assert.equal(socket.isListening, false);
  let done = 0;
  for (; done < 16; done++) {
    assert.ok(running.length - done <= 5, `${running.length - done} requests at once`);
    running[done]?.();
  }
  assert.equal(running.length, 16);
  assert.equal(socket.isListening, true);
  socket.emit("close");
});

test("Connection: so do many small ones", () => {
  const { socket, running } = connected();
  socket.emit("data", Buffer.concat(Array.from({ length: 2000 }, (_, i) => request(i, 0))));
  assert.equal(running.length, 513);
  for (let done = 0; done < 2000; done++) running[done]?.();
  assert.equal(running.length, 2000);
  socket.emit("close");
});

test("Connection: what breaks the rules ends it, also where it had to wait", () => {
  const { socket, running } = connected();
  const all = Array.from({ length: 5 }, (_, i) => request(i * 128, 8 * MIB));
  socket.emit("data", Buffer.concat([...all, request(0, 0), request(640, 0)]));
  assert.equal(socket.destroyed, false);
  running[0]?.();
  assert.equal(socket.destroyed, true);
  assert.equal(running.length, 5);
  socket.emit("close");
});

test("Connection: strangers are let go, and so is who logged off and does not log on again", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const stranger = connected();
  const friend = connected();
  const session = { account: {}, lost() {} } as unknown as Session;
  friend.connection.sessions.set(1n, session);
  t.mock.timers.tick(30_000);
  assert.deepEqual([stranger.socket.destroyed, friend.socket.destroyed], [true, false]);
  t.mock.timers.tick(300_000);
  assert.equal(friend.socket.destroyed, false);
  friend.connection.sessions.clear();
  t.mock.timers.tick(30_000);
  assert.equal(friend.socket.destroyed, false);
  t.mock.timers.tick(30_000);
  assert.equal(friend.socket.destroyed, true);
});
