// One file because both parts drive the same slices: the table of states alone, and a model that computes with them.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { NO_STATE } from '../../src/executor/kernels/index.js';
import { stateBytes } from '../../src/executor/layers/recurrent-layers.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { isRecurrent, valuesOf } from '../../src/executor/model/values.js';
import { SlotTable } from '../../src/executor/steps/slots.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import {
  ExecuteRequest,
  type ExecuteResponse,
  type Slice,
  SlotOpen,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../src/shared/sampling-schema.js';
import { writeRandomFamily } from '../support/random-model.js';

const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
const PROMPT = Array.from({ length: 40 }, (_, i) => 3 + ((i * 37) % 200));
const TOKENS = 30;
const nothing = () => undefined;
const slice = (position: number, count: number, rest: Partial<Slice> = {}): Slice => ({
  ...{ slot: 0, position, count, sample: false, promptLogprobs: false, mask: undefined },
  ...rest,
});

/** Bytes of a state over all layers, and the size of a head of the one layer with attention. */
const STATES = {
  // 3 layers of 4 heads of 32 · 32 and 3 rows of 256 channels.
  qwen35: { bytes: 3 * 4 * (4 * 32 * 32 + 3 * 256), kvHeadDim: 32 },
  // 3 layers of 2 rows of 64 columns.
  lfm2: { bytes: 3 * 4 * 2 * 64, kvHeadDim: 16 },
} as const;

/** States of a slice without draft tokens. */
const plain = (source: number, target: number) =>
  expect.objectContaining({ source, target, isBefore: false, replayed: 0 });

