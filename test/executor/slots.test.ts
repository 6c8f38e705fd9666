import { describe, expect, it } from 'vitest';
import { SlotTable } from '../../src/executor/cache/slots.js';
import { emptySlots, SlotWord, slotArena } from '../../src/executor/model/slot-layout.js';
import { SlotOpen, SlotSampling } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';

const VOCABULARY = 100;
/** A context that is no whole number of blocks: the last block reaches past it. */
const LIMITS = {
  maxContext: 40,
  maxSequences: 3,
  maxStepTokens: 64,
  kvBlocks: 20,
  kvCacheType: 'f16',
  attention: 'fused',
} as const;

const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
const ids = (count: number) => words(...Array.from({ length: count }, (_, i) => i % VOCABULARY));
const nothing = () => undefined;

const open = (parts: Partial<SlotOpen> = {}, sampling: Partial<SlotSampling> = {}): SlotOpen => ({
  ...SlotOpen.create(),
  slot: 0,
  tokenIds: ids(4),
  promptTokens: 4,
  blockIds: words(1, 2, 3),
  sampling: { ...SlotSampling.create(), topP: 1, ...sampling },
  ...parts,
});
const slice = (position: number, count: number, rest = {}) => ({
  slot: 0,
  position,
  count,
  sample: false,
  promptLogprobs: false,
  ...rest,
});

function table(...opens: SlotOpen[]): SlotTable {
  const slots = new SlotTable(LIMITS, VOCABULARY);
  for (const message of opens) slots.open(message, nothing);
  return slots;
}
const broken = (message: string | RegExp) =>
  expect.objectContaining({ reason: 'EXECUTOR_PROTOCOL', message: expect.stringMatching(message) });

describe('a slot is opened only with', () => {
  it('what it can compute with', () => {
    expect(() => table(open())).not.toThrow();
    expect(() =>
      table(open({}, { temperature: 3.4e38, topK: 2 ** 32 - 1, minP: 1, repetitionPenalty: 0 })),
    ).not.toThrow();
  });

  it.each<[string, Partial<SlotOpen>, string]>([
    ['a slot that there is', { slot: 3 }, 'slot 3 of 3'],
    ['whole words', { tokenIds: Buffer.of(1, 2, 3) }, 'no whole number of words'],
    ['at least one token', { tokenIds: words(), promptTokens: 0 }, 'holds 0 tokens'],
    ['at most as many tokens as the context', { tokenIds: ids(41) }, 'holds 41 tokens'],
    ['a prompt that is among the tokens', { promptTokens: 5 }, 'a prompt of 5 among 4 tokens'],
    ['ids of tokens', { tokenIds: words(1, VOCABULARY), promptTokens: 1 }, `token id ${VOCABULARY}`],
    ['blocks that there are', { blockIds: words(20) }, 'block 20'],
    ['blocks but the null block', { blockIds: words(1, 0) }, 'block 0'],
    ['each block once', { blockIds: words(4, 5, 4) }, 'block 4 twice'],
    ['no more blocks than the context takes', { blockIds: words(1, 2, 3, 4) }, 'more blocks than the context holds'],
    ['sampling parameters', { sampling: undefined }, 'no sampling parameters'],
  ])('%s', (_, parts, message) => {
    expect(() => table(open(parts))).toThrow(broken(message));
  });

  it.each<[string, Partial<SlotSampling>]>([
    ['temperature', { temperature: Number.NaN }],
    ['temperature', { temperature: Number.POSITIVE_INFINITY }],
    ['temperature', { temperature: -1 }],
    ['topP', { topP: Number.NaN }],
    ['topP', { topP: 1.5 }],
    ['topP', { topP: -0.1 }],
    ['minP', { minP: Number.NaN }],
    ['minP', { minP: 2 }],
    ['repetitionPenalty', { repetitionPenalty: Number.NaN }],
    ['repetitionPenalty', { repetitionPenalty: -1 }],
    ['frequencyPenalty', { frequencyPenalty: Number.NEGATIVE_INFINITY }],
    ['presencePenalty', { presencePenalty: Number.NaN }],
    ['topLogprobs', { topLogprobs: 21 }],
    ['topPromptLogprobs', { topPromptLogprobs: 2 ** 32 - 1 }],
    ['bias values', { biasIds: [1, 2], biasValues: [1] }],
    ['bias values', { biasIds: [], biasValues: [1] }],
    ['bias NaN', { biasIds: [1], biasValues: [Number.NaN] }],
    ['bias Infinity', { biasIds: [1], biasValues: [Number.POSITIVE_INFINITY] }],
    ['a bias for token id 100', { biasIds: [VOCABULARY], biasValues: [1] }],
    ['a bias for token id 100', { suppressedIds: [VOCABULARY], suppressBefore: 50 }],
  ])('numbers: not %s of %j', (name, sampling) => {
    expect(() => table(open({}, sampling))).toThrow(broken(name));
  });
});

