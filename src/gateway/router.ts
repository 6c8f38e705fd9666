import type { Replica, ReplicaCounts } from './replica/replica.js';
import type { Generation } from './request/generation.js';
import type { Backend } from './request/runner.js';

/** What a router asks of a replica. */
export type RoutedReplica = Backend &
  Pick<Replica, 'start' | 'stop' | 'stopAdmission' | 'active' | 'load' | 'state' | 'device' | 'counts'>;

/**
 * Picks a replica for each request, and stands for all of them before whoever sends requests: doors know no replica.
 * All completions of a request run on one replica, where they share their prompt.
 */
export class Router implements Backend {
  private readonly placed = new WeakMap<Generation, RoutedReplica>();
  private isDraining = false;

  /** @param replicas at least one, all of one model */
  constructor(private readonly replicas: readonly RoutedReplica[]) {}

  /**
   * Starts all replicas.
   *
   * @throws RocmForgeError why the first one that cannot serve could not
   */
  async start(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.start()));
  }

  async stop(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.stop()));
  }

  /** Takes no more generations; those under way go on. */
  stopAdmission(): void {
    this.isDraining = true;
    for (const replica of this.replicas) replica.stopAdmission();
  }

  submit(generation: Generation): void {
    const replica = this.pick();
    replica.submit(generation);
    this.placed.set(generation, replica);
  }

  cancel(generation: Generation): void {
    this.placed.get(generation)?.cancel(generation);
  }

  pause(generation: Generation, paused: boolean): void {
    this.placed.get(generation)?.pause(generation, paused);
  }

  expire(generation: Generation): void {
    this.placed.get(generation)?.expire(generation);
  }

  /** Whether requests are taken and some executor serves them. */
  get isReady(): boolean {
    return !this.isDraining && this.replicas.some(({ state }) => state === 'serving');
  }

  /** Generations under way. */
  get active(): number {
    return this.replicas.reduce((sum, { active }) => sum + active, 0);
  }

  /** The devices of the replicas, each once. */
  get device(): string {
    return [...new Set(this.replicas.map(({ device }) => device))].filter((device) => device !== '').join(', ');
  }

  get counts(): ReplicaCounts {
    return this.replicas.map(({ counts }) => counts).reduce(addUp);
  }

  /** One that serves, or will soon; of those the one with the fewest sequences. */
  private pick(): RoutedReplica {
    const serving = this.replicas.filter(({ state }) => state === 'serving');
    const living = this.replicas.filter(({ state }) => state !== 'failed');
    const [candidates = this.replicas] = [serving, living].filter(({ length }) => length > 0);
    return candidates.reduce((least, replica) => (replica.load < least.load ? replica : least));
  }
}

function addUp(sum: ReplicaCounts, counts: ReplicaCounts): ReplicaCounts {
  const added = (Object.keys(sum) as (keyof ReplicaCounts)[]).map((name) => [name, sum[name] + counts[name]]);
  const stepAgeMs = Math.max(sum.stepAgeMs, counts.stepAgeMs);
  return { ...(Object.fromEntries(added) as Record<keyof ReplicaCounts, number>), stepAgeMs };
}
