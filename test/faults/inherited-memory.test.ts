import { closeSync, openSync, readSync } from 'node:fs';
import { expect, it } from 'vitest';
import { generate, type TestGateway } from '../support/gateway.js';
import { mixedRequest, seen, startForKills, whenever } from '../support/kill-run.js';
import { Random } from '../support/random.js';
import { flipBit, hostMemory, type MemoryFile, strayWrites } from '../support/stray-writes.js';

const STREAMS = 8;
const ROUNDS = 3;
const WRITES = 40;

/** Streams that go on through what `disturb` does, which must change no token. */
async function undisturbedBy(disturb: (server: TestGateway, round: number) => Promise<void>): Promise<TestGateway> {
  const server = await startForKills('llama', { hasSpare: false, kvMemoryBytes: 8 << 20 });
  const { gateway } = server;
  try {
    const run = (i: number) => generate(server.client, mixedRequest(i)).then(seen);
    const undisturbed = await Promise.all(Array.from({ length: STREAMS }, (_, i) => run(i)));
    let isOver = false;
    const streams = undisturbed.map(async (expected, i) => {
      do expect(await run(i), `stream ${i}`).toEqual(expected);
      while (!isOver);
    });
    // One that fails is reported when all of it is over.
    const all = Promise.all(streams);
    all.catch(() => undefined);
    for (let round = 0; round < ROUNDS; round++) {
      await whenever(() => gateway.executorState() === 'serving');
      const { steps } = gateway.replica.counts;
      await whenever(() => gateway.replica.counts.steps > steps + 20);
      await disturb(server, round);
    }
    isOver = true;
    await all;
    return server;
  } finally {
    await server.stop();
  }
}

/** Ends a process by a fault of its own, which has written to memory before. */
function faultAfter(pid: number, write: () => void, before = (): void => undefined): void {
  process.kill(pid, 'SIGSTOP');
  write();
  before();
  process.kill(pid, 'SIGABRT');
  process.kill(pid, 'SIGCONT');
}

it('an executor that faults while it loads has damaged what the next one finds', async () => {
  const random = new Random(29);
  const { gateway } = await undisturbedBy(async ({ gateway }) => {
    const first = gateway.executorPid() as number;
    process.kill(first, 'SIGKILL');
    await whenever(() => ![undefined, first].includes(gateway.executorPid()));
    faultAfter(gateway.executorPid() as number, () => strayWrites(hostMemory(), WRITES, random));
    await whenever(() => gateway.executorState() === 'serving');
  });
  expect(gateway.replica.counts.damagedBlocks).toBeGreaterThan(0);
});

it('and so has one that faults when its end was asked for', async () => {
  const random = new Random(31);
  const { gateway } = await undisturbedBy(async ({ gateway }) => {
    const pid = gateway.executorPid() as number;
    faultAfter(
      pid,
      () => strayWrites(hostMemory(), WRITES, random),
      () => expect(gateway.replica.replace()).toBe(true),
    );
    await whenever(() => gateway.executorState() === 'serving' && gateway.executorPid() !== pid);
  });
  expect(gateway.replica.counts.damagedBlocks).toBeGreaterThan(0);
});

it('damage of the memory’s own description costs its content, and no stream', async () => {
  const places = ['{', '"ranges"', '"identity":"'] as const;
  await undisturbedBy(async ({ gateway }, round) => {
    const memory = { ...hostMemory(), from: 0 };
    const pid = gateway.executorPid() as number;
    const place = places[round] as string;
    const at = headerOf(memory).indexOf(place) + (place.endsWith('"') ? place.length : 0);
    faultAfter(pid, () => flipBit(memory, at, 6));
    await whenever(() => gateway.executorState() === 'serving' && gateway.executorPid() !== pid);
  });
});

function headerOf({ path }: MemoryFile): string {
  const descriptor = openSync(path, 'r');
  const bytes = Buffer.alloc(256);
  readSync(descriptor, bytes, 0, bytes.length, 0);
  closeSync(descriptor);
  return bytes.toString('latin1');
}
