import { describe, expect, it } from 'vitest';
import { emptySlots, SlotWord, slotArena } from '../../src/executor/model/slot-layout.js';
import { SlotTable } from '../../src/executor/steps/slots.js';
import { SlotOpen } from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING, type SamplingValues } from '../../src/shared/sampling-schema.js';

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

const open = (parts: Partial<SlotOpen> = {}, sampling: Partial<SamplingValues> = {}): SlotOpen => ({
  ...SlotOpen.create(),
  slot: 0,
  tokenIds: ids(4),
  promptTokens: 4,
  blockIds: words(1, 2, 3),
  sampling: encodeSampling({ ...NEUTRAL_SAMPLING, ...sampling }),
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
      table(open({}, { temperature: 3.4e38, topK: 2 ** 31 - 1, minP: 1, repetitionPenalty: 2 ** -126 })),
    ).not.toThrow();
  });

  it.each<[string, Partial<SlotOpen>, string]>([
    ['a slot that there is', { slot: 3 }, 'slot 3 of 3'],
    ['whole words', { tokenIds: Buffer.of(1, 2, 3) }, 'not a whole number of words'],
    ['at least one token', { tokenIds: words(), promptTokens: 0 }, 'holds 0 tokens'],
    ['at most as many tokens as the context', { tokenIds: ids(41) }, 'holds 41 tokens'],
    ['a prompt that is among the tokens', { promptTokens: 5 }, 'a prompt of 5 among 4 tokens'],
    ['ids of tokens', { tokenIds: words(1, VOCABULARY), promptTokens: 1 }, `token id ${VOCABULARY}`],
    ['blocks that there are', { blockIds: words(20) }, 'block 20'],
    ['blocks but the null block', { blockIds: words(1, 0) }, 'block 0'],
    ['each block once', { blockIds: words(4, 5, 4) }, 'block 4 twice'],
    ['no more blocks than the context takes', { blockIds: words(1, 2, 3, 4) }, 'more blocks than the context holds'],
    ['sampling parameters', { sampling: Buffer.of() }, 'sampling parameters of 0 bytes'],
    ['these sampling parameters and no others', { sampling: Buffer.alloc(200) }, 'sampling parameters of 200 bytes'],
    ['a value a bias', { biasIds: [1, 2], biasValues: [1] }, 'bias values'],
    ['a bias a value', { biasIds: [], biasValues: [1] }, 'bias values'],
    ['biases that are numbers', { biasIds: [1], biasValues: [Number.NaN] }, 'bias NaN'],
    ['finite biases', { biasIds: [1], biasValues: [Number.POSITIVE_INFINITY] }, 'bias Infinity'],
    ['biases of tokens', { biasIds: [VOCABULARY], biasValues: [1] }, 'a bias for token id 100'],
  ])('%s', (_, parts, message) => {
    expect(() => table(open(parts))).toThrow(broken(message));
  });

  it.each<[string, Partial<SamplingValues>]>([
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
    ['repetitionPenalty', { repetitionPenalty: 2 ** -127 }],
    ['topK', { topK: 2 ** 31 }],
    ['logprobs', { logprobs: 22 }],
    ['promptLogprobs', { promptLogprobs: 2 ** 32 - 1 }],
    ['minTokens', { minTokens: 2 ** 31 }],
  ])('numbers: not %s of %j', (name, sampling) => {
    expect(() => table(open({}, sampling))).toThrow(broken(name));
  });

  it('suppressed ids of tokens', () => {
    const suppressing = open({ suppressedIds: [VOCABULARY] }, { minTokens: 1 });
    expect(() => table(suppressing)).toThrow(broken('a bias for token id 100'));
  });

  it('what it returns: no log probabilities of a prompt that none were asked for', () => {
    expect(() => table(open()).promptRows(slice(0, 4), nothing)).toThrow(broken('which has none'));
    expect(() => table(open({}, { promptLogprobs: 1 })).promptRows(slice(0, 4), nothing)).not.toThrow();
  });
});