describe('a slice of a slot with states', () => {
  const limits = {
    ...{ maxContext: 64, maxSequences: 3, maxStepTokens: 64, kvBlocks: 20 },
    ...({ kvCacheType: 'f16', attention: 'fused', isRecurrent: true, stateSnapshots: 2, draftTokens: 3 } as const),
  };
  const open = (table: SlotTable, slot: number): void => {
    const sampling = encodeSampling({ ...NEUTRAL_SAMPLING, constrained: 1 });
    const blocks = { blockIds: words(1 + 4 * slot, 2 + 4 * slot, 3 + 4 * slot) };
    table.open(
      { ...SlotOpen.create(), slot, tokenIds: words(...PROMPT), promptTokens: 40, ...blocks, sampling },
      nothing,
    );
  };
  const opened = (...slots: number[]): SlotTable => {
    const table = new SlotTable(limits, 300);
    for (const slot of slots) open(table, slot);
    return table;
  };
  const refusal = (what: RegExp) =>
    expect.objectContaining({ reason: 'EXECUTOR_PROTOCOL', message: expect.stringMatching(what) });

  it('reads one copy and writes the other, and begins with none', () => {
    const table = opened(0, 2);
    expect(table.states.of(slice(0, 5), false)).toEqual(plain(NO_STATE, 0));
    expect(table.states.of(slice(5, 3), false)).toEqual(plain(0, 1));
    expect(table.states.of(slice(8, 1), false)).toEqual(plain(1, 0));
    expect(table.states.of(slice(0, 7, { slot: 2 }), false)).toEqual(plain(NO_STATE, 4));
    expect(table.states.of(slice(7, 7, { slot: 2 }), false)).toEqual(plain(4, 5));
  });

  it('may be sent again, cut otherwise, once another is behind it no more', () => {
    const table = opened(0);
    table.states.of(slice(0, 5), false);
    expect(table.states.of(slice(5, 9), false)).toEqual(plain(0, 1));
    expect(table.states.of(slice(5, 4), false)).toEqual(plain(0, 1));
    expect(table.states.of(slice(9, 5), false)).toEqual(plain(1, 0));
    expect(() => table.states.of(slice(5, 9), false)).toThrow(
      refusal(/from 5 on of slot 0, whose states belong to 9 and 14/),
    );
  });

  it('is refused where neither copy stands, and where another sequence had the slot', () => {
    const table = opened(0);
    expect(() => table.states.of(slice(5, 1), false)).toThrow(refusal(/whose states belong to none/));
    table.states.of(slice(0, 5), false);
    for (const position of [1, 4, 6])
      expect(() => table.states.of(slice(position, 1), false)).toThrow(refusal(/of slot 0/));
    table.close(0);
    open(table, 0);
    expect(() => table.states.of(slice(5, 1), false)).toThrow(refusal(/of slot 0, whose states belong to none/));
  });

  it('leaves the copies alone when nothing comes of it', () => {
    const table = opened(0);
    table.states.of(slice(0, 5), false);
    expect(table.states.of(slice(5, 1), true)).toEqual(plain(6, 7));
    expect(table.states.of(slice(5, 1), false)).toEqual(plain(0, 1));
  });

  describe('that names a snapshot', () => {
    /** The first of the snapshots, behind the copies of three slots and of the null slot. */
    const FIRST = 8;

    it('writes it in place of a copy, goes on from it, and lets others do so', () => {
      const { states } = opened(0, 1, 2);
      states.beginStep();
      expect(states.of(slice(0, 16, { toSnapshot: 1 }), false)).toEqual(plain(NO_STATE, FIRST));
      states.beginStep();
      expect(states.of(slice(16, 3), false)).toEqual(plain(FIRST, 0));
      expect(states.of(slice(16, 1, { slot: 1, fromSnapshot: 1 }), false)).toEqual(plain(FIRST, 2));
      expect(states.of(slice(16, 16, { slot: 2, fromSnapshot: 1, toSnapshot: 2 }), false)).toEqual(
        plain(FIRST, FIRST + 1),
      );
      // Sent again, from what it went on from before, and to a snapshot as it was to a copy.
      states.beginStep();
      expect(states.of(slice(16, 2), false)).toEqual(plain(FIRST, 0));
      expect(states.of(slice(16, 16, { slot: 2, toSnapshot: 2 }), false)).toEqual(plain(FIRST, FIRST + 1));
      states.beginStep();
      expect(states.of(slice(18, 1), false)).toEqual(plain(0, 1));
      expect(states.of(slice(32, 1, { slot: 2 }), false)).toEqual(plain(FIRST + 1, 4));
    });

    it('is refused where the snapshot is none, is of another position, or nobody wrote it', () => {
      const { states } = opened(0, 1);
      states.beginStep();
      states.of(slice(0, 16, { toSnapshot: 1 }), false);
      states.beginStep();
      const from = (position: number, fromSnapshot: number) => () =>
        states.of(slice(position, 1, { slot: 1, fromSnapshot }), false);
      expect(from(16, 3)).toThrow(refusal(/snapshot 3 of 2 in slot 1/));
      expect(from(16, 0)).toThrow(refusal(/snapshot 0 of 2 in slot 1/));
      expect(from(16, 2)).toThrow(refusal(/from 16 on of slot 1, from snapshot 2, which belongs to none/));
      expect(from(15, 1)).toThrow(refusal(/from 15 on of slot 1, from snapshot 1, which belongs to 16/));
      expect(from(0, 1)).toThrow(refusal(/from 0 on of slot 1, from snapshot 1, which belongs to 16/));
      expect(() => states.of(slice(16, 1, { toSnapshot: 3 }), false)).toThrow(refusal(/snapshot 3 of 2 in slot 0/));
      // Also of a slice that nothing comes of.
      expect(() => states.of(slice(16, 1, { toSnapshot: 3 }), true)).toThrow(refusal(/snapshot 3 of 2/));
    });

    it('may be of an epoch before, where memory outlives it, until this one has written it', () => {
      const table = new SlotTable(limits, 300, true);
      for (const slot of [0, 1]) open(table, slot);
      const { states } = table;
      states.beginStep();
      expect(states.of(slice(16, 1, { slot: 1, fromSnapshot: 2 }), false)).toMatchObject({ source: FIRST + 1 });
      states.beginStep();
      states.of(slice(0, 32, { toSnapshot: 2 }), false);
      states.beginStep();
      expect(() => states.of(slice(16, 1, { slot: 1, fromSnapshot: 2 }), false)).toThrow(
        refusal(/which belongs to 32/),
      );
    });

    it('is refused in a step that writes the snapshot and names it twice', () => {
      const clash = refusal(/a snapshot in slot \d that a slice of this step writes and another names/);
      const { states } = opened(0, 1, 2);
      states.beginStep();
      states.of(slice(0, 16, { toSnapshot: 1 }), false);
      expect(() => states.of(slice(0, 9, { slot: 1, toSnapshot: 1 }), false)).toThrow(clash);
      expect(() => states.of(slice(16, 1, { slot: 1, fromSnapshot: 1 }), false)).toThrow(clash);
      states.beginStep();
      // It goes on from there without saying so.
      states.of(slice(16, 1), false);
      expect(() => states.of(slice(0, 16, { slot: 1, toSnapshot: 1 }), false)).toThrow(clash);
      states.beginStep();
      expect(() => states.of(slice(16, 16, { slot: 2, fromSnapshot: 1, toSnapshot: 1 }), false)).toThrow(clash);
    });

    it('takes it from a slot that would have gone on from it', () => {
      const { states } = opened(0, 1);
      states.beginStep();
      states.of(slice(0, 16, { toSnapshot: 1 }), false);
      states.beginStep();
      // Other tokens at the same position.
      states.of(slice(0, 16, { slot: 1, toSnapshot: 1 }), false);
      states.beginStep();
      expect(() => states.of(slice(16, 1), false)).toThrow(refusal(/of slot 0, whose states belong to none/));
      expect(states.of(slice(16, 1, { slot: 1 }), false)).toEqual(plain(FIRST, 2));
    });

    it('writes nothing when nothing comes of it', () => {
      const { states } = opened(0, 1);
      states.beginStep();
      states.of(slice(0, 16, { toSnapshot: 1 }), false);
      states.beginStep();
      expect(states.of(slice(16, 1, { toSnapshot: 1 }), true)).toEqual(plain(6, 7));
      expect(states.of(slice(16, 1, { slot: 1, fromSnapshot: 1 }), false)).toEqual(plain(FIRST, 2));
    });
  });

  describe('that has draft tokens', () => {
    const drafted = (position: number, count: number, rest: Partial<Slice> = {}) =>
      slice(position, count, { sample: true, tokenIds: words(...Array<number>(count).fill(5)), ...rest });

    it('writes no state, and is followed by one that replays what was accepted', () => {
      const { states } = opened(0, 2);
      states.of(slice(0, 40), false);
      const before = { source: 0, isBefore: true };
      expect(states.of(drafted(40, 4), false)).toEqual({ ...before, target: NO_STATE, replayed: 0, replayRow: 0 });
      expect(states.keptRows(drafted(40, 3), 7)).toEqual([7, 0, 8, 1, 9, 2]);
      expect(states.keptRows(drafted(40, 2, { slot: 2 }), 0)).toEqual([0, 8, 1, 9]);
      // Three of four tokens were right: the state before the next ones is written to the other copy.
      expect(states.of(drafted(43, 2), false)).toEqual({ ...before, target: 1, replayed: 3, replayRow: 0 });
      const next = { target: 0, isBefore: false, replayed: 1, replayRow: 0 };
      expect(states.of(slice(44, 1), false)).toEqual({ source: 1, ...next });
      expect(states.of(slice(45, 1), false)).toEqual(plain(0, 1));
    });

    it('lets the slice behind it be sent again, but none from elsewhere', () => {
      const { states } = opened(0);
      states.of(slice(0, 40), false);
      states.of(drafted(40, 4), false);
      expect(() => states.of(slice(45, 1), false)).toThrow(refusal(/from 45 on of slot 0, whose states belong to 40/));
      const late = { source: 0, target: 1, isBefore: false, replayed: 2, replayRow: 0 };
      expect(states.of(slice(42, 1), false)).toEqual(late);
      // Sent meanwhile, from the token that is missing.
      expect(states.of(slice(43, 1), true)).toEqual(plain(6, 7));
      expect(states.of(slice(42, 1), false)).toEqual(late);
      expect(() => states.of(slice(44, 1), false)).toThrow(
        refusal(/from 44 on of slot 0, whose states belong to 40 and 43/),
      );
      expect(states.of(slice(43, 1), false)).toEqual(plain(1, 0));
    });

    it('copies a snapshot that it continues from, and writes the states before it to one', () => {
      const { states } = opened(0, 1);
      states.beginStep();
      states.of(slice(0, 32, { toSnapshot: 1 }), false);
      states.beginStep();
      expect(states.of(drafted(32, 3), false)).toEqual(
        expect.objectContaining({ source: 8, target: 0, isBefore: true }),
      );
      states.beginStep();
      // The snapshot may be another's by now.
      states.of(slice(0, 16, { slot: 1, toSnapshot: 1 }), false);
      expect(states.of(drafted(34, 3, { toSnapshot: 2 }), false)).toEqual({
        ...{ source: 0, target: 9, isBefore: true, replayed: 2, replayRow: 0 },
      });
      states.beginStep();
      expect(states.of(slice(34, 1, { slot: 1, fromSnapshot: 2 }), false)).toEqual(plain(9, 2));
      expect(states.of(slice(37, 1), false)).toEqual(expect.objectContaining({ source: 9, replayed: 3 }));
    });

    it('is refused with more of them than the model was loaded for, and where another sequence had the slot', () => {
      const table = opened(0);
      const { states } = table;
      states.of(slice(0, 40), false);
      expect(() => states.of(drafted(40, 5), false)).toThrow(
        refusal(/4 draft tokens of slot 0, whose states can take back 3/),
      );
      states.of(drafted(40, 4), false);
      table.close(0);
      open(table, 0);
      expect(() => states.of(slice(41, 1), false)).toThrow(refusal(/whose states belong to none/));
      const without = new SlotTable({ ...limits, draftTokens: 0 }, 300);
      open(without, 0);
      without.states.of(slice(0, 40), false);
      expect(() => without.states.of(drafted(40, 2), false)).toThrow(refusal(/1 draft tokens of slot 0/));
    });
  });
});

