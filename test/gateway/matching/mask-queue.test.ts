import { expect, it } from 'vitest';
import { ConstrainedAnswer } from '../../../src/gateway/matching/constrained-answer.js';
import type { GrammarMatcher, MaskJob, MaskResult, MaskVocabulary } from '../../../src/gateway/matching/mask-addon.js';
import { MaskQueue } from '../../../src/gateway/matching/mask-queue.js';
import { MASK_TIME, MaskTime } from '../../../src/gateway/matching/mask-time.js';
import { SLOW_MASKS, SlowMasks } from '../../../src/gateway/matching/slow-masks.js';

/** Virtual milliseconds of a step, and of an ordinary mask. */
const STEP_MS = 10;
const QUICK_MS = 0.1;
const STEPS = 300;
const LEAST_RATE = 0.95;
/** Time after which the engine begins no other job of a run. */
const RUN_MS = 2;
/** Threads that compute ordinary masks. */
const THREADS = 2;

/** A matcher whose every mask takes the same time. */
interface ScriptedMatcher extends GrammarMatcher {
  readonly ms: number;
}

/** Virtual time, and an engine whose masks take what their matchers say. */
class Script {
  nowMs = 0;
  private events: { readonly at: number; readonly happen: () => void }[] = [];

  readonly engine: MaskVocabulary = {
    allocatedBytes: 0,
    prepare: () => Promise.reject(new Error('grammars are prepared already')),
    run: (jobs: readonly MaskJob[]) => {
      let ms = 0;
      const results = jobs.map(({ matcher }): MaskResult => {
        if (ms > RUN_MS) return { outcome: 'waiting', ms: 0 };
        const own = (matcher as ScriptedMatcher).ms;
        ms += own;
        return { outcome: 'ready', ms: own, mask: {} as never, ahead: [] };
      });
      return new Promise((resolve) => this.schedule(ms, () => resolve(results)));
    },
  };

  schedule(afterMs: number, happen: () => void): void {
    this.events.push({ at: this.nowMs + afterMs, happen });
  }

  async runUntil(endMs: number): Promise<void> {
    for (;;) {
      await new Promise((resolve) => setImmediate(resolve));
      this.events.sort((a, b) => a.at - b.at);
      const next = this.events.shift();
      if (next === undefined || next.at > endMs) return;
      this.nowMs = next.at;
      next.happen();
    }
  }
}

/** A client whose completions all have one grammar. */
interface Client {
  readonly name: string;
  readonly completions: number;
  /** Milliseconds of each mask. */
  readonly ms: number;
}

/** @returns by client, its tokens in each step; a completion whose answer was ended gets no more of them */
async function rates(clients: readonly Client[]): Promise<Record<string, number>> {
  const script = new Script();
  const nowMs = () => script.nowMs;
  const queue = new MaskQueue(script.engine, new MaskTime(nowMs), new SlowMasks(nowMs), THREADS);
  const tokens: Record<string, number> = {};
  const answers = clients.flatMap(({ name, completions, ms }) =>
    Array.from({ length: completions }, () => {
      tokens[name] = 0;
      const answer = new ConstrainedAnswer({ $case: 'regex', value: name }, name);
      answer.listen({ ready: () => undefined, failed: () => answer.close() });
      const matcher: ScriptedMatcher = { ms, fork: () => matcher, close: () => undefined };
      answer.start(matcher, queue);
      return answer;
    }),
  );
  const step = (): void => {
    for (const answer of answers) {
      if (answer.isClosed || answer.mask === undefined) continue;
      answer.accept(1);
      tokens[answer.client] = (tokens[answer.client] ?? 0) + 1;
    }
    script.schedule(STEP_MS, step);
  };
  script.schedule(STEP_MS, step);
  await script.runUntil(STEPS * STEP_MS);
  return Object.fromEntries(Object.entries(tokens).map(([name, count]) => [name, count / STEPS]));
}

const VICTIM: Client = { name: 'alice', completions: 1, ms: QUICK_MS };

it.each([
  // The longest that no budget counts: these answers go on for as long as they like.
  MASK_TIME.freeMs,
  // Ended by their clients' budgets, after many masks of each.
  3 * MASK_TIME.freeMs,
])('two clients with masks of %i ms leave a third its token in each step', async (ms) => {
  expect(ms).toBeGreaterThan(SLOW_MASKS.ms);
  const hostile = ['mallory', 'trudy'].map((name): Client => ({ name, completions: 8, ms }));
  const alone = await rates([VICTIM]);
  const beside = await rates([VICTIM, ...hostile]);
  expect(alone.alice).toBe(1);
  expect(beside.alice).toBeGreaterThanOrEqual(LEAST_RATE);
  // Otherwise it is no attack.
  for (const { name } of hostile) expect(beside[name]).toBeGreaterThan(0);
});
