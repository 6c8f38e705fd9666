import { asRocmForgeError, RocmForgeError } from '../shared/errors.js';
import type { Migration } from './replica/engine.js';
import type { ModelPlace } from './replica/load-queue.js';
import { allServing, granted, notLoaded, polled, unloaded, unloadedByOperator } from './replica/model-loading.js';
import { cheapest, placementCost } from './replica/placement.js';
import type { Replica } from './replica/replica.js';
import { addUp, type ReplicaCounts } from './replica/replica-counts.js';
import type { Generation } from './request/generation.js';
import type { Backend, PausedBy } from './request/runner.js';

/** Interface of a replica to its router. */
export type RoutedReplica = Backend &
  Pick<
    Replica,
    | ('start' | 'stop' | 'stopAdmission' | 'endAll' | 'replace' | 'loadModel' | 'unloadModel')
    | ('active' | 'load' | 'state' | 'canServe' | 'device' | 'counts' | 'numerics')
    | 'problem'
    | ('movable' | 'release' | 'takeOver' | 'canRun' | 'findable' | 'freeSlots' | 'waitingTokens')
  >;

export interface RouterOptions {
  /** Replicas that are given nothing while so many others serve: they are there for the next that is lost. Default 0. */
  readonly standby?: number;
  /** True if streams may continue on replicas with other numerics; default false. */
  readonly allowOtherArithmetic?: boolean | undefined;
  /** True if it starts where only some of the replicas can serve: those that cannot are tried again. Default false. */
  readonly startsWithSome?: boolean | undefined;
  /** Its place among the models that are loaded at once; absent: there is no limit of them. */
  readonly place?: ModelPlace | undefined;
  /** False if commands alone load the model, not requests; default true. */
  readonly loadsOnRequest?: boolean | undefined;
}

/** Time that a replacement may take before the next replica's turn; it continues all the same. */
const REPLACE_LIMIT_MS = 120_000;

/**
 * Picks a replica for each request, and stands for all of them before whoever sends requests: servers know no replica.
 * All completions of a request run on one replica, where they share their prompt. What a replica loses with its executor
 * continues on others with the same numerics, if there are any.
 */
export class Router implements Backend {
  /** Generations that came so far. */
  submissions = 0;
  /** Those of them that were queued. */
  accepted = 0;
  private readonly placed = new WeakMap<Generation, RoutedReplica>();
  isDraining = false;
  /** Times that the model was to be loaded by itself, without a generation. */
  loads = 0;
  /** An operator has unloaded the model. */
  private isUnloaded = false;
  /** In the order in which they are given requests; whose executor was lost last is the last. */
  private order: readonly RoutedReplica[];
  private replacing: Promise<void> | undefined;

  /** @param replicas at least one, all of one model */
  constructor(
    private readonly replicas: readonly RoutedReplica[],
    private readonly options: RouterOptions = {},
  ) {
    this.order = replicas;
  }

  /**
   * Starts all replicas.
   *
   * @throws RocmForgeError why the first one that cannot serve could not; with {@link RouterOptions.startsWithSome} only where none
   *   can, or an option is wrong, and then rather what an executor said than that one does not answer
   */
  async start(): Promise<void> {
    const refusals: RocmForgeError[] = [];
    await Promise.all(
      this.replicas.map((replica) =>
        replica.start().catch((thrown: unknown) => {
          const error = asRocmForgeError(thrown);
          if (!this.options.startsWithSome || error.reason === 'INVALID_OPTION') throw error;
          refusals.push(error);
        }),
      ),
    );
    if (refusals.length < this.replicas.length) return;
    throw refusals.find(({ reason }) => reason !== 'EXECUTOR_UNAVAILABLE') ?? refusals[0];
  }