describe('draftTokens', () => {
  const rowsOf = (slots: SlotTable, position: number, ...tokens: number[]): number[] => {
    const rows: number[] = [];
    slots.rows({ ...slice(position, tokens.length), sample: true, tokenIds: words(...tokens) }, (tokenId) =>
      rows.push(tokenId),
    );
    return rows;
  };

  it('are the tokens of their positions, of which those after the first may be taken back', () => {
    const slots = table(open());
    slots.beforeSample(0, 4, nothing);
    expect(rowsOf(slots, 4, 7, 8, 9)).toEqual([7, 8, 9]);
    slots.drafted(0);
    expect(() => slots.rows(slice(5, 1), nothing)).toThrow(broken('sampled that of none'));
    expect(rowsOf(slots, 5, 3)).toEqual([3]);
    slots.beforeSample(0, 6, nothing);
    expect(() => slots.rows(slice(6, 1), nothing)).not.toThrow();
  });

  it('are one a position, behind the known tokens, in the slot’s blocks, and sampled', () => {
    const bring =
      (position: number, count: number, sample: boolean, ...tokens: number[]) =>
      () =>
        table(open()).rows({ ...slice(position, count), sample, tokenIds: words(...tokens) }, nothing);
    expect(bring(4, 2, true, 1)).toThrow(broken('1 tokens for 2 positions'));
    expect(bring(4, 1, true)).toThrow(broken('0 tokens for 1 positions'));
    expect(bring(3, 1, true, 1)).toThrow(broken('1 tokens for 1 positions from 3 on'));
    expect(bring(4, 1, false, 1)).toThrow(broken('1 tokens'));
    expect(bring(4, 1, true, VOCABULARY)).toThrow(broken(`token id ${VOCABULARY}`));
    expect(bring(2 ** 31, 2, true, 1, 2)).toThrow(broken('positions'));
  });

  it('are on one side of where suppressed tokens are let go', () => {
    const slots = table(open({ suppressedIds: [2] }, { minTokens: 3 }));
    expect(rowsOf(slots, 4, 1, 2)).toEqual([1, 2]);
    expect(() => rowsOf(slots, 4, 1, 2, 3)).toThrow(broken('beyond position 7, where tokens are let go'));
    slots.beforeSample(0, 5, nothing);
    expect(() => rowsOf(slots, 5, 1, 2)).toThrow(broken('beyond position 7'));
    expect(rowsOf(slots, 6, 1, 2, 3)).toEqual([1, 2, 3]);
    let writes = 0;
    slots.beforeSample(0, 7, () => {
      writes += 1;
    });
    expect(writes).toBeGreaterThan(0);
  });
});

