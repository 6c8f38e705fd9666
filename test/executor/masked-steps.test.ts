// One file because all of it drives one executor as a gateway would, with the same masks.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { maskIdsFor } from '../../src/executor/steps/mask-table.js';
import { StepRunner } from '../../src/executor/steps/step-runner.js';
import {
  ExecuteRequest,
  type ExecuteResponse,
  type Slice,
  SlotOpen,
  type SlotOutput,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING, type SamplingValues } from '../../src/shared/sampling-schema.js';
import { writeRandomFamily } from '../support/random-model.js';

const device = openDevice({ kind: 'host' });
const PROMPT = [3, 1, 4, 1, 5, 9, 2, 6];
const TOKENS = 60;
const BLOCKS = 8;
const WINDOW = 24;
const SEQUENCES = 3;

let model: LoadedModel;
let vocabulary: number;
let epoch = 0n;

beforeAll(async () => {
  const file = writeRandomFamily('phi3', { metadata: { 'phi3.attention.sliding_window': WINDOW } });
  const limits = { maxContext: 128, maxSequences: SEQUENCES, maxStepTokens: 32, kvMemoryBytes: 0 };
  model = await loadModel(device, { path: file, kvCacheType: 'f16', fingerprint: '', ...limits }, () => undefined);
  vocabulary = model.forward.model.vocabularySize;
});
afterAll(() => model.release());

/** A third of the tokens, others after each token. */
const allows = (previous: number, token: number): boolean => (token * 7 + previous) % 3 === 0;

function maskAfter(previous: number): Buffer {
  const bits = Buffer.alloc(4 * Math.ceil(vocabulary / 32));
  for (let i = 0; i < vocabulary; i++) if (allows(previous, i)) bits[i >> 3]! |= 1 << (i & 7);
  return bits;
}

/** An executor with one constrained sequence in slot 1 and a free one in slot 0, driven as a gateway would. */
class Driver {
  readonly runner: StepRunner;
  private readonly epoch = ++epoch;
  private stepId = 0n;
  private maskId = 0;
  private readonly grown = new Map<number, number>();

  constructor(private readonly sampling: Partial<SamplingValues>) {
    this.runner = new StepRunner(device, model, this.epoch);
  }

  frame(parts: Partial<ExecuteRequest>): ExecuteRequest {
    return { ...ExecuteRequest.create(), epoch: this.epoch, ...parts };
  }

  step(slices: readonly Partial<Slice>[], parts: Partial<ExecuteRequest> = {}): Promise<ExecuteResponse> {
    this.stepId += 1n;
    const full = slices.map((slice) => ({
      ...{ slot: 1, position: 0, count: 1, sample: true, promptLogprobs: false, mask: undefined },
      ...slice,
    }));
    return this.runner.submit(this.frame({ stepId: this.stepId, slices: full, appends: this.grow(slices), ...parts }));
  }

  open(slot: number, constrained: boolean, tokens: readonly number[] = PROMPT): SlotOpen {
    const words = (ids: readonly number[]) => Buffer.from(Uint32Array.from(ids).buffer);
    const blocks = words(Array.from({ length: BLOCKS }, (_, i) => 1 + slot * BLOCKS + i));
    const values = { ...NEUTRAL_SAMPLING, ...this.sampling, constrained: Number(constrained) };
    const windowed = model.forward.limits.windowed;
    return {
      ...SlotOpen.create(),
      ...{ slot, tokenIds: words(tokens), promptTokens: PROMPT.length, blockIds: blocks },
      sampling: encodeSampling(values),
      windowBlockIds: windowed ? words([1 + slot * BLOCKS, 2 + slot * BLOCKS, 3 + slot * BLOCKS]) : Buffer.alloc(0),
    };
  }

  /** The windowed block that a position begins, once: they take turns, of which the window sees three at most. */
  private grow(slices: readonly Partial<Slice>[]): ExecuteRequest['appends'] {
    return slices.flatMap(({ slot = 1, position = 0, count = 1 }) => {
      const block = Math.floor((position + count - 1) / 16);
      if (block < 3 || block <= (this.grown.get(slot) ?? 0)) return [];
      this.grown.set(slot, block);
      const windowBlockIds = Buffer.from(Uint32Array.of(1 + slot * BLOCKS + (block % 4)).buffer);
      return [{ slot, blockIds: Buffer.alloc(0), windowBlockIds }];
    });
  }

  /** A mask under an id that no step under way names. */
  mask(previous: number): { id: number; allowed: Buffer } {
    this.maskId = (this.maskId % maskIdsFor(SEQUENCES)) + 1;
    return { id: this.maskId, allowed: maskAfter(previous) };
  }

