import { describe, expect, it } from 'vitest';
import type { Migration } from '../../src/gateway/replica/engine.js';
import type { SupervisorState } from '../../src/gateway/replica/link/supervision.js';
import {
  newEngineCounters,
  newSchedulerCounters,
  type ReplicaCounts,
} from '../../src/gateway/replica/replica-counts.js';
import type { Generation } from '../../src/gateway/request/generation.js';
import type { PausedBy } from '../../src/gateway/request/runner.js';
import { type RoutedReplica, Router, type RouterOptions } from '../../src/gateway/router.js';
import { RocmForgeError } from '../../src/shared/errors.js';

const NOTHING: ReplicaCounts = {
  ...newSchedulerCounters(),
  ...newEngineCounters(),
  ...{ spares: 0, missingSpares: 0, savedBytes: 0, running: 0 },
  waiting: 0,
  kvBlocks: 0,
  windowKvBlocks: 0,
  freeWindowKvBlocks: 0,
  freeKvBlocks: 0,
  stateSnapshots: 0,
  keptStateSnapshots: 0,
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
  numerics: string | undefined = 'this';
  freeSlots = 4;
  waitingTokens = 0;
  /** Generations that it has, and tokens that it finds of each. */
  movable: Generation[] = [];
  found = 0;
  fits = true;
  refusal: Error | undefined;
  problem: RocmForgeError | undefined;
  /** Why it does not start. */
  unusable: RocmForgeError | undefined;

  /** As told, else as its state says. */
  private waitable: boolean | undefined;
  get canServe(): boolean {
    return this.waitable ?? (this.state === 'serving' || this.state === 'unloaded');
  }
  set canServe(canServe: boolean) {
    this.waitable = canServe;
  }

  hasRoomForMore(): boolean {
    return true;
  }
  replace(): boolean {
    this.told.push('replace');
    return true;
  }
  loadModel(): void {
    if (this.state !== 'unloaded') return;
    this.told.push('load');
    this.state = 'starting';
  }
  unloadModel(): boolean {
    if (this.state !== 'serving' || this.active > 0) return false;
    this.told.push('unload');
    this.state = 'unloaded';
    return true;
  }
  release(moved: Generation): Migration {
    this.movable = this.movable.filter((other) => other !== moved);
    return { generation: moved, sequences: [] };
  }
  takeOver(migrations: readonly Migration[]): void {
    this.told.push(`takeOver ${migrations.length}`);
    this.movable.push(...migrations.map(({ generation }) => generation));
    this.freeSlots -= migrations.length;
  }
  endAll(): void {
    this.told.push('endAll');
  }
  canRun(): boolean {
    return this.fits;
  }
  findable(): number {
    return this.found;
  }

  submit(): void {
    if (this.refusal) throw this.refusal;
    this.told.push('submit');
  }
  cancel(): void {
    this.told.push('cancel');
  }
  pause(_generation: Generation, by: PausedBy | undefined): void {
    this.told.push(by === undefined ? 'go on' : `pause by ${by}`);
  }
  expire(): void {
    this.told.push('expire');
  }
  async start(): Promise<void> {
    this.told.push('start');
    if (this.unusable) throw this.unusable;
  }
  async stop(): Promise<void> {
    this.told.push('stop');
  }
  stopAdmission(): void {
    this.told.push('stopAdmission');
  }
}

/** A request as the router sees it. */
const generation = (emitted: readonly number[] = []) =>
  ({ sequences: [{ emitted }], parameters: { sampling: { promptLogprobs: 0 } } }) as unknown as Generation;

function routed(...changes: Partial<NotingReplica>[]) {
  return routedWith({}, ...changes);
}