  async stop(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.stop()));
  }

  /** Is not ready any more; generations are still taken. */
  announceEnd(): void {
    this.isDraining = true;
  }

  /** Takes no more generations; those under way go on. */
  stopAdmission(): void {
    this.announceEnd();
    for (const replica of this.replicas) replica.stopAdmission();
  }

  /** Ends all generations with an error. */
  endAll(error: RocmForgeError): void {
    for (const replica of this.replicas) replica.endAll(error);
  }

  /** Ends the executors of all replicas, until a generation comes. One that has something to do, or does not serve, is left. */
  unloadModel(): void {
    for (const replica of this.replicas) replica.unloadModel();
  }

  /**
   * Refuses new generations, waits for those under way, and ends the executors of all replicas; none follows before {@link load}.
   *
   * @throws RocmForgeError `MODEL_LOADING` when the model is loaded before it was unloaded
   */
  async unload(): Promise<void> {
    this.isUnloaded = true;
    for (;;) {
      this.unloadModel();
      const isOver = ({ state, load }: RoutedReplica) => state === 'stopped' || (state === 'unloaded' && load === 0);
      if (this.replicas.every(isOver)) return;
      await polled();
      if (!this.isUnloaded) throw new RocmForgeError('MODEL_LOADING', 'the model was loaded before it was unloaded');
    }
  }

  /**
   * Starts executors where there are none, and takes generations again. Resolves when all replicas serve, or the signal aborts.
   *
   * @throws RocmForgeError why one cannot; `MODEL_UNLOADED` when it is unloaded meanwhile
   */
  async load(signal?: AbortSignal): Promise<void> {
    this.isUnloaded = false;
    this.loads += 1;
    const check = () => {
      if (this.isUnloaded) throw unloaded('the model was unloaded before it was loaded');
    };
    const wish = this.options.place?.wish();
    try {
      if (wish && !(await granted(wish, check, signal))) return;
      this.startExecutors();
      await allServing(this.replicas, check);
    } finally {
      wish?.end();
    }
  }

  /**
   * Loads the model if it is unloaded because it was idle. Resolves as {@link load}.
   *
   * @throws RocmForgeError `MODEL_UNLOADED` if an operator has unloaded it; as {@link load}
   */
  async wake(signal?: AbortSignal): Promise<void> {
    this.checkAdmits();
    await this.load(signal);
  }

  /** A generation will probably come: the model is loaded for it as it would be, unless others had to be waited for. */
  expect(): void {
    if (this.isUnloaded || this.options.loadsOnRequest === false) return;
    if (this.options.place) this.options.place.expect();
    else this.startExecutors();
  }

  /** Starts executors where there are none. Of one that is there nothing changes. */
  startExecutors(): void {
    for (const replica of this.replicas) replica.loadModel();
  }

  /** @throws RocmForgeError `MODEL_UNLOADED`, `MODEL_NOT_LOADED` */
  submit(generation: Generation): void {
    this.checkAdmits();
    const { place, loadsOnRequest = true } = this.options;
    if (!loadsOnRequest && this.isModelUnloaded && !place?.isWaiting) throw notLoaded();
    this.submissions += 1;
    // All of them, so that those who come next need not wait as long.
    if (place === undefined) this.startExecutors();
    const replica = this.pick(generation);
    replica.submit(generation);
    this.accepted += 1;
    this.placed.set(generation, replica);
    place?.request();
  }

  hasRoomForMore(principal: string, n: number): boolean {
    return this.replicas.some((replica) => replica.hasRoomForMore(principal, n));
  }

  cancel(generation: Generation): void {
    this.placed.get(generation)?.cancel(generation);
  }

  pause(generation: Generation, by: PausedBy | undefined): void {
    this.placed.get(generation)?.pause(generation, by);
  }

  expire(generation: Generation): void {
    this.placed.get(generation)?.expire(generation);
  }

  /** A replica's executor is gone: what it had goes on with others at once. What cannot waits for its next. */
  executorLost(lost: RoutedReplica): void {
    this.order = [...this.order.filter((replica) => replica !== lost), lost];
    this.move(lost, lost.movable, (generation) => this.failoverTargets(lost, generation));
  }

  /** A replica has slots that nobody there waits for: what waits elsewhere comes to it, first what nobody serves. */
  hasRoom(replica: RoutedReplica): void {
    // One that was being started when the model was unloaded.
    if (this.isUnloaded) replica.unloadModel();
    if (this.replicas.length === 1 || !this.serving.includes(replica)) return;
    const others = this.replicas.filter((other) => other !== replica);
    // With slots free, what waits does so for a prompt that another computes.
    const waits = others.filter(({ waitingTokens, load, freeSlots, state }) =>
      state === 'serving' ? waitingTokens > 0 && freeSlots === 0 : load > 0,
    );
    waits.sort((a, b) => Number(a.state === 'serving') - Number(b.state === 'serving') || b.load - a.load);
    for (const donor of waits) {
      let room = replica.freeSlots;
      const coming = donor.movable.filter((generation) => {
        const fits = room >= generation.sequences.length && this.mayMove(donor, replica, generation);
        if (fits) room -= generation.sequences.length;
        return fits;
      });
      this.move(donor, coming, () => [replica]);
    }
  }

  /** Replaces the executors, one after the other. Streams go on with the other replicas, or with the new one. */
  replaceExecutors(): Promise<void> {
    this.replacing ??= this.replaceAll().finally(() => {
      this.replacing = undefined;
    });
    return this.replacing;
  }

  /** True if requests are taken, and will be, and some executor serves them or is started for them. */
  get isReady(): boolean {
    return !this.isDraining && this.admits && this.canServe;
  }

  /** True if generations are taken: no operator has unloaded the model. */
  get admits(): boolean {
    return !this.isUnloaded;
  }

  /** True if a request has reason to wait for an executor. */
  get canServe(): boolean {
    return this.replicas.some(({ canServe }) => canServe);
  }

  /** True if some executor has the model loaded. */
  get isLoaded(): boolean {
    return this.replicas.some(({ state }) => state === 'serving');
  }

  /** True if no executor has the model loaded, and none is being started for it. */
  get isModelUnloaded(): boolean {
    return this.replicas.every(({ state }) => state === 'unloading' || state === 'unloaded');
  }

  /** Generations under way. */
  get active(): number {
    return this.replicas.reduce((sum, { active }) => sum + active, 0);
  }

  /** The devices of the replicas, each once. */
  get device(): string {
    return [...new Set(this.replicas.map(({ device }) => device))].filter((device) => device !== '').join(', ');
  }

  get devices(): readonly string[] {
    return this.replicas.map(({ device }) => device ?? '');
  }

  get counts(): ReplicaCounts {
    return this.replicas.map(({ counts }) => counts).reduce(addUp);
  }

  private checkAdmits(): void {
    if (this.isUnloaded) throw unloadedByOperator();
  }

  private async replaceAll(): Promise<void> {
    for (const replica of this.replicas) {
      if (!replica.replace()) continue;
      const until = performance.now() + REPLACE_LIMIT_MS;
      while (replica.state !== 'serving' && performance.now() < until) await polled();
    }
  }

  /** Those that serve and are given requests. */
  private get serving(): readonly RoutedReplica[] {
    const all = this.order.filter(({ state }) => state === 'serving');
    return all.slice(0, Math.max(1, this.replicas.length - (this.options.standby ?? 0)));
  }

  /**
   * One that serves, or will soon; of those the one that has least to do before the request's first token: what it does not
   * find of the prompt among its blocks, what waits there, and those that it shares steps with.
   */
  private pick(generation: Generation): RoutedReplica {
    const living = this.order.filter(({ state }) => state !== 'failed');
    const [candidates = this.replicas] = [this.serving, living].filter(({ length }) => length > 0);
    return cheapest(candidates, (replica) =>
      placementCost(replica.waitingTokens, replica.findable(generation), replica.load),
    );
  }

  /** Replicas that may continue a generation of another. */
  private failoverTargets(lost: RoutedReplica, generation: Generation): readonly RoutedReplica[] {
    const able = (replicas: readonly RoutedReplica[]) =>
      replicas.filter((replica) => replica !== lost && this.mayMove(lost, replica, generation));
    const serving = able(this.serving);
    // One of several replicas that are all being loaded may be refused.
    if (serving.length > 0 || lost.state !== 'failed') return serving;
    return able(this.order.filter(({ canServe, state }) => canServe && state !== 'unloaded'));
  }

  /** A stream with emitted tokens, or with reported log probabilities of its prompt, moves only to a replica with the same numerics. */
  private mayMove(from: RoutedReplica, to: RoutedReplica, generation: Generation): boolean {
    const isFree =
      this.options.allowOtherArithmetic ||
      from.numerics === to.numerics ||
      // No executor has served yet: nothing was computed.
      from.numerics === undefined ||
      (generation.parameters.sampling.promptLogprobs === 0 &&
        !generation.hasHiddenStates &&
        generation.sequences.every(({ emitted }) => emitted.length === 0));
    return isFree && to.canRun(generation);
  }

  private move(
    from: RoutedReplica,
    generations: readonly Generation[],
    failoverTargets: (generation: Generation) => readonly RoutedReplica[],
  ): void {
    const migrations = new Map<RoutedReplica, Migration[]>();
    const coming = new Map<RoutedReplica, number>();
    for (const generation of generations) {
      const targets = failoverTargets(generation);
      if (targets.length === 0) continue;
      const target = cheapest(targets, (replica) => replica.load + (coming.get(replica) ?? 0));
      coming.set(target, (coming.get(target) ?? 0) + generation.sequences.length);
      migrations.set(target, [...(migrations.get(target) ?? []), from.release(generation)]);
      this.placed.set(generation, target);
    }
    for (const [target, given] of migrations) target.takeOver(given);
  }
}
