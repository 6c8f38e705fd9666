// One file because its tests share one vocabulary of bytes and special tokens, and how its masks are read.
import { afterAll, describe, expect, it, vi } from 'vitest';
import { toolGrammar } from '../../../src/gateway/chat/answer/tool-grammar.js';
import type { GivenConstraint } from '../../../src/gateway/constraints/grammar-of.js';
import type { ForcedToolCalls } from '../../../src/gateway/constraints/tool-calls-grammar.js';
import { grammarMemory } from '../../../src/gateway/matching/grammar-cache.js';
import { MaskTime } from '../../../src/gateway/matching/mask-time.js';
import { MatcherThread } from '../../../src/gateway/matching/matcher-thread.js';
import { MatcherThreads } from '../../../src/gateway/matching/matcher-threads.js';
import type { TokenConstraint, TokenMask } from '../../../src/gateway/matching/token-constraint.js';
import { createTokenizer } from '../../../src/gateway/tokenizer/tokenizer.js';
import { ToolChoiceMode } from '../../../src/shared/generated/rocmforge/v1/inference.js';
import { typed } from '../../support/gguf-builder.js';
import { randomModel } from '../../support/random-model.js';

const SPECIAL = ['[TOOL_CALLS]', '[ARGS]', '[INST]', '[TOOL_CALLS'];
const FIRST_BYTE = 3;
const FIRST_SPECIAL = FIRST_BYTE + 256;
const END = 2;
const [CALLS, ARGS] = [FIRST_SPECIAL, FIRST_SPECIAL + 1];

/** Special tokens behind single bytes, of which any text and any byte that is none can be spelled. */
const tokenizer = createTokenizer(
  randomModel({
    metadata: {
      'tokenizer.ggml.tokens': [
        ...['<unk>', '<s>', '</s>'],
        ...Array.from({ length: 256 }, (_, i) => `<0x${i.toString(16).toUpperCase().padStart(2, '0')}>`),
        ...SPECIAL,
      ],
      'tokenizer.ggml.token_type': typed.arrayOf(typed.i32, [2, 3, 3, ...Array(256).fill(6), ...SPECIAL.map(() => 3)]),
      'tokenizer.ggml.scores': typed.arrayOf(typed.f32, Array(FIRST_SPECIAL + SPECIAL.length).fill(0)),
    },
  }).read().metadata,
);
const matchers = new MatcherThreads({ tokenizer, threads: 1 });
afterAll(() => matchers.close());

const spelled = (text: string) => Array.from(Buffer.from(text), (byte) => FIRST_BYTE + byte);

function demanded(reasoning?: ForcedToolCalls['reasoning']): GivenConstraint {
  const calls = toolGrammar([{ name: 'find', parametersJson: '{"properties": {"x": {"type": "string"}}}' }], {
    format: 'mistral',
    template: '[ARGS]',
    toolChoice: { choice: { $case: 'mode', value: ToolChoiceMode.REQUIRED } },
    isParallel: true,
  }) as ForcedToolCalls['calls'];
  return { $case: 'toolCalls', value: { calls, openers: ['[TOOL_CALLS]'], isBare: false, reasoning } };
}

function maskOf(constraint: TokenConstraint): Promise<TokenMask> {
  if (constraint.mask !== undefined) return Promise.resolve(constraint.mask);
  return new Promise((resolve, reject) => {
    constraint.listen({ ready: () => resolve(constraint.mask as TokenMask), failed: reject });
  });
}

/** The bytes that a mask allows. */
const bytesOf = (bits: Uint8Array): number[] =>
  [...Array(256).keys()].filter((byte) => {
    const id = FIRST_BYTE + byte;
    return ((bits[id >> 3] as number) >> (id & 7)) % 2 === 1;
  });

/** What may come beside each token of an answer, and behind the last: special tokens, ends, and the bytes of no text. */
async function specialAlong(form: GivenConstraint, ids: readonly number[]): Promise<number[][]> {
  const constraint = await matchers.open(form, { principal: 'a' });
  const found: number[][] = [];
  for (const id of [...ids, undefined]) {
    const { bits } = await maskOf(constraint);
    const isAllowed = (of: number) => ((bits[of >> 3] as number) >> (of & 7)) % 2 === 1;
    const odd = [0, 1, END, FIRST_BYTE + 0xff, FIRST_BYTE + 0xc0, ...SPECIAL.map((_, i) => FIRST_SPECIAL + i)];
    found.push(odd.filter(isAllowed));
    if (id === undefined) break;
    expect(isAllowed(id), `token ${id} after ${found.length - 1}`).toBe(true);
    constraint.accept(id);
  }
  constraint.close();
  return found;
}