function routedWith(options: RouterOptions, ...changes: Partial<NotingReplica>[]) {
  const replicas = changes.map((change) => Object.assign(new NotingReplica(), change));
  const router = new Router(replicas, options);
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
    router.pause(request, 'reader');
    router.pause(request, undefined);
    router.expire(request);
    router.cancel(request);
    expect(replicas.map(({ told }) => told)).toEqual([['submit', 'pause by reader', 'go on', 'expire', 'cancel'], []]);
  });

  it('loads all replicas of a model that was unloaded, and none that is there', () => {
    const { router, replicas } = routed({ state: 'unloaded' }, { state: 'unloaded', load: 1 });
    expect([router.isReady, router.isLoaded]).toEqual([true, false]);
    router.submit(generation());
    expect(replicas.map(({ told }) => told)).toEqual([['load', 'submit'], ['load']]);
    const loaded = routed({}, {});
    expect([loaded.router.isReady, loaded.router.isLoaded]).toEqual([true, true]);
    loaded.router.submit(generation());
    expect(loaded.replicas.map(({ told }) => told)).toEqual([['submit'], []]);
    expect(loaded.router.submissions).toBe(1);
  });

  it('puts away what has nothing to do', () => {
    const { router, replicas } = routed({}, { active: 1 }, { state: 'restarting' });
    router.unloadModel();
    expect(replicas.map(({ told }) => told)).toEqual([['unload'], [], []]);
  });

  it('gives what waits for a load that is refused to one that is still loading', () => {
    const [waits, other] = [generation(), generation()];
    const { router, replicas } = routed(
      { state: 'failed', canServe: false, movable: [waits, other] },
      { state: 'unloaded', canServe: true },
      { state: 'warming', canServe: true },
    );
    router.executorLost(replicas[0] as NotingReplica);
    expect(replicas.map(({ told }) => told)).toEqual([[], [], ['takeOver 2']]);
  });

  it('gives what waits where no executor ever served to any that does, prompts that are to be told included', () => {
    const told = generation();
    Object.assign(told.parameters.sampling, { promptLogprobs: 2 });
    const { router, replicas } = routed({ state: 'failed', numerics: undefined, movable: [told] }, {});
    router.executorLost(replicas[0] as NotingReplica);
    expect(replicas[1]?.told).toEqual(['takeOver 1']);
    const served = routed({ state: 'failed', numerics: 'other', movable: [told] }, {});
    served.router.executorLost(served.replicas[0] as NotingReplica);
    expect(served.replicas[1]?.told).toEqual([]);
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

  describe('whose replicas cannot all serve', () => {
    const silent = { unusable: new RocmForgeError('EXECUTOR_UNAVAILABLE', 'silent') };
    const other = { unusable: new RocmForgeError('EXECUTOR_PROTOCOL', 'another version') };

    it('does not start, unless it may with some of them', async () => {
      await expect(routed({}, other).router.start()).rejects.toThrow('another version');
      await routedWith({ startsWithSome: true }, silent, {}, other).router.start();
    });

    it('does not start with none of them, and says rather what an executor said', async () => {
      const { router } = routedWith({ startsWithSome: true }, silent, other);
      await expect(router.start()).rejects.toMatchObject({ reason: 'EXECUTOR_PROTOCOL' });
      await expect(routedWith({ startsWithSome: true }, silent, silent).router.start()).rejects.toThrow('silent');
    });

    it('does not start with an option that is wrong', async () => {
      const wrong = { unusable: new RocmForgeError('INVALID_OPTION', 'no such file') };
      await expect(routedWith({ startsWithSome: true }, {}, wrong).router.start()).rejects.toThrow('no such file');
    });
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

  it('prefers one that has the beginning of the prompt, unless it has much more to do', () => {
    expect(routed({ load: 0 }, { load: 2, found: 96 }).next()).toBe(1);
    expect(routed({ load: 0 }, { load: 7, found: 96 }).next()).toBe(0);
    expect(routed({ load: 1, waitingTokens: 0 }, { load: 1, waitingTokens: 500, found: 400 }).next()).toBe(0);
  });

  it('shares out among others what a replica has lost, and tells those that have it now', () => {
    const requests = [generation([1]), generation([2]), generation([3])];
    const { router, replicas } = routed({ state: 'restarting', movable: requests }, { load: 1 }, {});
    router.executorLost(replicas[0] as NotingReplica);
    expect(replicas.map(({ told }) => told)).toEqual([[], ['takeOver 1'], ['takeOver 2']]);
    router.cancel(requests[0] as Generation);
    expect(replicas[2]?.told).toEqual(['takeOver 2', 'cancel']);
  });

  it('keeps a stream with the numerics that computed its tokens; one without any goes anywhere', () => {
    const [begun, fresh] = [generation([1]), generation()];
    const lost: Partial<NotingReplica> = { state: 'restarting', movable: [begun, fresh] };
    const { router, replicas } = routed(lost, { numerics: 'other' });
    router.executorLost(replicas[0] as NotingReplica);
    expect([replicas[0]?.movable, replicas[1]?.movable]).toEqual([[begun], [fresh]]);

    const free = routedWith({ allowOtherArithmetic: true }, { ...lost, movable: [begun] }, { numerics: 'other' });
    free.router.executorLost(free.replicas[0] as NotingReplica);
    expect(free.replicas[1]?.movable).toEqual([begun]);
  });

  it('leaves with a replica what no other could ever hold', () => {
    const request = generation();
    const { router, replicas } = routed({ state: 'suspect', movable: [request] }, { fits: false });
    router.executorLost(replicas[0] as NotingReplica);
    expect(replicas[0]?.movable).toEqual([request]);
  });

  it('gives one with free slots what waits elsewhere, first what nobody serves, and no more than it has slots', () => {
    const [waiting, lost] = [[generation(), generation()], [generation([1])]];
    const { router, replicas } = routed(
      { freeSlots: 2 },
      { freeSlots: 0, waitingTokens: 9, load: 6, movable: waiting },
      { state: 'restarting', freeSlots: 0, load: 1, movable: lost },
    );
    router.hasRoom(replicas[0] as NotingReplica);
    expect(replicas[0]?.movable).toEqual([lost[0], waiting[0]]);
    // Sequences that wait although slots are free wait for a prompt that another computes.
    const patient = routed({}, { freeSlots: 1, waitingTokens: 9, load: 3, movable: [generation()] });
    patient.router.hasRoom(patient.replicas[0] as NotingReplica);
    expect(patient.replicas[0]?.told).toEqual([]);
  });

  it('gives one that stands by nothing, until another is lost; who comes back stands by', () => {
    const request = generation([1]);
    const { router, replicas, next } = routedWith({ standby: 1 }, { load: 9 }, {});
    expect(next()).toBe(0);
    Object.assign(replicas[0] as NotingReplica, { state: 'restarting', movable: [request] });
    router.executorLost(replicas[0] as NotingReplica);
    expect(replicas[1]?.movable).toEqual([request]);
    Object.assign(replicas[0] as NotingReplica, { state: 'serving', load: 0 });
    expect(next()).toBe(1);
  });

  it('replaces one executor after the other, each when the one before serves again', async () => {
    const { router, replicas } = routed({}, {});
    const [first, second] = replicas as [NotingReplica, NotingReplica];
    first.replace = () => {
      first.state = 'restarting';
      return true;
    };
    const replaced = router.replaceExecutors();
    // Asked for twice, it is done once.
    expect(router.replaceExecutors()).toBe(replaced);
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(second.told).toEqual([]);
    first.state = 'serving';
    await replaced;
    expect(second.told).toEqual(['replace']);
  });
});