  /** Sends the mask of slot 1 in a step under way. */
  arrive(stepId: bigint, previous: number): void {
    const mask = this.mask(previous);
    this.runner.takeMasks(this.frame({ stepId, masks: [mask], slotMasks: [{ slot: 1, mask: mask.id }] }));
  }

  get lastStep(): bigint {
    return this.stepId;
  }
}

const first = (response: ExecuteResponse, slot = 1): SlotOutput => response.outputs.find((each) => each.slot === slot)!;

/** The constrained sequence, a step at a time, each mask with its step. */
async function oneByOne(sampling: Partial<SamplingValues>): Promise<number[]> {
  const driver = new Driver(sampling);
  let mask = driver.mask(PROMPT.at(-1)!);
  const slice = { count: PROMPT.length, mask: { id: mask.id } };
  const tokens = [first(await driver.step([slice], { opens: [driver.open(1, true)], masks: [mask] })).tokenId];
  while (tokens.length < TOKENS) {
    mask = driver.mask(tokens.at(-1)!);
    const position = PROMPT.length + tokens.length - 1;
    tokens.push(first(await driver.step([{ position, mask: { id: mask.id } }], { masks: [mask] })).tokenId);
  }
  return tokens;
}

const SAMPLINGS: readonly (readonly [string, Partial<SamplingValues>])[] = [
  ['greedy', {}],
  ['drawn', { temperature: 1, seed: 7n, topK: 40, topP: 0.9 }],
  ['drawn with penalties', { temperature: 0.8, seed: 8n, repetitionPenalty: 1.3, frequencyPenalty: 0.2 }],
];

describe.each(SAMPLINGS)('rows of a constrained slot, %s,', (_name, sampling) => {
  it('are drawn from what their masks allow', async () => {
    const tokens = await oneByOne(sampling);
    for (const [i, token] of tokens.entries()) {
      expect(allows(i === 0 ? PROMPT.at(-1)! : tokens[i - 1]!, token), `token ${i}`).toBe(true);
    }
    const free = await unconstrained(sampling);
    expect(free).not.toEqual(tokens);
  });

  it('have the same tokens when the masks come after the frames, beside a free slot, and two steps are under way', async () => {
    const expected = await oneByOne(sampling);
    const driver = new Driver(sampling);
    const opens = [driver.open(0, false), driver.open(1, true)];
    const pending = { id: 0 };
    const prompt = [
      { slot: 0, count: PROMPT.length },
      { slot: 1, count: PROMPT.length, mask: pending },
    ];
    let running = driver.step(prompt, { opens });
    driver.arrive(driver.lastStep, PROMPT.at(-1)!);
    const tokens: number[] = [];
    let position = PROMPT.length;
    for (;;) {
      const next =
        tokens.length + 2 > TOKENS
          ? undefined
          : driver.step([
              { slot: 0, position },
              { slot: 1, position, mask: pending },
            ]);
      const output = first(await running);
      expect(output.late).toBe(false);
      tokens.push(output.tokenId);
      if (next === undefined) break;
      driver.arrive(driver.lastStep, output.tokenId);
      running = next;
      position += 1;
    }
    expect(tokens).toEqual(expected);
  });

  it('have the same tokens when they are drafted, rightly and wrongly, with a mask for each', async () => {
    const expected = await oneByOne(sampling);
    const driver = new Driver(sampling);
    const known = driver.mask(PROMPT.at(-1)!);
    const opening = { opens: [driver.open(1, true)], masks: [known] };
    const tokens = [first(await driver.step([{ count: PROMPT.length, mask: { id: known.id } }], opening)).tokenId];
    for (let round = 0; tokens.length < TOKENS; round++) {
      // As many rows as there are sequences; in each third round the last draft token is wrong.
      const draftTokens = expected.slice(tokens.length, tokens.length + SEQUENCES - 1);
      if (round % 3 === 2) draftTokens.push((draftTokens.pop()! + 1) % vocabulary);
      const ids = [tokens.at(-1)!, ...draftTokens];
      const masks = ids.map((token) => driver.mask(token));
      const words = (values: readonly number[]) => Buffer.from(Uint32Array.from(values).buffer);
      const slice = {
        ...{ position: PROMPT.length + tokens.length - 1, count: ids.length, tokenIds: words(ids) },
        ...(ids.length > 1 ? { draftTokenMasks: words(masks.map(({ id }) => id)) } : { mask: { id: masks[0]!.id } }),
      };
      const { outputs } = await driver.step([slice], { masks });
      const sampled = outputs.map(({ tokenId }) => tokenId);
      let right = 1;
      while (right < sampled.length && draftTokens[right - 1] === sampled[right - 1]) right += 1;
      expect(right).toBe(round % 3 === 2 && draftTokens.length > 0 ? draftTokens.length : ids.length);
      tokens.push(...sampled.slice(0, right));
    }
    expect(tokens.slice(0, TOKENS)).toEqual(expected);
  });

  it('have the same tokens when some masks come too late, and steps in between knew nothing of it', async () => {
    const expected = await oneByOne(sampling);
    const driver = new Driver(sampling);
    const known = driver.mask(PROMPT.at(-1)!);
    const open = { opens: [driver.open(0, false), driver.open(1, true)], masks: [known] };
    const both = (position: number, mask: { id: number }) => [
      { slot: 0, position },
      { slot: 1, position, mask },
    ];
    const opening = [
      { slot: 0, count: PROMPT.length },
      { slot: 1, count: PROMPT.length, mask: { id: known.id } },
    ];
    const tokens = [first(await driver.step(opening, open)).tokenId];
    let freePosition = PROMPT.length;
    let late = 0;
    while (tokens.length < TOKENS) {
      const position = PROMPT.length + tokens.length - 1;
      const slices = (at: number, mask: { id: number }) =>
        both(at, mask).map((each) => (each.slot === 0 ? { ...each, position: freePosition++ } : each));
      const isLast = tokens.length + 1 === TOKENS;
      if (tokens.length % 3 === 1 && !isLast) {
        // Its mask never comes, and neither does that of the step behind it.
        const missed = driver.step(slices(position, { id: 0 }));
        const behind = driver.step(slices(position + 1, { id: 0 }));
        expect(first(await missed).late).toBe(true);
        expect(first(await behind).late).toBe(true);
        late += 1;
      }
      const mask = driver.mask(tokens.at(-1)!);
      const next = await driver.step(slices(position, { id: mask.id }), { masks: [mask] });
      tokens.push(first(next).tokenId);
    }
    expect(late).toBeGreaterThan(15);
    expect(tokens).toEqual(expected);
  });
});

