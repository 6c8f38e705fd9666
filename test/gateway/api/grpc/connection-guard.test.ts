import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { ConnectionCalls } from '../../../../src/gateway/api/grpc/call-guard.js';
import { ConnectionGuard } from '../../../../src/gateway/api/grpc/connection-guard.js';
import { OpenFiles } from '../../../../src/gateway/api/grpc/open-files.js';

const MOST = 16;
/** The part of a socket that {@link ConnectionGuard} sees. */
class FakeSocket extends EventEmitter {
  isOpen = true;
  allowHalfOpen = false;
  constructor(
    readonly remoteAddress: string,
    readonly remotePort: number,
  ) {
    super();
  }
  destroy(): void {
    this.isOpen = false;
    this.emit('close');
  }
}

let calls: Map<string, ConnectionCalls>;
let guard: ConnectionGuard;
let port = 0;
afterEach(() => vi.useRealTimers());
beforeEach(() => {
  calls = new Map();
  guard = guardOf(MOST);
});

/** @param files that the servers of the process share */
const guardOf = (maxConnections: number, files?: OpenFiles): ConnectionGuard =>
  new ConnectionGuard(
    { maxConnections, handshakeTimeoutMs: 1e9 },
    {
      callsOf: (name) => calls.get(name) ?? { started: 0, working: 0, answered: 0 },
      forgetConnection: (name) => void calls.delete(name),
    },
    files,
  );

interface Manner {
  /** True if it has said that it speaks HTTP/2; default yes. */
  readonly speaks?: boolean;
  readonly calls?: ConnectionCalls;
}
const WORKS: Manner = { calls: { started: 1, working: 1, answered: 1 } };
/** It called once; or it watches health, or sends a request that never arrives: that works no more. */
const CALLED: Manner = { calls: { started: 1, working: 0, answered: 1 } };

/** A new connection; undefined when it is refused. */
function come(address: string, { speaks = true, calls: made }: Manner = {}): FakeSocket | undefined {
  const socket = new FakeSocket(address, ++port);
  if (!guard.admit(socket as unknown as Socket)) return undefined;
  if (speaks) guard.heard(`${address}:${port}`);
  if (made) calls.set(`${address}:${port}`, made);
  return socket;
}
const many = (count: number, address: string, manner?: Manner) =>
  Array.from({ length: count }, () => come(address, manner));
const open = (sockets: readonly (FakeSocket | undefined)[]) => sockets.filter((socket) => socket?.isOpen).length;

it('lets one peer have half of all connections, and no more while each of them works', () => {
  const own = many(MOST, '127.0.0.1', WORKS);
  expect(open(own)).toBe(MOST / 2);
  expect(guard.counters).toEqual({ refused: MOST / 2, closed: 0, held: 0 });
  expect(open(many(4, '127.0.0.9', WORKS))).toBe(4);
});

it('closes an idle connection of a peer that has half of all for another of the same peer, not for itself', () => {
  const idle = many(MOST / 2, '127.0.0.1', CALLED);
  const others = many(MOST / 2 - 1, '127.0.0.9', CALLED);
  expect(open(many(20, '127.0.0.1', WORKS))).toBe(MOST / 2);
  expect(open(idle)).toBe(0);
  expect(open(others)).toBe(MOST / 2 - 1);
});

it('does not let connections that only watch health or send nothing keep others out', () => {
  const watching = [...many(MOST / 2, '127.0.0.1', CALLED), ...many(MOST / 2, '127.0.0.2', CALLED)];
  for (let i = 0; i < 5; i++) expect(come('127.0.0.9', WORKS)).toBeDefined();
  expect(open(watching)).toBe(MOST - 5);
});

it('takes room from the peer that has the most, however much the others’ connections are worth', () => {
  const few = many(2, '127.0.0.2', { speaks: false });
  const most = many(MOST / 2, '127.0.0.1', CALLED);
  const some = many(MOST / 2 - 2, '127.0.0.3', CALLED);
  expect(come('127.0.0.9')).toBeDefined();
  expect([few, most, some].map(open)).toEqual([2, MOST / 2 - 1, MOST / 2 - 2]);
});

