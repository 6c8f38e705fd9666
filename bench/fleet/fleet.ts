import { placementCost } from '../../src/gateway/replica/placement.js';
import { Scheduler } from '../../src/gateway/replica/scheduler/scheduler.js';
import { outputsOf, type StepPlan } from '../../src/gateway/replica/scheduler/step-plan.js';
import { GREEDY, Sequence } from '../../src/gateway/request/sequence.js';
import { Random } from '../../test/support/random.js';
import { type Card, stepMs } from './cards.js';

/** One request: what it asks for, and what became of it, in milliseconds of the simulated clock. */
export interface Request {
  readonly promptTokens: number;
  readonly tokens: number;
  arrivedAt: number;
  readonly tokenAt: number[];
  onEnd?: () => void;
}

const DEPTH = 2;
const PLENTY_OF_BLOCKS = 1 << 17;

/** An executor's steps behind the project's own scheduler. */
class Replica {
  readonly scheduler: Scheduler;
  isUp = true;
  private running: { readonly plan: StepPlan; readonly endsAt: number } | undefined;
  private queued: StepPlan[] = [];

  constructor(
    private readonly fleet: Fleet,
    private readonly card: Card,
    maxSequences: number,
  ) {
    this.scheduler = new Scheduler({ maxSequences, maxStepTokens: card.stepTokens, kvBlocks: PLENTY_OF_BLOCKS });
  }

  get load(): number {
    return this.scheduler.runningCount + this.scheduler.waitingCount;
  }

  plan(): void {
    while (this.isUp && this.scheduler.stepsInFlight < DEPTH) {
      const plan = this.scheduler.plan();
      if (plan === undefined) break;
      this.queued.push(plan);
    }
    if (this.running === undefined) this.begin();
  }

  private begin(): void {
    const plan = this.queued.shift();
    if (plan === undefined) return;
    let [decodeRows, promptRows] = [0, 0];
    for (const { count, sample } of plan.slices) {
      if (sample && count === 1) decodeRows += 1;
      else promptRows += count;
    }
    const endsAt = this.fleet.nowMs + stepMs(this.card, decodeRows, promptRows);
    const running = { plan, endsAt };
    this.running = running;
    this.fleet.at(endsAt, () => this.ends(running.plan));
  }

  private ends(plan: StepPlan): void {
    if (this.running?.plan !== plan) return;
    this.running = undefined;
    const sampled = plan.slices.reduce((sum, slice) => sum + outputsOf(slice), 0);
    for (const { sequence } of this.scheduler.complete(Array<number>(sampled).fill(7)).tokens) {
      const request = this.fleet.requestOf(sequence);
      request.tokenAt.push(this.fleet.nowMs);
      if (request.tokenAt.length < request.tokens) continue;
      this.scheduler.end(sequence);
      request.onEnd?.();
    }
    this.plan();
  }

  /** The executor is gone. @returns what it had */
  die(): readonly Sequence[] {
    this.isUp = false;
    this.running = undefined;
    this.queued = [];
    this.scheduler.suspend();
    this.scheduler.forgetContents();
    return this.scheduler.takeOut();
  }
}

/** Replicas of one gateway on a simulated clock: its scheduler and its rule of placement are the real ones. */
export class Fleet {
  nowMs = 0;
  readonly random: Random;
  readonly replicas: readonly Replica[];
  private readonly events: { readonly at: number; readonly run: () => void }[] = [];
  private readonly requests = new Map<Sequence, Request>();

  constructor(card: Card, replicas: number, maxSequences: number, seed = 1) {
    this.random = new Random(seed);
    this.replicas = Array.from({ length: replicas }, () => new Replica(this, card, maxSequences));
  }

  at(ms: number, run: () => void): void {
    let place = this.events.length;
    while (place > 0 && (this.events[place - 1] as { at: number }).at < ms) place -= 1;
    this.events.splice(place, 0, { at: ms, run });
  }

  /** Until nothing is left to happen, or until a time. */
  run(untilMs = Number.POSITIVE_INFINITY): void {
    for (;;) {
      const next = this.events.at(-1);
      if (next === undefined || next.at > untilMs) return;
      this.events.pop();
      this.nowMs = next.at;
      next.run();
    }
  }

  requestOf(sequence: Sequence): Request {
    return this.requests.get(sequence) as Request;
  }

  /** Sends a request now. Prompts have no beginnings in common. */
  submit(request: Request): void {
    request.arrivedAt = this.nowMs;
    const promptIds = Uint32Array.from({ length: request.promptTokens }, () => this.random.below(2 ** 31));
    const sequence = new Sequence({ promptIds, sampling: GREEDY, maxTokens: request.tokens, priority: 0 });
    this.requests.set(sequence, request);
    this.place(sequence);
  }

  private place(sequence: Sequence): void {
    const up = this.replicas.filter(({ isUp }) => isUp);
    const costOf = ({ scheduler, load }: Replica): number => placementCost(scheduler.waitingTokens, 0, load);
    const replica = up.reduce((best, one) => (costOf(one) < costOf(best) ? one : best));
    replica.scheduler.add(sequence);
    replica.plan();
  }

  /** A replica's executor dies; what it had goes to the others after `noticedMs`. @returns what was lost */
  kill(index: number, noticedMs: number): readonly Request[] {
    const lost = (this.replicas[index] as Replica).die();
    this.at(this.nowMs + noticedMs, () => {
      for (const sequence of lost) this.place(sequence);
    });
    return lost.map((sequence) => this.requestOf(sequence));
  }
}