describe('a slot that is opened with generated tokens', () => {
  /** True if a slot that was opened with so many generated tokens suppresses its tokens. */
  const isSuppressing = (generated: number): boolean => {
    const opened = open(
      { tokenIds: ids(4 + generated), promptTokens: 4, suppressedIds: [2], blockIds: words(1) },
      { minTokens: 3 },
    );
    return table(opened).needsOf(0).isAdjusted;
  };

  it('holds ending tokens down until min_tokens, those before the replay counted', () => {
    expect([0, 1, 2, 3, 4].map(isSuppressing)).toEqual([true, true, true, false, false]);
  });

  it('counts them for penalties, and not the prompt', () => {
    const arena = slotArena(LIMITS);
    const written = new Map<number, number>();
    const slots = new SlotTable(LIMITS, VOCABULARY);
    const tokenIds = words(5, 6, 5, 7, 7);
    slots.open(open({ tokenIds, promptTokens: 2 }, { presencePenalty: 1 }), (index, value) =>
      written.set(index, value),
    );
    const word = (i: number) => written.get(arena.historyOffset + i);
    expect(word(0)).toBe(3);
    const counts = new Map([0, 1, 2].map((i) => [word(1 + 2 * i), word(2 + 2 * i)]));
    expect(counts).toEqual(
      new Map([
        [5, 1],
        [6, 0],
        [7, 2],
      ]),
    );
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

describe('windowed blocks', () => {
  /** A row sees its own position and the 19 before it: with the one before those it leaves block 0 at position 35. */
  const WINDOWED = { ...LIMITS, maxContext: 100, windowed: { window: 20, blocks: 6 } };
  const arena = slotArena(WINDOWED);
  const ofSlot0 = SlotWord.blockTable + arena.windowTable;
  const many = words(...Array.from({ length: 7 }, (_, i) => i + 1));
  const windowedOpen = (parts: Partial<SlotOpen> = {}) =>
    open({ tokenIds: ids(100), promptTokens: 100, blockIds: many, ...parts });

  /** Slots, and their memory as the steps leave it. */
  function windowed(...opens: Partial<SlotOpen>[]) {
    const slots = new SlotTable(WINDOWED, VOCABULARY);
    const memory = new Map<number, number>();
    const write = (index: number, value: number) => memory.set(index, value);
    for (const parts of opens) slots.open(windowedOpen(parts), write);
    const entries = (count: number) => Array.from({ length: count }, (_, i) => memory.get(ofSlot0 + i));
    return { slots, write, entries };
  }

  it('have a table of their own, whose entries point to the null block when theirs has left', () => {
    const { slots, write, entries } = windowed({ windowBlockIds: words(5, 3) });
    expect(entries(3)).toEqual([5, 3, undefined]);
    slots.rows(slice(0, 32), nothing);
    slots.append({ slot: 0, blockIds: words(), windowBlockIds: words(1) }, write);
    // Position 34 sees from 15 on, position 35 from 16 on.
    slots.advance(slice(34, 1), write);
    expect(entries(3)).toEqual([5, 3, 1]);
    slots.advance(slice(35, 1), write);
    expect(entries(3)).toEqual([0, 3, 1]);
    // Blocks that have left may come back, and none that is still there.
    expect(() => slots.append({ slot: 0, blockIds: words(), windowBlockIds: words(3) }, write)).toThrow(
      broken('windowed block 3 twice in slot 0'),
    );
    slots.append({ slot: 0, blockIds: words(), windowBlockIds: words(5) }, write);
    expect(entries(4)).toEqual([0, 3, 1, 5]);
  });

  it('of a found prefix begin where the window does', () => {
    const { slots, entries } = windowed({ windowStart: 2, windowBlockIds: words(4, 2, 1) });
    expect(entries(5)).toEqual([undefined, undefined, 4, 2, 1]);
    slots.rows(slice(64, 16), nothing);
    expect(() => slots.rows(slice(50, 1), nothing)).toThrow(
      broken('positions 50 to 51 of slot 0 with windowed blocks'),
    );
    expect(() => slots.rows(slice(51, 1), nothing)).not.toThrow();
  });

  it('hold every position of a slice and all that it sees', () => {
    const { slots, write } = windowed({ windowBlockIds: words(1, 2, 3) });
    expect(() => slots.rows(slice(0, 49), nothing)).toThrow(broken('with windowed blocks from 0 to 3'));
    slots.rows(slice(0, 48), nothing);
    slots.advance(slice(47, 1), write);
    // Its gateway goes back to where the window was.
    expect(() => slots.rows(slice(34, 1), nothing)).toThrow(broken('with windowed blocks from 1 to 3'));
    slots.advance(slice(2 ** 32 - 1, 1), write);
    expect(() => slots.rows(slice(47, 1), nothing)).toThrow(broken('with windowed blocks from 3 to 3'));
  });

  it.each<[string, Partial<SlotOpen>, string]>([
    ['there', { windowBlockIds: words(6) }, 'windowed block 6'],
    ['never the null block', { windowBlockIds: words(1, 0) }, 'windowed block 0'],
    ['each there once', { windowBlockIds: words(4, 5, 4) }, 'windowed block 4 twice'],
    ['within the context', { windowStart: 6, windowBlockIds: words(1, 2) }, 'more windowed blocks than the context'],
    ['within the context, also where none is named', { windowStart: 7 }, 'windowed blocks from 7 on'],
    ['whole words', { windowBlockIds: Buffer.of(1, 2, 3) }, 'not a whole number of words'],
  ])('are %s', (_, parts, message) => {
    expect(() => windowed(parts)).toThrow(broken(message));
  });

  it('are nobody’s in a model without windows', () => {
    expect(() => table(open({ windowBlockIds: words(1) }))).toThrow(broken('windowed block 1'));
    expect(() => table(open({ windowStart: 1 }))).toThrow(broken('windowed blocks from 1 on'));
    expect(() => table(open()).append({ slot: 0, blockIds: words(), windowBlockIds: words(1) }, nothing)).toThrow(
      broken('windowed block 1'),
    );
  });
});

describe('before any slot is open', () => {
  it('the null slot is neutral and keeps no history', () => {
    const arena = slotArena(LIMITS);
    const slots = emptySlots(arena);
    const floats = new Float32Array(slots.buffer);
    const base = LIMITS.maxSequences * arena.slotWords;
    const { repetitionPenalty, frequencyPenalty, presencePenalty, temperature, typicalP, topP, minP, topK, logprobs } =
      SlotWord;
    expect(
      [repetitionPenalty, frequencyPenalty, presencePenalty, temperature, typicalP, topP, minP].map(
        (word) => floats[base + word],
      ),
    ).toEqual([1, 0, 0, 0, 1, 1, 0]);
    expect([topK, logprobs].map((word) => slots[base + word])).toEqual([0, 0]);
    expect(slots[arena.historyOffset + LIMITS.maxSequences * (1 + 2 * arena.historyEntries)]).toBe(-1);
    // Its table leads to the null block.
    expect(slots.subarray(base + SlotWord.blockTable, base + arena.slotWords).every((word) => word === 0)).toBe(true);
    expect(slots.filter((word) => word !== 0)).toHaveLength(4);
  });
});