it('of one peer takes what never spoke, then what never called, then the oldest', () => {
  const oldest = come('127.0.0.1', CALLED);
  const sockets = [oldest, come('127.0.0.1', CALLED), come('127.0.0.1'), come('127.0.0.1', { speaks: false })];
  many(4, '127.0.0.1', WORKS);
  many(MOST / 2, '127.0.0.2', WORKS);
  const gone: (FakeSocket | undefined)[] = [];
  for (let i = 0; i < 3; i++) {
    come('127.0.0.9');
    gone.push(sockets.find((socket) => !socket?.isOpen && !gone.includes(socket)));
  }
  expect(gone).toEqual([sockets[3], sockets[2], oldest]);
});

it('closes nothing of a peer for one that has as many', () => {
  many(MOST / 2, '127.0.0.1', WORKS);
  const busy = many(4, '127.0.0.2', WORKS);
  const idle = many(4, '127.0.0.3', CALLED);
  expect(come('127.0.0.2')).toBeUndefined();
  expect(open(busy)).toBe(4);
  expect(open(idle)).toBe(4);
});

it('on a Unix socket, where each connection is a peer, takes the idlest and then the oldest', () => {
  const idle = Array.from({ length: MOST }, (_, i) => come(`unix:${i}`, i === 7 ? { speaks: false } : CALLED));
  come('unix:100', WORKS);
  expect(idle.findIndex((socket) => !socket?.isOpen)).toBe(7);
  come('unix:101', WORKS);
  expect(idle.findIndex((socket) => !socket?.isOpen)).toBe(0);
});

it('counts a connection no more when it has gone', () => {
  for (let i = 0; i < 5 * MOST; i++) come('127.0.0.1', WORKS)?.destroy();
  expect(guard.open).toBe(0);
  expect(open(many(MOST, '127.0.0.1', WORKS))).toBe(MOST / 2);
});

/** A new connection that is kept from coming again: not taken, and open for a second. */
function isHeld(address: string): boolean {
  const socket = new FakeSocket(address, ++port);
  return !guard.admit(socket as unknown as Socket) && socket.isOpen;
}

it('holds new connections of a peer that offends, for a second, and leaves its others and all others alone', () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  const before = come('127.0.0.1', WORKS);
  for (let i = 0; i < 5; i++) {
    expect(come('127.0.0.1')?.isOpen).toBe(true);
    guard.violated(`127.0.0.1:${port}`);
  }
  const held = new FakeSocket('127.0.0.1', ++port);
  expect(guard.admit(held as unknown as Socket)).toBe(false);
  expect([held.isOpen, before?.isOpen, come('127.0.0.2')?.isOpen]).toEqual([true, true, true]);
  vi.advanceTimersByTime(999);
  expect(held.isOpen).toBe(true);
  vi.advanceTimersByTime(1);
  expect(held.isOpen).toBe(false);
  expect(guard.counters.held).toBe(1);
  // One violation is forgotten a second.
  expect(come('127.0.0.1')?.isOpen).toBe(true);
});

it('holds new connections of a peer whose last dozens ended without an answer, but for 20 a second', () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  for (let i = 0; i < 300; i++) come('127.0.0.2', WORKS)?.destroy();
  expect(isHeld('127.0.0.2')).toBe(false);
  const taken = (): number => {
    let count = 0;
    for (let socket = come('127.0.0.1'); socket !== undefined; socket = come('127.0.0.1')) {
      socket.destroy();
      count++;
    }
    return count;
  };
  expect(taken()).toBe(50);
  expect(taken()).toBe(0);
  vi.advanceTimersByTime(1000);
  expect(taken()).toBe(20);
});

