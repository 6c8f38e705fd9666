// One file because its tests share one vocabulary of bytes and special tokens, and how its masks are read.
import { afterAll, describe, expect, it, vi } from 'vitest';
import { toolGrammar } from '../../../src/gateway/chat/answer/tool-grammar.js';
import type { GivenConstraint } from '../../../src/gateway/constraints/grammar-of.js';
import type { ForcedToolCalls } from '../../../src/gateway/constraints/tool-calls-grammar.js';
import { GrammarThreads } from '../../../src/gateway/matching/grammar-threads.js';
import { MaskTime } from '../../../src/gateway/matching/mask-time.js';
import { Matchers } from '../../../src/gateway/matching/matchers.js';
import type { TokenConstraint, TokenMask } from '../../../src/gateway/matching/token-constraint.js';
import { createTokenizer } from '../../../src/lib/tokenizer/tokenizer.js';
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
const matchers = new Matchers({ tokenizer, threads: 1 });
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

/** Tokens that may come next to each token of an answer, and behind the last: special tokens, ends, and the bytes of no text. */
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
  const threads = new Matchers({ tokenizer, threads: 2 });
  try {
    const slow = (i: number): GivenConstraint => {
      const field = (maxLength: number) => ({ type: 'string', minLength: i, maxLength });
      return {
        $case: 'jsonSchema',
        value: JSON.stringify({ properties: { a: field(60), b: field(61), c: field(62) } }),
      };
    };
    // The time that threads take to start does not count.
    const first = (principal: string) => threads.open({ $case: 'regex', value: principal }, { principal });
    await Promise.all([first('many'), first('few')]);
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

it('many distinct grammars leave the memory of all within its bounds', async () => {
  const many = new Matchers({ tokenizer });
  try {
    const options = (i: number) => Array.from({ length: 800 }, (_, j) => `${i}-${j}-${'x'.repeat(20)}`);
    const open = async (i: number) => {
      const value = { options: options(i) };
      const answer = await many.open({ $case: 'choice', value }, { principal: `p${i % 3}` });
      answer.close();
    };
    for (let i = 0; i < 1000; i++) await open(i);
    expect(many.counts.engineBytes).toBeLessThan(64 * 2 ** 20);
    expect(many.counts.grammarBytes).toBeLessThan(17 * 2 ** 20);
    expect(many.counts.grammars + many.counts.evictions).toBe(1000);
    expect(many.counts.grammars).toBeLessThanOrEqual(256);
  } finally {
    await many.close();
  }
});

it('an answer whose masks are slow ends, once its client has used up its time, and another’s goes on', async () => {
  const open = (principal: string) => matchers.open({ $case: 'regex', value: '[a-z]*' }, { principal });
  const [slow, other] = [await open('mallory'), await open('alice')];
  const charge = vi.spyOn(MaskTime.prototype, 'charge').mockImplementation((client) => client === 'mallory');
  try {
    for (const answer of [slow, other]) answer.accept(FIRST_BYTE + 97);
    await expect(maskOf(slow)).rejects.toMatchObject({ reason: 'CONSTRAINT_TOO_SLOW' });
    await maskOf(other);
    slow.close();
    other.close();
  } finally {
    charge.mockRestore();
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

it('alternatives of texts that end alike are not mixed', async () => {
  const answer = await matchers.open({ $case: 'choice', value: { options: ['abcbd', 'abd'] } }, { principal: 'a' });
  for (const id of spelled('abcb')) {
    await maskOf(answer);
    answer.accept(id);
  }
  // `abcbcbd` was accepted.
  expect(Buffer.from(bytesOf((await maskOf(answer)).bits)).toString()).toBe('d');
  answer.close();
});

/** Its masks take longer with each token: the places where a part may have begun are as many as tokens. */
const AMBIGUOUS: GivenConstraint = { $case: 'grammar', value: 'root ::= s "QA"\ns ::= s s | [a-z ]' };

it('an answer whose mask takes more than its budget ends, and another’s goes on where it was', async () => {
  const charge = vi.spyOn(MaskTime.prototype, 'charge').mockReturnValue(false);
  try {
    const hostile = await matchers.open(AMBIGUOUS, { principal: 'alice' });
    const victim = await matchers.open({ $case: 'regex', value: 'abc' }, { principal: 'alice' });
    victim.accept(FIRST_BYTE + 97);
    await maskOf(victim);
    const ended = new Promise((_resolve, failed) => {
      const ready = () => {
        for (let i = 0; i < 100; i++) hostile.accept(FIRST_BYTE + 97);
      };
      hostile.listen({ ready, failed });
      ready();
    });
    await expect(ended).rejects.toMatchObject({
      reason: 'CONSTRAINT_UNSUPPORTED',
      message: expect.stringMatching(/takes too (many steps for one token|much memory)/),
      metadata: { field: 'constraint' },
    });
    victim.accept(FIRST_BYTE + 98);
    expect(bytesOf((await maskOf(victim)).bits)).toEqual([99]);
    hostile.close();
    victim.close();
  } finally {
    charge.mockRestore();
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

describe('prompts of one call', () => {
  const regex: GivenConstraint = { $case: 'regex', value: 'one call[a-z]{2}' };
  const refused: GivenConstraint = { $case: 'regex', value: 'one call(' };

  it('have their constraint translated once', async () => {
    const make = vi.spyOn(GrammarThreads.prototype, 'make');
    const caller = { principal: 'a', signal: new AbortController().signal };
    const begun = await Promise.all([1, 2, 1].map((n) => matchers.begin(regex, n, caller)));
    await Promise.all(begun.map(({ opened }) => opened));
    const masks = begun.flatMap(({ constraints }) => constraints).map(({ mask }) => bytesOf((mask as TokenMask).bits));
    expect(masks).toEqual(Array(4).fill([...Buffer.from('o')]));
    expect(make).toHaveBeenCalledTimes(1);
    make.mockRestore();
    for (const { constraints } of begun) for (const each of constraints) each.close();
  });

  it('are refused together, and those of other calls by themselves', async () => {
    const make = vi.spyOn(GrammarThreads.prototype, 'make');
    const callers = Array.from({ length: 2 }, () => ({ principal: 'a', signal: new AbortController().signal }));
    const opened = [...callers, ...callers].map((caller) =>
      matchers.begin(refused, 1, caller).then(({ opened: masks }) => masks),
    );
    const reasons = (await Promise.allSettled(opened)).map((each) => each.status === 'rejected' && each.reason.reason);
    expect(reasons).toEqual(Array(4).fill('CONSTRAINT_INVALID'));
    expect(make).toHaveBeenCalledTimes(2);
    make.mockRestore();
  });
});
