/**
 * The parameters that a slot samples by, each declared once. What a gateway sends, what an executor takes, where a slot has
 * it on the device and what the kernels' header calls it follow from this table: a new one is a line here, beside its
 * field in the public API, that field's check, and the kernel that heeds it.
 */

interface Parameter<Value extends number | bigint> {
  /** As a kernel reads it: a word, of a u64 two, the lower first. */
  readonly type: 'f32' | 'u32' | 'u64';
  /** Changes nothing. */
  readonly neutral: Value;
  /** Value in requests that do not name it, if that is not neutral. */
  readonly apiDefault?: Value;
  /** Smallest value that a kernel can compute with. */
  readonly least: Value;
  readonly most: Value;
}

/** The largest finite float. */
export const MAX_F32 = 3.4028234663852886e38;
/** The smallest that no target flushes to zero. */
const MIN_F32 = 2 ** -126;
/** Kernels read words as signed. */
const MAX_WORD = 2 ** 31 - 1;
const MAX_U64 = 2n ** 64n - 1n;
/** Number of the likeliest tokens that may come with a token. */
export const TOP_LOGPROBS_MAX = 20;

const f32 = (neutral: number, least = -MAX_F32, most = MAX_F32): Parameter<number> => ({
  ...{ type: 'f32', neutral, least, most },
});
const u32 = (most = MAX_WORD): Parameter<number> => ({ type: 'u32', neutral: 0, least: 0, most });
const u64 = (): Parameter<bigint> => ({ type: 'u64', neutral: 0n, least: 0n, most: MAX_U64 });

/** Words of a slot, in this order, behind the token it sampled last. */
const SLOT_PARAMETERS = {
  /** Below 1e-6: argmax. */
  temperature: { ...f32(0, 0), apiDefault: 1 },
  /** 0: all. */
  topK: u32(),
  /** 1: all. */
  typicalP: f32(1, 0, 1),
  /** 1: all. */
  topP: f32(1, 0, 1),
  /** 0: all. */
  minP: f32(0, 0, 1),
  /** Seed of the draw. */
  seed: u64(),
  /** Which of a request's n completions: draws of one seed differ by it. */
  sampleIndex: u32(),
  /** Log probabilities that come with a token. 0: none; n + 1: the token's and those of the n likeliest. */
  logprobs: u32(1 + TOP_LOGPROBS_MAX),
  /**
   * Number of the slot's biases, the first ones, that name tokens whose log probabilities and ranks come instead of the
   * likeliest's.
   */
  chosenLogprobs: u32(TOP_LOGPROBS_MAX),
  /** Divides positive and multiplies negative logits of tokens present. */
  repetitionPenalty: f32(1, MIN_F32),
  /** Subtracted for each time a token was generated. */
  frequencyPenalty: f32(0),
  /** Subtracted once from tokens that were generated. */
  presencePenalty: f32(0),
  /** 1: of the tokens that the row's mask allows, one is drawn. */
  constrained: u32(1),
};

/** Parameters that only the executor's host side reads. */
const HOST_PARAMETERS = {
  /** As `logprobs`, of the prompt's tokens. */
  promptLogprobs: u32(1 + TOP_LOGPROBS_MAX),
  /** Generated tokens before which the suppressed ids may not be sampled. */
  minTokens: u32(),
};

export const SAMPLING_PARAMETERS = { ...SLOT_PARAMETERS, ...HOST_PARAMETERS };

type Parameters = typeof SAMPLING_PARAMETERS;
export type SamplingName = keyof Parameters;
/** A value of each parameter. */
export type SamplingValues = { readonly [Name in SamplingName]: Parameters[Name]['neutral'] };

const ENTRIES = Object.entries(SAMPLING_PARAMETERS) as [SamplingName, Parameter<number | bigint>][];
const wordsOf = ({ type }: Parameter<number | bigint>): number => (type === 'u64' ? 2 : 1);
const WORD_OF = new Map<SamplingName, number>();
let words = 0;
for (const [name, parameter] of ENTRIES) {
  WORD_OF.set(name, words);
  words += wordsOf(parameter);
}
const WORDS = words;

/** Their offset in a slot. */
export const FIRST_SAMPLING_WORD = 1;

/** Parameters that are words of a slot, each with its (first) word's index in it. */
export const SLOT_SAMPLING_WORDS = Object.fromEntries(
  Object.keys(SLOT_PARAMETERS).map((name) => [
    name,
    FIRST_SAMPLING_WORD + (WORD_OF.get(name as SamplingName) as number),
  ]),
) as { readonly [Name in keyof typeof SLOT_PARAMETERS]: number };

/** Number of their words in a slot: the first ones that are sent. */
export const SLOT_SAMPLING_COUNT = Object.values(SLOT_PARAMETERS).reduce((sum, each) => sum + wordsOf(each), 0);

/** Sampling that changes nothing: argmax of the raw logits. */
export const NEUTRAL_SAMPLING = valuesOf(({ neutral }) => neutral);

const API_DEFAULTS = valuesOf(({ neutral, apiDefault }) => apiDefault ?? neutral);

/** The values that are given by these names, and the API's defaults for those that are not. */
export function samplingOf(given: object | undefined): SamplingValues {
  const named = ENTRIES.map(([name]) => [name, (given as Partial<SamplingValues>)?.[name] ?? API_DEFAULTS[name]]);
  return Object.fromEntries(named) as SamplingValues;
}

/** As they are sent: little-endian words in the table's order. */
export function encodeSampling(values: SamplingValues): Buffer {
  const bytes = Buffer.alloc(4 * WORDS);
  let at = 0;
  for (const [name, parameter] of ENTRIES) {
    const value = values[name];
    if (parameter.type === 'f32') bytes.writeFloatLE(value as number, at);
    else if (parameter.type === 'u32') bytes.writeUInt32LE(value as number, at);
    else bytes.writeBigUInt64LE(value as bigint, at);
    at += 4 * wordsOf(parameter);
  }
  return bytes;
}

/**
 * Values as they were sent, each one that a kernel can compute with.
 *
 * @param refuse throws an error that says this
 */
export function decodeSampling(bytes: Uint8Array, refuse: (what: string) => never): SamplingValues {
  if (bytes.byteLength !== 4 * WORDS) refuse(`sampling parameters of ${bytes.byteLength} bytes, not ${4 * WORDS}`);
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const read = ENTRIES.map(([name, parameter]) => {
    const { type, least, most } = parameter;
    const value =
      type === 'f32' ? view.readFloatLE(at) : type === 'u32' ? view.readUInt32LE(at) : view.readBigUInt64LE(at);
    at += 4 * wordsOf(parameter);
    // NaN is in no range.
    if (!(value >= least && value <= most)) refuse(`${name} ${value}`);
    return [name, value];
  });
  return Object.fromEntries(read) as SamplingValues;
}

/** Those of the words sent that a slot has, from {@link FIRST_SAMPLING_WORD} on. */
export function slotSamplingWords(bytes: Uint8Array): Int32Array {
  // A copy: the message's bytes need not be aligned.
  return new Int32Array(Uint8Array.from(bytes.subarray(0, 4 * SLOT_SAMPLING_COUNT)).buffer);
}

function valuesOf(value: (parameter: Parameter<number | bigint>) => number | bigint): SamplingValues {
  return Object.fromEntries(ENTRIES.map(([name, parameter]) => [name, value(parameter)])) as unknown as SamplingValues;
}