async function unconstrained(sampling: Partial<SamplingValues>): Promise<number[]> {
  const driver = new Driver(sampling);
  const tokens = [first(await driver.step([{ count: PROMPT.length }], { opens: [driver.open(1, false)] })).tokenId];
  for (let i = 0; i < 8; i++) tokens.push(first(await driver.step([{ position: PROMPT.length + i }])).tokenId);
  return tokens;
}

it('a mask that comes with the next step is there for the step that still waits', async () => {
  const expected = await oneByOne({});
  const driver = new Driver({});
  const mask = driver.mask(PROMPT.at(-1)!);
  const waiting = driver.step([{ count: PROMPT.length, mask: { id: 0 } }], { opens: [driver.open(1, true)] });
  // A gateway knows that the executor has it, and sends it once.
  const next = driver.step([{ slot: 0, count: PROMPT.length }], { opens: [driver.open(0, false)], masks: [mask] });
  driver.runner.takeMasks(driver.frame({ stepId: 1n, slotMasks: [{ slot: 1, mask: mask.id }] }));
  expect(first(await waiting).tokenId).toBe(expected[0]);
  await next;
});

it('a frame with a step brings the masks that the step before it waits for', async () => {
  const expected = await oneByOne({});
  const driver = new Driver({});
  const mask = driver.mask(PROMPT.at(-1)!);
  const waiting = driver.step([{ count: PROMPT.length, mask: { id: 0 } }], { opens: [driver.open(1, true)] });
  const brought = { masks: [mask], slotMasks: [{ slot: 1, mask: mask.id }] };
  const next = driver.step([{ slot: 0, count: PROMPT.length }], { opens: [driver.open(0, false)], ...brought });
  expect(first(await waiting).tokenId).toBe(expected[0]);
  await next;
});

it('draws have the probabilities of the model, renormalized over what each mask allows', async () => {
  const DRAWS = 3000;
  const only = (...tokens: number[]): Buffer => {
    const bits = Buffer.alloc(4 * Math.ceil(vocabulary / 32));
    for (const token of tokens) bits[token >> 3]! |= 1 << (token & 7);
    return bits;
  };
  const firsts = [3, 50, 77, 120];
  const seconds = (token: number) => [token + 1, token + 2, 2 * token];
  /** Renormalized, of the logits that the step just run has left. */
  const shares = (tokens: readonly number[]): number[] => {
    const logits = device.readF32(model.forward.logits, vocabulary);
    const weights = tokens.map((token) => Math.exp(logits[token]!));
    const sum = weights.reduce((total, weight) => total + weight, 0);
    return weights.map((weight) => weight / sum);
  };
  const counts = new Map<string, number>();
  let firstShares: number[] = [];
  const secondShares = new Map<number, number[]>();
  for (let seed = 0; seed < DRAWS; seed++) {
    const driver = new Driver({ temperature: 1, seed: BigInt(seed) });
    const opening = { opens: [driver.open(1, true)], masks: [{ id: 1, allowed: only(...firsts) }] };
    const one = first(await driver.step([{ count: PROMPT.length, mask: { id: 1 } }], opening)).tokenId;
    firstShares = shares(firsts);
    const masks = [{ id: 2, allowed: only(...seconds(one)) }];
    const two = first(await driver.step([{ position: PROMPT.length, mask: { id: 2 } }], { masks })).tokenId;
    secondShares.set(one, shares(seconds(one)));
    counts.set(`${one} ${two}`, (counts.get(`${one} ${two}`) ?? 0) + 1);
  }
  let statistic = 0;
  for (const [i, one] of firsts.entries()) {
    for (const [j, two] of seconds(one).entries()) {
      const expected = DRAWS * firstShares[i]! * secondShares.get(one)![j]!;
      expect(expected).toBeGreaterThan(5);
      statistic += ((counts.get(`${one} ${two}`) ?? 0) - expected) ** 2 / expected;
    }
  }
  // Chi-square of 11 degrees of freedom: exceeded once in 10,000 times; the seeds are always the same.
  expect(statistic).toBeLessThan(37.4);
});