describe.each(['qwen35', 'lfm2'] as const)('a recurrent model, %s', (family) => {
  const device = openDevice({ kind: 'host' });
  const SEQUENCES = 6;
  const DRAFT_TOKENS = 4;
  /** Draft tokens that are right, and in all. */
  const ACCEPTED = [
    ...([
      [0, 1],
      [1, 1],
      [0, 4],
      [4, 4],
    ] as const),
    ...([
      [0, 0],
      [1, 3],
      [3, 4],
      [2, 2],
    ] as const),
    ...([
      [0, 0],
      [0, 2],
      [2, 4],
      [1, 2],
    ] as const),
  ];
  let model: LoadedModel;
  let epoch = 0n;
  beforeAll(async () => {
    const limits = { maxContext: 128, maxSequences: SEQUENCES, maxStepTokens: 64, kvMemoryBytes: 0 };
    const path = writeRandomFamily(family);
    const options = { path, kvCacheType: 'f16', fingerprint: '', draftTokens: DRAFT_TOKENS, ...limits } as const;
    model = await loadModel(device, options, nothing);
  });
  afterAll(() => model.release());

  /** A constrained sequence in slot 1, every token of which is allowed, driven as a gateway would. */
  class Driver {
    readonly runner = new StepRunner(device, model, ++epoch);
    private readonly epoch = epoch;
    private stepId = 0n;

    open(constrained: 0 | 1): SlotOpen {
      const blockIds = words(...Array.from({ length: 8 }, (_, i) => 9 + i));
      const sampling = encodeSampling({ ...NEUTRAL_SAMPLING, constrained });
      return { ...SlotOpen.create(), slot: 1, tokenIds: words(...PROMPT), promptTokens: 40, blockIds, sampling };
    }

    step(slices: readonly Slice[], parts: Partial<ExecuteRequest> = {}): Promise<ExecuteResponse> {
      return this.stepOf(
        slices.map((each) => ({ ...each, slot: 1 })),
        parts,
      );
    }

    /** Slices of any slots. */
    stepOf(slices: readonly Slice[], parts: Partial<ExecuteRequest> = {}): Promise<ExecuteResponse> {
      this.stepId += 1n;
      const own = { stepId: this.stepId, epoch: this.epoch, slices: [...slices] };
      return this.runner.submit({ ...ExecuteRequest.create(), ...own, ...parts });
    }
  }
  const firstTokens = async (count: number): Promise<number[]> => (await plain()).slice(0, count);
  const tokenOf = ({ outputs }: ExecuteResponse): number => outputs[0]!.tokenId;

  async function plain(): Promise<number[]> {
    const driver = new Driver();
    const first = await driver.step([slice(0, 40, { sample: true })], { opens: [driver.open(0)] });
    const tokens = [tokenOf(first)];
    while (tokens.length < TOKENS)
      tokens.push(tokenOf(await driver.step([slice(39 + tokens.length, 1, { sample: true })])));
    return tokens;
  }

  it('has the same tokens where masks come too late: of a prompt’s slice, sent again in others, and of rows after it', async () => {
    const expected = await plain();
    const driver = new Driver();
    const all = { id: 1, allowed: Buffer.alloc(4 * Math.ceil(model.forward.model.vocabularySize / 32), 0xff) };
    const pending = { sample: true, mask: { id: 0 } };
    const known = { sample: true, mask: { id: 1 } };
    await driver.step([slice(0, 10)], { opens: [driver.open(1)], masks: [all] });
    const missed = driver.step([slice(10, 30, pending)]);
    const behind = driver.step([slice(40, 1, pending)]);
    expect((await missed).outputs[0]!.late).toBe(true);
    expect((await behind).outputs[0]!.late).toBe(true);
    await driver.step([slice(10, 12)]);
    const tokens = [tokenOf(await driver.step([slice(22, 18, known)]))];
    let late = 0;
    while (tokens.length < TOKENS) {
      const position = 39 + tokens.length;
      if (tokens.length % 3 === 1) {
        const [one, another] = [
          driver.step([slice(position, 1, pending)]),
          driver.step([slice(position + 1, 1, pending)]),
        ];
        expect((await one).outputs[0]!.late).toBe(true);
        expect((await another).outputs[0]!.late).toBe(true);
        late += 1;
      }
      tokens.push(tokenOf(await driver.step([slice(position, 1, known)])));
    }
    expect(late).toBeGreaterThan(8);
    expect(tokens).toEqual(expected);
  });

  it('goes on behind a snapshot with the bits of a plain run, also where its first slice was late', async () => {
    const driver = new Driver();
    const asks = { ...NEUTRAL_SAMPLING, logprobs: 1 };
    /** Shares the blocks of the first 32 positions with the others. */
    const opening = (slot: number, constrained: 0 | 1 = 0) => ({
      ...driver.open(constrained),
      slot,
      blockIds: words(1, 2, ...Array.from({ length: 6 }, (_, i) => 3 + 6 * slot + i)),
      sampling: encodeSampling({ ...asks, constrained }),
    });
    const all = { id: 1, allowed: Buffer.alloc(4 * Math.ceil(model.forward.model.vocabularySize / 32), 0xff) };
    const drawn = ({ outputs }: ExecuteResponse) => outputs.map(({ tokenId, logprob }) => [tokenId, logprob]);
    const last = { sample: true };
    await driver.stepOf([slice(0, 32, { toSnapshot: 2 })], { opens: [opening(0)] });
    const plain = [...drawn(await driver.stepOf([slice(32, 8, last)]))];
    // Two others go on from the same place in one step; of the second the mask is late, and its slice comes again.
    const late = { ...last, slot: 2, fromSnapshot: 2 };
    const both = await driver.stepOf(
      [slice(32, 8, { ...last, slot: 1, fromSnapshot: 2 }), slice(32, 8, { ...late, mask: { id: 0 }, toSnapshot: 1 })],
      { opens: [opening(1), opening(2, 1)], masks: [all] },
    );
    expect(both.outputs.map((output) => output.late)).toEqual([false, true]);
    expect(drawn(both)[0]).toEqual(plain[0]);
    expect(drawn(await driver.stepOf([slice(32, 8, { ...late, mask: { id: 1 } })]))).toEqual(plain);
    const found = [...plain];
    for (let position = 40; position < 60; position++) {
      const [own, other] = drawn(
        await driver.stepOf([
          slice(position, 1, { ...last, toSnapshot: position % 8 === 7 ? 3 : undefined }),
          // From its own snapshot to another at each whole block.
          slice(position, 1, { ...last, slot: 1, toSnapshot: position % 16 === 15 ? 4 : undefined }),
        ]),
      ) as [number[], number[]];
      plain.push(own);
      found.push(other);
    }
    expect(found).toEqual(plain);
    expect(plain.map(([token]) => token)).toEqual(await firstTokens(21));
    expect(plain.every(([, logprob]) => logprob! < 0)).toBe(true);
    // The late slice wrote the state after its own tokens.
    const behind = await driver.stepOf([slice(40, 1, { ...last, slot: 1, fromSnapshot: 1 })], {
      closes: [1],
      opens: [{ ...opening(0), slot: 1, tokenIds: words(...PROMPT, plain[0]![0]!) }],
    });
    expect(drawn(behind)[0]).toEqual(plain[1]);
  });

  it('has the bits of a plain run with draft tokens, however many of them are right', async () => {
    const driver = new Driver();
    const asks = encodeSampling({ ...NEUTRAL_SAMPLING, logprobs: 1 });
    const drawn = ({ outputs }: ExecuteResponse) => outputs.map(({ tokenId, logprob }) => [tokenId, logprob] as const);
    const opening = (slot: number) => ({
      ...{ ...driver.open(0), slot, sampling: asks },
      blockIds: words(...Array.from({ length: 8 }, (_, i) => 1 + 8 * slot + i)),
    });
    // One slot without draft tokens, one with as many as fit.
    const last = { sample: true };
    const begin = async (slot: number) =>
      drawn(await driver.stepOf([slice(0, 40, { ...last, slot })], { opens: [opening(slot)] }))[0]!;
    const expected = [await begin(0)];
    while (expected.length < 2 * TOKENS) {
      expected.push(drawn(await driver.stepOf([slice(39 + expected.length, 1, last)]))[0]!);
    }
    const found = [await begin(1)];
    const accepted = new Set<number>();
    let closes: number[] = [];
    for (let round = 0; found.length < TOKENS; round++) {
      const position = 39 + found.length;
      const [right, count] = ACCEPTED[round % ACCEPTED.length]!;
      const drafts = Array.from({ length: count }, (_, i) => {
        const token = expected[found.length + i]![0];
        return i < right ? token : (token + 1) % 300;
      });
      const tokenIds = words(found.at(-1)![0], ...drafts);
      const toSnapshot = round % 4 === 3 ? 1 + (round % 2) : undefined;
      const own = slice(position, 1 + count, { ...last, slot: 1, tokenIds, toSnapshot });
      const sampled = drawn(await driver.stepOf([own], { closes }));
      closes = [];
      expect(sampled).toHaveLength(1 + count);
      found.push(...sampled.slice(0, 1 + right));
      accepted.add(round % ACCEPTED.length);
      if (toSnapshot === undefined) continue;
      // The state before the draft tokens stands there: another continues from it, in blocks of the same contents.
      const known = words(...PROMPT, ...expected.slice(0, position - 39).map(([id]) => id));
      const other = slice(position, 1, { ...last, slot: 2, fromSnapshot: toSnapshot });
      const token = await driver.stepOf([other], { opens: [{ ...opening(1), slot: 2, tokenIds: known }] });
      expect(drawn(token)).toEqual([expected[position - 39]]);
      closes = [2];
    }
    expect(found).toEqual(expected.slice(0, found.length));
    expect(accepted.size).toBe(ACCEPTED.length);
  });

  it('keeps nothing of snapshots from one epoch to the next', async () => {
    const before = new Driver();
    await before.step([slice(0, 16, { toSnapshot: 1 })], { opens: [before.open(0)] });
    const after = new Driver();
    await expect(
      after.step([slice(16, 1, { sample: true, fromSnapshot: 1 })], { opens: [after.open(0)] }),
    ).rejects.toThrow(/from snapshot 1, which belongs to none/);
  });

  it('refuses to go on from a position where no state stands', async () => {
    const driver = new Driver();
    await driver.step([slice(0, 10)], { opens: [driver.open(0)] });
    await expect(driver.step([slice(9, 1, { sample: true })])).rejects.toThrow(/whose states belong to 10$/);
  });

  it('keeps states beside the cache, two copies a slot and two snapshots, and keys and values of layers with attention alone', () => {
    const layers = [...valuesOf(model.graph)].filter(isRecurrent);
    const { bytes, kvHeadDim } = STATES[family];
    expect(stateBytes(layers)).toBe(bytes);
    // States of six slots and the null slot, and two snapshots a slot.
    expect(model.stateBytes).toBe((2 * (SEQUENCES + 1) + 2 * SEQUENCES) * bytes);
    expect(model.forward.cache.blockBytes).toBe(2 * 1 * 16 * 2 * kvHeadDim * 2);
  });
});