it.each([
  [[0xe0], 0xa0, 0xbf],
  [[0xed], 0x80, 0x9f],
  [[0xf0], 0x90, 0xbf],
  [[0xf4], 0x80, 0x8f],
  [[0xe1], 0x80, 0xbf],
  [[0xed, 0x9f], 0x80, 0xbf],
])(
  'after the bytes %j of a character those from %i to %i may come, where all characters may',
  async (bytes, from, to) => {
    const form: GivenConstraint = { $case: 'jsonSchema', value: '{"type": "string"}' };
    const constraint = await matchers.open(form, { principal: 'a' });
    for (const id of [...spelled('"é'), ...bytes.map((byte) => FIRST_BYTE + byte)]) {
      await maskOf(constraint);
      constraint.accept(id);
    }
    expect(bytesOf((await maskOf(constraint)).bits)).toEqual(Array.from({ length: to - from + 1 }, (_, i) => from + i));
    constraint.close();
  },
);

it('one client’s many grammars do not keep another’s waiting, and who has gone waits no more', async () => {
  const threads = new MatcherThreads({ tokenizer, threads: 2 });
  try {
    const slow = (i: number): GivenConstraint => {
      const field = (maxLength: number) => ({ type: 'string', minLength: i, maxLength });
      return {
        $case: 'jsonSchema',
        value: JSON.stringify({ properties: { a: field(60), b: field(61), c: field(62) } }),
      };
    };
    const ended: string[] = [];
    const many = Array.from({ length: 8 }, (_, i) =>
      threads.open(slow(i), { principal: 'many' }).then(() => ended.push('many')),
    );
    const gone = new AbortController();
    const leaving = threads.open(slow(9), { principal: 'many', signal: gone.signal });
    gone.abort();
    await expect(leaving).rejects.toBe(gone.signal.reason);
    const few = threads.open({ $case: 'regex', value: 'ab' }, { principal: 'few' }).then(() => ended.push('few'));
    await Promise.all([...many, few]);
    expect(ended).toHaveLength(9);
    expect(ended.indexOf('few')).toBeLessThan(3);
  } finally {
    await threads.close();
  }
});

it('many distinct grammars leave the heap of their thread within its bound', async () => {
  const threads = new MatcherThreads({ tokenizer, threads: 1 });
  try {
    const options = (i: number) => Array.from({ length: 800 }, (_, j) => `${i}-${j}-${'x'.repeat(20)}`);
    const open = async (i: number) => {
      const answer = await threads.open(
        { $case: 'choice', value: { options: options(i) } },
        { principal: `p${i % 3}` },
      );
      answer.close();
    };
    for (let i = 0; i < 60; i++) await open(i);
    const { heapBytes } = threads.counts;
    for (let i = 60; i < 120; i++) await open(i);
    // What the parsed grammars took would be growth without an end.
    expect(threads.counts.heapBytes).toBeLessThan(heapBytes + 4e6);
    expect(threads.counts).toMatchObject({ grammars: 32, evictions: 88, replacedThreads: 0 });
  } finally {
    await threads.close();
  }
});

it('an answer whose masks are slow ends, once its client has used up its time, and another’s goes on', async () => {
  const threads = new MatcherThreads({ tokenizer, threads: 1 });
  const charge = vi.spyOn(MaskTime.prototype, 'charge').mockImplementation((client) => client === 'mallory');
  try {
    const open = (principal: string) => threads.open({ $case: 'regex', value: '[a-z]*' }, { principal });
    const [slow, other] = [await open('mallory'), await open('alice')];
    for (const answer of [slow, other]) answer.accept(FIRST_BYTE + 97);
    await expect(maskOf(slow)).rejects.toMatchObject({ reason: 'CONSTRAINT_TOO_SLOW' });
    await maskOf(other);
    slow.close();
    other.close();
  } finally {
    charge.mockRestore();
    await threads.close();
  }
});

