import { getEventListeners } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type PoolJob, WorkerPool, type WorkerPoolOptions } from '../../../src/gateway/threads/worker-pool.js';
import { RocmForgeError } from '../../../src/shared/errors.js';

/** A job: waits for the word to end in `gate`, where there is one, then answers with its name. */
interface Input {
  readonly name: string;
  readonly gate?: SharedArrayBuffer;
  readonly dies?: boolean;
}

const PROGRAM = `
import { parentPort, workerData } from 'node:worker_threads';
parentPort.on('message', ({ name, gate, dies }) => {
  if (dies) process.exit(3);
  parentPort.postMessage({ event: 'phase', phase: name });
  if (gate !== undefined) Atomics.wait(new Int32Array(gate), 0, 0);
  if (name === 'wrong') parentPort.postMessage({ event: 'failed', reason: 'INVALID_FIELD', message: 'wrong', metadata: {} });
  else parentPort.postMessage({ event: 'done', output: name + (workerData.isEarly ? ' early' : '') });
});
parentPort.postMessage({ event: 'ready' });
`;

describe('a worker pool', () => {
  let folder: string;
  const pools: WorkerPool<Input, string>[] = [];
  const gates: SharedArrayBuffer[] = [];
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'worker-pool-'));
    writeFileSync(join(folder, 'program.mjs'), PROGRAM);
  });
  afterEach(async () => {
    for (const gate of gates.splice(0)) open(gate);
    await Promise.all(pools.splice(0).map((pool) => pool.close()));
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  function poolOf(settings: Partial<WorkerPoolOptions> = {}) {
    const pool = new WorkerPool<Input, string>({
      ...{ name: 'test', file: join(folder, 'program.mjs'), threads: 2, heapMb: 64, youngHeapMb: 4, maxJobs: 4 },
      data: (isEarly) => ({ isEarly }),
      errors: {
        full: (waiting) => new RocmForgeError('QUEUE_FULL', `${waiting} wait`),
        closed: () => new RocmForgeError('SHUTTING_DOWN', 'closed'),
        lost: (how, phase) => new RocmForgeError('INTERNAL', `${phase}: ${how}`),
        late: (took, phase) => new RocmForgeError('TEXT_TOO_SLOW', `${phase}: ${took}`),
      },
      ...settings,
    });
    pools.push(pool);
    const order: string[] = [];
    /** Runs a job; `order` receives its name, or why it was refused, when it is over. */
    const run = (principal: string, input: Partial<Input> = {}, more: Partial<PoolJob<Input>> = {}) => {
      const name = input.name ?? principal;
      return pool.run({ input: { ...input, name }, owner: { principal }, ...more }).then(
        (output) => order.push(output),
        (error) => order.push(`${name} ${error.reason ?? error.message}`),
      );
    };
    return { pool, order, run };
  }
  function closedGate(): SharedArrayBuffer {
    const gate = new SharedArrayBuffer(4);
    gates.push(gate);
    return gate;
  }
  function open(gate: SharedArrayBuffer): void {
    Atomics.store(new Int32Array(gate), 0, 1);
    Atomics.notify(new Int32Array(gate), 0);
  }

  it('runs jobs, and passes on what they fail with', async () => {
    const { order, run } = poolOf();
    await run('a');
    await run('a', { name: 'wrong' });
    expect(order).toEqual(['a', 'wrong INVALID_FIELD']);
  });

  it('leaves a thread to others where one principal may not have all', async () => {
    const { order, run } = poolOf({ threadsOfOne: 1 });
    const gate = closedGate();
    const all = [run('a', { name: 'a1', gate }), run('a', { name: 'a2' })];
    await run('b');
    expect(order).toEqual(['b']);
    open(gate);
    await Promise.all(all);
    expect(order).toEqual(['b', 'a1', 'a2']);
  });

  it('takes turns, whatever each has asked for', async () => {
    const { order, run } = poolOf({ threads: 1 });
    const gate = closedGate();
    const names = ['a2', 'a3', 'b', 'c'].map((name) => run(name.slice(0, 1), { name }));
    const all = [run('a', { name: 'a1', gate }), ...names];
    open(gate);
    await Promise.all(all);
    expect(order).toEqual(['a2', 'b', 'c', 'a3', 'a1']);
  });

  it('refuses the newest of the principal with most, and of equals the one that came', async () => {
    const { order, run } = poolOf({ threads: 1, maxJobs: 2 });
    const gate = closedGate();
    const begun = new Promise<void>((resolve) => void run('busy', { gate }, { begun: resolve }));
    await begun;
    const all = [run('a', { name: 'a1' }), run('a', { name: 'a2' }), run('b')];
    await all[1];
    expect(order).toEqual(['a2 QUEUE_FULL']);
    await run('c');
    expect(order).toEqual(['a2 QUEUE_FULL', 'c QUEUE_FULL']);
    open(gate);
    await Promise.all(all);
    expect(order.slice(2)).toEqual(['busy', 'a1', 'b']);
  });

  it('refuses what holds too many bytes', async () => {
    const { order, run } = poolOf({ threads: 1, maxBytes: 100 });
    const gate = closedGate();
    const begun = new Promise<void>((resolve) => void run('busy', { gate }, { begun: resolve }));
    await begun;
    const small = run('a', {}, { bytes: 60 });
    await run('b', {}, { bytes: 70 });
    expect(order).toEqual(['b QUEUE_FULL']);
    open(gate);
    await small;
    expect(order).toEqual(['b QUEUE_FULL', 'busy', 'a']);
  });

  it('forgets a job whose owner has gone', async () => {
    const { order, run } = poolOf({ threads: 1 });
    const gate = closedGate();
    const busy = run('busy', { gate });
    const caller = new AbortController();
    const gone = run('a', {}, { owner: { principal: 'a', signal: caller.signal } });
    caller.abort(new Error('gone'));
    await gone;
    expect(order).toEqual(['a gone']);
    open(gate);
    await busy;
    await run('late', {}, { owner: { principal: 'a', signal: AbortSignal.abort(new Error('gone before')) } });
    expect(order).toEqual(['a gone', 'busy', 'late gone before']);
  });

  it('forgets all jobs of one call with one listener, and leaves none behind', async () => {
    const { order, run } = poolOf({ threads: 1, maxJobs: 100 });
    const gate = closedGate();
    const busy = run('busy', { gate });
    const [caller, other] = [new AbortController(), new AbortController()];
    const jobsOf = (name: string, { signal }: AbortController) =>
      Array.from({ length: 20 }, () => run(name, {}, { owner: { principal: name, signal } }));
    const gone = jobsOf('a', caller);
    const served = jobsOf('b', other);
    expect([caller, other].map(({ signal }) => getEventListeners(signal, 'abort').length)).toEqual([1, 1]);
    caller.abort(new Error('gone'));
    await Promise.all(gone);
    expect(order).toEqual(Array.from({ length: 20 }, () => 'a gone'));
    open(gate);
    await Promise.all([busy, ...served]);
    expect(order.slice(20)).toEqual(['busy', ...Array.from({ length: 20 }, () => 'b')]);
    expect(getEventListeners(other.signal, 'abort')).toEqual([]);
  });

  it('ends a job that takes too long with its thread, and starts another', async () => {
    const { order, run } = poolOf({ threads: 1, jobTimeLimitMs: 200 });
    const slow = run('slow', { gate: closedGate() });
    const next = run('next');
    await Promise.all([slow, next]);
    expect(order).toEqual(['slow TEXT_TOO_SLOW', 'next']);
  });

  it('loses a job with its thread, and starts another', async () => {
    const { pool, run, order } = poolOf({ threads: 1 });
    const lost = pool.run({ input: { name: 'x', dies: true }, owner: { principal: 'a' } });
    await expect(lost).rejects.toMatchObject({ reason: 'INTERNAL', message: 'undefined: ended with code 3' });
    await run('next');
    expect(order).toEqual(['next']);
  });

  it('starts one thread early, and takes it first', async () => {
    const { pool, run, order } = poolOf();
    pool.startEarly();
    pool.startEarly();
    await run('a');
    expect(order).toEqual(['a early']);
  });

  it('rejects what it was at when it is closed, and everything after', async () => {
    const { pool, run, order } = poolOf({ threads: 1 });
    const gate = closedGate();
    const all = [run('busy', { gate }), run('waits')];
    const closing = pool.close();
    open(gate);
    await Promise.all([...all, closing, run('after')]);
    expect(order.toSorted()).toEqual(['after SHUTTING_DOWN', 'busy SHUTTING_DOWN', 'waits SHUTTING_DOWN']);
  });
});
