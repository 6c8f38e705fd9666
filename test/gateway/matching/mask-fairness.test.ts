import { expect, it } from 'vitest';
import { type GivenConstraint, grammarOf } from '../../../src/gateway/constraints/grammar-of.js';
import { ConstrainedAnswer } from '../../../src/gateway/matching/constrained-answer.js';
import {
  type MaskGrammar,
  type MaskJob,
  type MaskResult,
  maskAddon,
} from '../../../src/gateway/matching/mask-addon.js';
import { MaskQueue } from '../../../src/gateway/matching/mask-queue.js';
import { MaskTime } from '../../../src/gateway/matching/mask-time.js';
import { SlowMasks } from '../../../src/gateway/matching/slow-masks.js';
import { grammarBuffer } from '../../../src/lib/grammar/grammar-buffer.js';
import { Random } from '../../support/random.js';

/**
 * Clients with ambiguous grammars, and one with an ordinary one. Masks are computed by the engine; time is virtual: a job takes the
 * processor time that the engine reports, and a step a fixed time. So it is the queue that is measured, whatever else the machine does.
 */
const HOSTILE: Readonly<Record<string, string>> = {
  mallory: 'root ::= p "QA"\np ::= [a-z ] p [a-z ] | [a-z ] p | p [a-z ] | [a-z ]',
  trudy: 'root ::= s "QB"\ns ::= s s | [a-z ]',
};
/** Completions of a hostile client at once. */
const COMPLETIONS = 8;
const STEP_MS = 10;
const STEPS = 120;
const LEAST_RATE = 0.95;
/** Words of letters besides the 256 bytes: a mask of an ambiguous grammar looks at each. */
const WORDS = 2000;

const { GrammarMatcher, MaskGrammar: GrammarClass, MaskVocabulary } = maskAddon();

function words(): Buffer[] {
  const random = new Random(2);
  const letters = () => String.fromCharCode(97 + random.below(26));
  const found = new Set<string>();
  while (found.size < WORDS) found.add(Array.from({ length: 2 + random.below(6) }, letters).join(''));
  return [...Array.from({ length: 256 }, (_, byte) => Buffer.of(byte)), ...[...found].map((word) => Buffer.from(word))];
}
const TOKENS = words();
const offsets = new Uint32Array(TOKENS.length + 2);
for (let id = 0; id <= TOKENS.length; id++) offsets[id + 1] = offsets[id]! + (TOKENS[id]?.length ?? 0);
const engine = new MaskVocabulary(new Uint8Array(Buffer.concat(TOKENS)), offsets, Uint32Array.of(TOKENS.length));

const prepared = (constraint: GivenConstraint): Promise<MaskGrammar> =>
  engine.prepare(grammarBuffer(grammarOf(constraint)), GrammarClass);

/** Virtual time, which advances when the engine has nothing to do. */
class World {
  nowMs = 0;
  private events: { readonly at: number; readonly happen: () => void }[] = [];
  private running = 0;
  /** Milliseconds of all jobs. */
  jobsMs = 0;

  schedule(afterMs: number, happen: () => void): void {
    this.events.push({ at: this.nowMs + afterMs, happen });
  }

  /** As the engine, but its jobs take virtual time. */
  readonly vocabulary = {
    allocatedBytes: 0,
    prepare: engine.prepare.bind(engine),
    run: async (jobs: readonly MaskJob[]): Promise<readonly MaskResult[]> => {
      this.running += 1;
      const results = await engine.run(jobs);
      this.running -= 1;
      const ms = results.reduce((sum, result) => sum + result.ms, 0);
      this.jobsMs += ms;
      return new Promise((resolve) => this.schedule(ms, () => resolve(results)));
    },
  };

  async runUntil(endMs: number): Promise<void> {
    for (;;) {
      do await new Promise((resolve) => setImmediate(resolve));
      while (this.running > 0);
      this.events.sort((a, b) => a.at - b.at);
      const next = this.events.shift();
      if (next === undefined || next.at > endMs) return;
      this.nowMs = next.at;
      next.happen();
    }
  }
}

/** A completion that advances by one token in each step whose mask is there in time. */
class Stream {
  tokens = 0;
  error: Error | undefined;
  private readonly answer: ConstrainedAnswer;

  constructor(constraint: GivenConstraint, client: string, grammar: MaskGrammar, queue: MaskQueue) {
    this.answer = new ConstrainedAnswer(constraint, client);
    this.answer.listen({
      ready: () => undefined,
      failed: (error) => {
        this.error = error;
      },
    });
    this.answer.start(new GrammarMatcher(grammar), queue);
  }

  step(token: number): void {
    if (this.answer.mask === undefined) return;
    this.answer.accept(token);
    this.tokens += 1;
  }

  close(): void {
    this.answer.close();
  }
}

/** @returns tokens of the victim in each step, and the share of the time in which a thread was busy */
async function rateOfVictim(
  hostile: Readonly<Record<string, string>>,
  isDistinct = false,
): Promise<{ rate: number; busy: number }> {
  const world = new World();
  const nowMs = () => world.nowMs;
  const queue = new MaskQueue(world.vocabulary, new MaskTime(nowMs), new SlowMasks(nowMs), 2);
  const random = new Random(3);
  const letter = () => 97 + random.below(26);
  const regex: GivenConstraint = { $case: 'regex', value: '[a-z ]*' };
  const victim = new Stream(regex, 'alice', await prepared(regex), queue);
  const attacks = await Promise.all(
    Object.entries(hostile).map(async ([client, value]) => {
      const open = async (i: number) => {
        const constraint: GivenConstraint = { $case: 'grammar', value: isDistinct ? `${value}\nx ::= "${i}"` : value };
        const grammar = await prepared(constraint);
        return () => new Stream(constraint, client, grammar, queue);
      };
      const opens = await Promise.all(Array.from({ length: COMPLETIONS }, (_, i) => open(i)));
      return { opens, streams: opens.map((start) => start()) };
    }),
  );
  const step = (): void => {
    victim.step(letter());
    for (const { streams, opens } of attacks) {
      for (const [i, stream] of streams.entries()) {
        stream.step(256 + random.below(WORDS));
        if (stream.error === undefined) continue;
        stream.close();
        streams[i] = opens[i]!();
      }
    }
    world.schedule(STEP_MS, step);
  };
  world.schedule(STEP_MS, step);
  await world.runUntil(STEPS * STEP_MS);
  for (const each of [victim, ...attacks.flatMap(({ streams }) => streams)]) each.close();
  return { rate: victim.tokens / STEPS, busy: world.jobsMs / (STEPS * STEP_MS) };
}

it.each([
  { isDistinct: false, grammars: 'one grammar' },
  { isDistinct: true, grammars: 'a grammar for each completion' },
])('ambiguous grammars of two clients, $grammars, leave another 95 % of its rate', async ({ isDistinct }) => {
  const alone = await rateOfVictim({});
  const beside = await rateOfVictim(HOSTILE, isDistinct);
  console.log(
    `tokens a step: alone ${alone.rate}, beside them ${beside.rate}; threads busy by ${alone.busy.toFixed(2)}, ${beside.busy.toFixed(2)}`,
  );
  expect(alone.rate).toBeGreaterThan(0.98);
  expect(beside.rate).toBeGreaterThanOrEqual(LEAST_RATE * alone.rate);
  // Otherwise it is no attack.
  expect(beside.busy).toBeGreaterThan(0.5);
});