it('alternatives that begin and end alike are not mixed', async () => {
  const items = { enum: [7, 8] };
  const lists = { anyOf: [{ type: 'array', items, minItems: 1, maxItems: 2 }, { enum: [[]] }] };
  const answer = await matchers.open({ $case: 'jsonSchema', value: JSON.stringify(lists) }, { principal: 'a' });
  for (const id of spelled('[7')) {
    await maskOf(answer);
    answer.accept(id);
  }
  // No second number without a comma: `[7 7]` was accepted.
  expect(Buffer.from(bytesOf((await maskOf(answer)).bits)).toString()).toBe('\n ,]');
  answer.accept(FIRST_BYTE + 32);
  expect(Buffer.from(bytesOf((await maskOf(answer)).bits)).toString()).toBe(']');
  answer.close();
});

/** Masks take longer with each token: a text of n letters has exponentially many derivations. */
const AMBIGUOUS: GivenConstraint = {
  $case: 'grammar',
  value: 'root ::= p "QA"\np ::= [a-z ] p [a-z ] | [a-z ] p | p [a-z ] | [a-z ]',
};

it('an answer whose masks keep another client waiting goes on in a thread of its own, where it was', async () => {
  const threads = new MatcherThreads({ tokenizer, threads: 1, maskLimitMs: 600_000 });
  const charge = vi.spyOn(MaskTime.prototype, 'charge').mockReturnValue(false);
  try {
    const hostile = await threads.open(AMBIGUOUS, { principal: 'mallory' });
    const victim = await threads.open({ $case: 'regex', value: '[a-z ]{0,400}' }, { principal: 'alice' });
    let written = 0;
    for (; threads.counts.movedAnswers === 0; written++) {
      for (let i = 0; i < 50; i++) hostile.accept(FIRST_BYTE + 97);
      await maskOf(hostile);
    }
    // The mask that it had is the same as the one it gets where it goes on.
    const { bits } = await maskOf(hostile);
    hostile.accept(FIRST_BYTE + 97);
    expect((await maskOf(hostile)).bits).toEqual(bits);
    for (const id of spelled('QA')) {
      hostile.accept(id);
      await maskOf(hostile);
    }
    expect(hostile.mask?.onlyEnds).toBe(true);
    expect(written).toBeGreaterThan(1);
    victim.accept(FIRST_BYTE + 97);
    await maskOf(victim);
    expect(threads.counts.movedAnswers).toBe(1);
    hostile.close();
    victim.close();
  } finally {
    charge.mockRestore();
    await threads.close();
  }
});

it('a mask that takes too long ends its answer and its thread, and another’s goes on where it was', async () => {
  const threads = new MatcherThreads({ tokenizer, threads: 1, maskLimitMs: 300 });
  const charge = vi.spyOn(MaskTime.prototype, 'charge').mockReturnValue(false);
  try {
    const hostile = await threads.open(AMBIGUOUS, { principal: 'alice' });
    const victim = await threads.open({ $case: 'regex', value: 'abc' }, { principal: 'alice' });
    victim.accept(FIRST_BYTE + 97);
    await maskOf(victim);
    // Many tokens at once: together they take longer than one mask may.
    for (let i = 0; i < 4000; i++) hostile.accept(FIRST_BYTE + 97);
    // The thread is told of them before it is told to open another.
    await new Promise((resolve) => setTimeout(resolve, 50));
    const opening = threads.open({ $case: 'regex', value: 'xyz' }, { principal: 'bob' });
    opening.catch(() => undefined);
    await expect(maskOf(hostile)).rejects.toMatchObject({
      reason: 'CONSTRAINT_TOO_SLOW',
      metadata: { field: 'constraint' },
    });
    victim.accept(FIRST_BYTE + 98);
    const { bits } = await maskOf(victim);
    expect(bytesOf(bits)).toEqual([99]);
    expect(bytesOf((await maskOf(await opening)).bits)).toEqual([120]);
    (await opening).close();
    hostile.close();
    victim.close();
  } finally {
    charge.mockRestore();
    await threads.close();
  }
});

it('an answer that takes too much memory ends, and another’s goes on where it was', async () => {
  const threads = new MatcherThreads({ tokenizer, threads: 1, maskLimitMs: 600_000 });
  const charge = vi.spyOn(MaskTime.prototype, 'charge').mockReturnValue(false);
  try {
    const hostile = await threads.open(AMBIGUOUS, { principal: 'alice' });
    const victim = await threads.open({ $case: 'regex', value: 'abc' }, { principal: 'alice' });
    const { heapBytes } = threads.counts;
    victim.accept(FIRST_BYTE + 97);
    await maskOf(victim);
    let most = heapBytes;
    const goOn = () => {
      most = Math.max(most, threads.counts.heapBytes);
      for (let i = 0; i < 50; i++) hostile.accept(FIRST_BYTE + 97);
    };
    const ended = new Promise((_resolve, failed) => hostile.listen({ ready: goOn, failed }));
    goOn();
    await expect(ended).rejects.toMatchObject({
      reason: 'CONSTRAINT_TOO_SLOW',
      message: expect.stringMatching(/takes \d+ MiB/),
    });
    expect(most - heapBytes).toBeLessThan(2 * grammarMemory(tokenizer.vocabularySize).heapGrowthBytes);
    victim.accept(FIRST_BYTE + 98);
    expect(bytesOf((await maskOf(victim)).bits)).toEqual([99]);
    expect(threads.counts.heapBytes).toBeLessThanOrEqual(heapBytes);
    victim.close();
  } finally {
    charge.mockRestore();
    await threads.close();
  }
});