describe('positions', () => {
  it('end where the context does, though the last block goes on', () => {
    const slots = table(open({ tokenIds: ids(40), promptTokens: 40 }));
    const rows: number[] = [];
    slots.rows(slice(0, 40), (_, position) => rows.push(position));
    expect(rows).toHaveLength(40);
    slots.beforeSample(0, 40, nothing);
    expect(() => slots.rows(slice(40, 1), nothing)).toThrow(broken('positions 40 to 41'));
    expect(() => slots.rows(slice(0, 48), nothing)).toThrow(broken('positions 0 to 48'));
    expect(() => slots.rows(slice(2 ** 32 - 1, 2 ** 32 - 1), nothing)).toThrow(broken('positions'));
  });

  it('lie in blocks, and are at least one', () => {
    const slots = table(open({ blockIds: words(1) }));
    expect(() => slots.rows(slice(0, 0), nothing)).toThrow(broken('positions 0 to 0'));
    expect(() => slots.rows(slice(16, 1), nothing)).toThrow(broken('positions 16 to 17'));
    expect(() => slots.rows({ ...slice(0, 1), slot: 1 }, nothing)).toThrow(broken('slot 1 is not open'));
  });

  it('past the known tokens are those of the token that was sampled last, and no others', () => {
    const slots = table(open());
    // Nothing was sampled in this slot yet: its last token is another sequence's.
    expect(() => slots.rows(slice(4, 1), nothing)).toThrow(broken('sampled that of none'));
    slots.rows(slice(0, 4), nothing);
    slots.beforeSample(0, 4, nothing);
    expect(() => slots.rows(slice(5, 1), nothing)).toThrow(broken('knows 4 tokens and sampled that of 4'));
    expect(() => slots.rows(slice(4, 2), nothing)).toThrow(broken('knows 4 tokens'));
    const rows: [number, number][] = [];
    slots.rows(slice(4, 1), (token, position) => rows.push([token, position]));
    expect(rows).toEqual([[-1, 4]]);
    slots.close(0);
    slots.open(open(), nothing);
    expect(() => slots.rows(slice(4, 1), nothing)).toThrow(broken('sampled that of none'));
  });
});

describe('before any slot is open', () => {
  it('the null slot is neutral and keeps no history', () => {
    const arena = slotArena(LIMITS);
    const slots = emptySlots(arena);
    const floats = new Float32Array(slots.buffer);
    const base = LIMITS.maxSequences * arena.slotWords;
    const { REPETITION, FREQUENCY, PRESENCE, TEMPERATURE, TOP_P, MIN_P, TOP_K, LOGPROBS } = SlotWord;
    expect([REPETITION, FREQUENCY, PRESENCE, TEMPERATURE, TOP_P, MIN_P].map((word) => floats[base + word])).toEqual([
      1, 0, 0, 0, 1, 0,
    ]);
    expect([TOP_K, LOGPROBS].map((word) => slots[base + word])).toEqual([0, 0]);
    expect(slots[arena.historyOffset + LIMITS.maxSequences * (1 + 2 * arena.historyEntries)]).toBe(-1);
    // Its table leads to the null block.
    expect(slots.subarray(base + SlotWord.BLOCK_TABLE, base + arena.slotWords).every((word) => word === 0)).toBe(true);
    expect(slots.filter((word) => word !== 0)).toHaveLength(3);
  });
});