it('counts connections of a peer that ran out when they come, and no more when they had an answer', () => {
  vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] });
  for (let i = 0; i < 50; i++) come('127.0.0.1')?.destroy();
  vi.advanceTimersByTime(250);
  const answered = many(MOST / 2, '127.0.0.1', CALLED);
  expect(open(answered)).toBe(5);
  for (const socket of answered) socket?.destroy();
  const again = many(MOST / 2, '127.0.0.1');
  expect(open(again)).toBe(5);
  for (const socket of again) socket?.destroy();
  expect(open(many(MOST / 2, '127.0.0.1'))).toBe(0);
  // Full again, it is trusted as before.
  vi.advanceTimersByTime(3000);
  expect(open(many(MOST / 2, '127.0.0.1'))).toBe(MOST / 2);
});

it('closes at once what is more than it holds', () => {
  for (let i = 0; i < 5; i++) guard.violated('127.0.0.1:1');
  const held = Array.from({ length: 300 }, () => isHeld('127.0.0.1'));
  expect(held.filter(Boolean)).toHaveLength(256);
});

it.each([100, 200, 500, 1024, 1200])('of %d files those that are held and taken leave the executor’s', (files) => {
  guard = guardOf(1024, new OpenFiles(1024, files));
  for (let i = 0; i < 5; i++) guard.violated('127.0.0.1:1');
  const held = Array.from({ length: 300 }, () => isHeld('127.0.0.1')).filter(Boolean).length;
  const taken = open(Array.from({ length: 1200 }, (_, i) => come(`127.0.1.${i % 100}`, WORKS)));
  expect(held + taken).toBe(Math.min(files - 80, 1024 + 256));
  expect(taken).toBeGreaterThanOrEqual((files - 80) / 2);
});

describe('two servers of one process', () => {
  let files: OpenFiles;
  let other: ConnectionGuard;
  /** @param count files that the process may have open */
  const serversOf = (count: number): void => {
    files = new OpenFiles(2 * 1024, count);
    guard = guardOf(1024, files);
    other = guardOf(1024, files);
  };
  /** Runs an action at one of two servers. */
  const at = <T>(server: ConnectionGuard, act: () => T): T => {
    const before = guard;
    guard = server;
    try {
      return act();
    } finally {
      guard = before;
    }
  };
  const fill = (server: ConnectionGuard, network: string, manner: Manner) =>
    at(server, () => Array.from({ length: 1200 }, (_, i) => come(`${network}.${i % 100}`, manner)));

  it.each([100, 200, 500, 1024, 1200])('have the %d files of it together, those that are held among them', (count) => {
    serversOf(count);
    const held = [guard, other].map((server) =>
      at(server, () => {
        for (let i = 0; i < 5; i++) guard.violated('127.0.0.1:1');
        return Array.from({ length: 300 }, () => isHeld('127.0.0.1')).filter(Boolean).length;
      }),
    );
    const taken = [open(fill(guard, '127.0.1', WORKS)), open(fill(other, '127.0.2', WORKS))];
    const sum = (counts: readonly number[]) => counts.reduce((all, one) => all + one, 0);
    expect(sum(held) + sum(taken)).toBe(count - 80);
    expect(guard.open + other.open).toBe(sum(taken));
  });

  it('close what does nothing at one for who comes at the other', () => {
    serversOf(200);
    const idle = fill(guard, '127.0.1', CALLED);
    const all = open(idle);
    expect(guard.open).toBe(all);
    const { closed } = guard.counters;
    for (let i = 0; i < 10; i++) at(other, () => expect(come(`127.0.9.${i}`, WORKS)).toBeDefined());
    expect([open(idle), guard.open, other.open]).toEqual([all - 10, all - 10, 10]);
    expect([guard.counters.closed, other.counters.closed]).toEqual([closed + 10, 0]);
  });

  it('do not let one peer have more than half of what they share', () => {
    serversOf(200);
    const own = [guard, other].flatMap((server) => at(server, () => many(200, '127.0.0.1', WORKS)));
    expect(open(own)).toBe(files.most / 2);
    expect(at(other, () => come('127.0.0.2', WORKS))).toBeDefined();
  });
});