it('answers whose thread ends go on in another where they were', async () => {
  const threads = new MatcherThreads({ tokenizer, threads: 1 });
  const opens = vi.spyOn(MatcherThread.prototype, 'open');
  try {
    const said = ['', 'a', 'ab', 'abc'];
    const answers = await Promise.all(
      said.map(() => threads.open({ $case: 'regex', value: 'abcd' }, { principal: 'a' })),
    );
    for (const [i, answer] of answers.entries()) {
      for (const id of spelled(said[i] as string)) {
        await maskOf(answer);
        answer.accept(id);
      }
      await maskOf(answer);
    }
    const told = answers.map((answer) => {
      const ready = vi.fn();
      answer.listen({ ready, failed: () => undefined });
      return ready;
    });
    await (opens.mock.contexts[0] as MatcherThread).end();
    await expect.poll(() => opens.mock.results.length).toBe(2 * said.length);
    await Promise.all(opens.mock.results.map(({ value }) => value as Promise<void>));
    // They have their masks; a step that waits for the mask behind the next token would take it for that.
    for (const ready of told) expect(ready).not.toHaveBeenCalled();
    const next = await Promise.all(
      answers.map(async (answer, i) => {
        answer.accept(FIRST_BYTE + 'abcd'.charCodeAt(i));
        const { bits, onlyEnds } = await maskOf(answer);
        return onlyEnds ? [] : bytesOf(bits);
      }),
    );
    expect(next.map((bytes) => Buffer.from(bytes).toString())).toEqual(['b', 'c', 'd', '']);
  } finally {
    opens.mockRestore();
    await threads.close();
  }
});

describe('special tokens of a grammar', () => {
  const name = spelled('find');
  const args = spelled('{"x": "[TOOL_CALLS]é"}');

  it('may come where its markup is, and nowhere in names, arguments and their strings', async () => {
    const along = await specialAlong(demanded(), [CALLS, ...name, ARGS, ...args, CALLS]);
    const expected = along.map((): number[] => []);
    expected[0] = [CALLS];
    expected[1 + name.length] = [ARGS];
    expected[2 + name.length + args.length] = [END, CALLS];
    expect(along).toEqual(expected);
  });

  it('cannot be spelled', async () => {
    const constraint = await matchers.open(demanded(), { principal: 'a' });
    const { bits } = await maskOf(constraint);
    const allowed = [...bits].flatMap((byte, i) =>
      [...Array(8).keys()].filter((bit) => (byte >> bit) & 1).map((bit) => 8 * i + bit),
    );
    expect(allowed).toEqual([CALLS]);
    constraint.close();
  });

  it('end what the model thinks, in which none may come', async () => {
    const reasoning = { begin: '[INST]', end: '[ARGS]', isBegun: true };
    const thought = spelled('Hm é.');
    const along = await specialAlong(demanded(reasoning), [...thought, ARGS, CALLS]);
    expect(along.slice(1, 1 + thought.length).every((ids) => ids.join() === `${ARGS}` || ids.length === 0)).toBe(true);
    expect(along[thought.length]).toEqual([ARGS]);
    expect(along[thought.length + 1]).toEqual([CALLS]);
  });

  it.each<[string, GivenConstraint]>([
    ['a regular expression', { $case: 'regex', value: '[^a]*' }],
    ['a grammar', { $case: 'grammar', value: 'root ::= [^a]* | "[TOOL_CALLS]"' }],
    ['a schema', { $case: 'jsonSchema', value: '{"type": "string"}' }],
  ])('are in no text of %s', async (_what, form) => {
    const along = await specialAlong(form, spelled('"'));
    for (const ids of along) expect(ids.filter((id) => id !== END)).toEqual([]);
  });
});
