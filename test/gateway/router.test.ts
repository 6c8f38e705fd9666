import { describe, expect, it } from 'vitest';
import type { SupervisorState } from '../../src/gateway/replica/link/supervision.js';
import type { ReplicaCounts } from '../../src/gateway/replica/replica.js';
import type { Generation } from '../../src/gateway/request/generation.js';
import { type RoutedReplica, Router } from '../../src/gateway/router.js';
import { RocmForgeError } from '../../src/shared/errors.js';

const NOTHING: ReplicaCounts = {
  running: 0,
  waiting: 0,
  kvBlocks: 0,
  windowKvBlocks: 0,
  freeWindowKvBlocks: 0,
  freeKvBlocks: 0,
  stateSnapshots: 0,
  keptStateSnapshots: 0,
  preemptions: 0,
  slotsYielded: 0,
  cachedTokens: 0,
  lateMasks: 0,
  steps: 0,
  slices: 0,
  drafts: 0,
  guesses: 0,
  acceptedGuesses: 0,
  discardedTokens: 0,
  replayed: 0,
  quarantined: 0,
  nonFinite: 0,
  saturatedActivations: 0,
  serving: 0,
  slots: 0,
  stepTokens: 0,
  executors: 0,
  stepAgeMs: 0,
};

/** A replica that notes what it is told. */
class NotingReplica implements RoutedReplica {
  readonly told: string[] = [];
  state: SupervisorState = 'serving';
  counts = NOTHING;
  active = 0;
  load = 0;
  device = 'host';
  refusal: Error | undefined;

  submit(): void {
    if (this.refusal) throw this.refusal;
    this.told.push('submit');
  }
  cancel(): void {
    this.told.push('cancel');
  }
  pause(_generation: Generation, paused: boolean): void {
    this.told.push(paused ? 'pause' : 'go on');
  }
  expire(): void {
    this.told.push('expire');
  }
  async start(): Promise<void> {
    this.told.push('start');
  }
  async stop(): Promise<void> {
    this.told.push('stop');
  }
  stopAdmission(): void {
    this.told.push('stopAdmission');
  }
}

/** The router knows a request by its identity alone. */
const generation = () => ({}) as Generation;

function routed(
  ...changes: Partial<Pick<NotingReplica, 'state' | 'counts' | 'active' | 'load' | 'device' | 'refusal'>>[]
) {
  const replicas = changes.map((change) => Object.assign(new NotingReplica(), change));
  const router = new Router(replicas);
  /** Which of the replicas the next request is given to. */
  const next = () => {
    const before = replicas.map(({ told }) => told.length);
    router.submit(generation());
    return replicas.findIndex(({ told }, i) => told.length > (before[i] ?? 0));
  };
  return { router, replicas, next };
}

describe('a router', () => {
  it('of one replica gives it everything, whatever its state', () => {
    for (const state of ['starting', 'serving', 'suspect', 'restarting', 'failed'] as const) {
      expect(routed({ state }).next()).toBe(0);
    }
  });

  it('gives a request to the replica with the fewest sequences', () => {
    const { next, replicas } = routed({ load: 3 }, { load: 2 }, { load: 7 });
    expect(next()).toBe(1);
    Object.assign(replicas[1] as NotingReplica, { load: 4 });
    expect(next()).toBe(0);
  });

  it('prefers one that serves, then one that will', () => {
    const busy = { load: 9 };
    expect(routed({ state: 'restarting' }, { state: 'serving', ...busy }).next()).toBe(1);
    expect(routed({ state: 'failed' }, { state: 'restarting', ...busy }).next()).toBe(1);
  });

  it('tells the replica that has a request, and no other, what becomes of it', () => {
    const { router, replicas } = routed({}, { load: 1 });
    const request = generation();
    router.submit(request);
    // The other one has less to do by now.
    Object.assign(replicas[0] as NotingReplica, { load: 5 });
    router.pause(request, true);
    router.pause(request, false);
    router.expire(request);
    router.cancel(request);
    expect(replicas.map(({ told }) => told)).toEqual([['submit', 'pause', 'go on', 'expire', 'cancel'], []]);
  });

  it('hands a refusal on', () => {
    const { router } = routed({ refusal: new RocmForgeError('QUEUE_FULL', 'too many') });
    expect(() => router.submit(generation())).toThrow('too many');
  });

  it('is ready while one replica serves, and not once it takes no more', () => {
    const { router, replicas } = routed({ state: 'failed' }, {});
    expect(router.isReady).toBe(true);
    router.stopAdmission();
    expect(router.isReady).toBe(false);
    expect(replicas.map(({ told }) => told)).toEqual([['stopAdmission'], ['stopAdmission']]);
    expect(routed({ state: 'restarting' }).router.isReady).toBe(false);
  });

  it('starts and stops all', async () => {
    const { router, replicas } = routed({}, {});
    await router.start();
    await router.stop();
    for (const { told } of replicas) expect(told).toEqual(['start', 'stop']);
  });

  it('adds up what its replicas hold', () => {
    const { router } = routed(
      { active: 2, device: 'gfx1100', counts: { ...NOTHING, running: 1, kvBlocks: 10, serving: 1, stepAgeMs: 5 } },
      { active: 1, device: 'gfx1100', counts: { ...NOTHING, running: 2, kvBlocks: 20, executors: 3, stepAgeMs: 2 } },
      { device: '' },
    );
    expect(router.active).toBe(3);
    expect(router.device).toBe('gfx1100');
    expect(router.counts).toEqual({ ...NOTHING, running: 3, kvBlocks: 30, serving: 1, executors: 3, stepAgeMs: 5 });
  });
});
