import { SeededRandom } from './random.js';

/** Requests of clients. Ranges are uniform, both ends included. */
export interface WorkloadOptions {
  readonly seed: number;
  readonly promptTokens: readonly [least: number, most: number];
  readonly outputTokens: readonly [least: number, most: number];
  /** Tokens at the beginning of each prompt that it shares with others; part of its length. */
  readonly sharedPrefix: number;
  /** Number of different beginnings. */
  readonly prefixes: number;
  /** Ids below this one are left out: special tokens and bytes lie there. */
  readonly firstToken: number;
  readonly vocabularySize: number;
}

/** One request of a workload. */
export interface PlannedRequest {
  readonly prompt: readonly number[];
  readonly outputTokens: number;
}

/** Requests without end, the same for the same seed. Pure. */
export class Workload {
  private readonly random: SeededRandom;
  private readonly beginnings: readonly (readonly number[])[];

  constructor(private readonly options: WorkloadOptions) {
    this.random = new SeededRandom(options.seed);
    this.beginnings = Array.from({ length: options.prefixes }, () => this.tokens(options.sharedPrefix));
  }

  next(): PlannedRequest {
    const { promptTokens, outputTokens } = this.options;
    const length = this.random.integer(promptTokens);
    const beginning = this.beginnings[this.random.integer([0, this.beginnings.length - 1])] ?? [];
    const shared = beginning.slice(0, Math.max(0, length - 1));
    return {
      prompt: [...shared, ...this.tokens(length - shared.length)],
      outputTokens: this.random.integer(outputTokens),
    };
  }

  private tokens(count: number): number[] {
    const { firstToken, vocabularySize } = this.options;
    return Array.from({ length: count }, () => this.random.integer([firstToken, vocabularySize - 1]));
  }
}

/** When requests of an open-loop load arrive: a Poisson process, milliseconds from the start, until `durationMs`. */
export function poissonArrivals(seed: number, requestsPerSecond: number, durationMs: number): number[] {
  const random = new SeededRandom(seed);
  const arrivals: number[] = [];
  for (let at = 0; ; ) {
    at += random.exponential(requestsPerSecond / 1000);
    if (at >= durationMs) return arrivals;
    arrivals.push(at);
  }
}