describe('a frame is refused', () => {
  const opened = async (): Promise<Driver> => {
    const driver = new Driver({});
    const known = driver.mask(PROMPT.at(-1)!);
    const opens = [driver.open(0, false), driver.open(1, true)];
    const slices = [
      { slot: 0, count: PROMPT.length },
      { slot: 1, count: PROMPT.length, mask: { id: known.id } },
    ];
    await driver.step(slices, { opens, masks: [known] });
    return driver;
  };
  const position = PROMPT.length;

  it('that gives a free slot a mask', async () => {
    const driver = await opened();
    await expect(driver.step([{ slot: 0, position, mask: { id: 1 } }])).rejects.toThrow('slot 0 is not constrained');
  });

  it('that gives a constrained slot none', async () => {
    const driver = await opened();
    await expect(driver.step([{ position }])).rejects.toThrow('slot 1 is constrained');
  });

  it('that names a mask which is not there', async () => {
    const driver = await opened();
    await expect(driver.step([{ position, mask: { id: 9 } }])).rejects.toThrow('mask 9, which is not there');
  });

  it('whose draftTokens have not a mask each', async () => {
    const words = (...values: number[]) => Buffer.from(Uint32Array.from(values).buffer);
    const draftTokens = { position, count: 2, tokenIds: words(1, 2) };
    const refused = async (slice: Partial<Slice>) => {
      const driver = await opened();
      return expect(driver.step([slice])).rejects;
    };
    await (await refused({ ...draftTokens, draftTokenMasks: words(1) })).toThrow('1 masks for 2 outputs of slot 1');
    await (await refused({ ...draftTokens, mask: { id: 1 } })).toThrow('0 masks for 2 outputs of slot 1');
    await (await refused({ ...draftTokens, draftTokenMasks: words(1, 9) })).toThrow('mask 9, which is not there');
    await (await refused({ ...draftTokens, draftTokenMasks: words(1, 0) })).toThrow('mask 0, which is not there');
    await (await refused({ ...draftTokens, draftTokenMasks: Buffer.alloc(7) })).toThrow(
      '7 bytes are not a whole number of words',
    );
    await (await refused({ ...draftTokens, slot: 0, draftTokenMasks: words(1, 1) })).toThrow(
      'slot 0 is not constrained',
    );
    const both = { mask: { id: 1 }, draftTokenMasks: words(1, 1) };
    await (await refused({ ...draftTokens, ...both })).toThrow('two kinds of masks of slot 1');
    await (await refused({ position, mask: { id: 1 }, draftTokenMasks: words(1) })).toThrow('1 masks for 1 outputs');
  });

  it('that brings a mask of another length, or under an id beyond those there are', async () => {
    const driver = await opened();
    const bring = (id: number, bytes: number) => () =>
      driver.runner.takeMasks(driver.frame({ masks: [{ id, allowed: Buffer.alloc(bytes) }] }));
    expect(bring(1, 3)).toThrow('mask 1 of 3 bytes');
    expect(bring(0, 4 * Math.ceil(vocabulary / 32))).toThrow(`mask 0 of ${maskIdsFor(SEQUENCES)}`);
    expect(bring(maskIdsFor(SEQUENCES) + 1, 4)).toThrow(`of ${maskIdsFor(SEQUENCES)}`);
  });

  it('that goes on beyond a token that is missing', async () => {
    const driver = await opened();
    expect(
      first(
        await driver.step([
          { position, mask: { id: 0 } },
          { slot: 0, position },
        ]),
      ).late,
    ).toBe(true);
    await expect(driver.step([{ position: position + 2, mask: { id: 1 } }])).rejects.toThrow(
      'whose token 9 is missing',
    );
  });
});
