import type { ArchitectureKeys } from './architecture-keys.js';
import type { ModelParameters } from './model-parameters.js';
import { checkRopeSections, type Recurrent, readRecurrent } from './recurrent.js';

/** The architectures that can run, as `general.architecture` names them. */
export const ARCHITECTURES = [
  'llama',
  'qwen2',
  'qwen3',
  'gemma',
  'gemma2',
  'gemma3',
  'phi3',
  'glm4',
  'chatglm',
  'granite',
  'olmo2',
  'smollm3',
  'mistral3',
  'command-r',
  'qwen2moe',
  'qwen3moe',
  'granitemoe',
  'glm4moe',
  'gpt-oss',
  'qwen35',
  'qwen35moe',
] as const;
export type ArchitectureName = (typeof ARCHITECTURES)[number];

/** What only some architectures have. Absent: as if it were not there. */
export interface Traits {
  /** Layers that see the latest positions alone. */
  readonly window?: Window;
  /** The embedding's rows are multiplied by it. */
  readonly embeddingScale?: number;
  /** What is added to the residual stream is multiplied by it. */
  readonly residualScale?: number;
  /** Logits are multiplied by it. */
  readonly logitsScale?: number;
  /** Logits are divided by it. */
  readonly logitsDivisor?: number;
  /** Products of queries and keys are multiplied by it, instead of 1 / √headDim. */
  readonly attentionScale?: number;
  /** Scores of attention become cap · tanh(score / cap). */
  readonly attentionSoftcap?: number;
  /** Logits become cap · tanh(logit / cap). */
  readonly logitsSoftcap?: number;
  /** Queries at position p are multiplied by 1 + scale · ln(1 + ⌊p / length⌋). */
  readonly temperature?: { readonly scale: number; readonly length: number };
  /** No layer turns its queries and keys. */
  readonly isUnrotated?: true;
  /** Layers that have a state instead of keys and values. */
  readonly recurrent?: Recurrent;
}

export interface Window {
  /** Positions that a row sees, its own included. */
  readonly size: number;
  /** Which layers are windowed. */
  readonly layers: readonly boolean[];
  /** Base of RoPE's frequencies in windowed layers, without any scaling of positions; absent: they are turned as others. */
  readonly ropeFreqBase?: number;
}

const SCALE = [1e-6, 1e6] as const;
const CAP = [1e-3, 1e6] as const;
const FREQ_BASE = [1, 1e15] as const;

/** Reads the keys that one architecture has and others have not. */
type TraitsReader = (keys: ArchitectureKeys, model: ModelParameters) => Traits;

const none: TraitsReader = () => ({});

const READERS: Readonly<Record<ArchitectureName, TraitsReader>> = {
  llama: none,
  qwen2: none,
  qwen3: none,
  glm4: none,
  chatglm: none,
  smollm3: none,
  gemma: (_keys, { hiddenSize }) => ({ embeddingScale: Math.sqrt(hiddenSize) }),
  gemma2: (keys, model) => ({
    embeddingScale: Math.sqrt(model.hiddenSize),
    ...readWindow(keys, model, { period: 2, size: 4096 }),
    ...gemmaScale(model, 46),
    ...optional('attentionSoftcap', keys.optionalPositive('attn_logit_softcapping', ...CAP) ?? 50),
    ...optional('logitsSoftcap', keys.optionalPositive('final_logit_softcapping', ...CAP) ?? 30),
  }),
  gemma3: (keys, model) => ({
    embeddingScale: Math.sqrt(model.hiddenSize),
    ...readWindow(keys, model, { period: 6, ropeFreqBase: 10_000 }),
    ...gemmaScale(model, 62),
    ...optional('logitsSoftcap', positiveOrNone(keys, 'final_logit_softcapping', CAP)),
  }),
  'command-r': (keys) => ({ logitsScale: keys.positive('logit_scale', ...SCALE) }),
  phi3: (keys, model) => readWindow(keys, model, { period: 0 }),
  olmo2: (keys, model) => readWindow(keys, model, { period: 4, ropeFreqBase: model.ropeFreqBase }),
  granite: readGranite,
  qwen2moe: none,
  qwen3moe: none,
  granitemoe: readGranite,
  glm4moe: none,
  'gpt-oss': (keys, model) => readWindow(keys, model, { period: 2 }),
  qwen35: readHybrid,
  qwen35moe: readHybrid,
  mistral3: (keys, { originalContextLength: length }) => {
    const scale = positiveOrNone(keys, 'attention.temperature_scale', SCALE);
    return scale === undefined ? {} : { temperature: { scale, length } };
  },
};

/**
 * What the architecture has that others have not.
 *
 * @throws RocmForgeError `GGUF_INVALID` for a key of the wrong type, or a number that no model comes near
 */
export function readTraits(name: ArchitectureName, keys: ArchitectureKeys, model: ModelParameters): Traits {
  return READERS[name](keys, model);
}

/**
 * Of `period` layers the last sees everything, the others are windowed; with 0 all are. A list of a boolean a layer says so
 * itself. No size is no window. The base is read where windowed layers have one of their own.
 */
function readWindow(
  keys: ArchitectureKeys,
  { layers }: ModelParameters,
  defaults: { readonly period: number; readonly size?: number; readonly ropeFreqBase?: number },
): Pick<Traits, 'window'> {
  const size = keys.optionalNumber('attention.sliding_window') ?? defaults.size ?? 0;
  const pattern = keys.numberOrBooleans('attention.sliding_window_pattern') ?? defaults.period;
  const ropeFreqBase =
    defaults.ropeFreqBase && (keys.optionalPositive('rope.freq_base_swa', ...FREQ_BASE) ?? defaults.ropeFreqBase);
  if (!Number.isSafeInteger(size) || size < 0) keys.fail('attention.sliding_window', `is ${size}`);
  if (typeof pattern !== 'number' && pattern.length !== layers) {
    keys.fail('attention.sliding_window_pattern', `has ${pattern.length} entries for ${layers} layers`);
  }
  if (size === 0) return {};
  const isWindowed = (layer: number): boolean =>
    typeof pattern === 'number' ? pattern === 0 || layer % pattern < pattern - 1 : pattern[layer] === true;
  const windowed = Array.from({ length: layers }, (_, layer) => isWindowed(layer));
  return { window: { size, layers: windowed, ...(ropeFreqBase !== undefined && { ropeFreqBase }) } };
}

function readHybrid(keys: ArchitectureKeys, { layers, ropeDimensions }: ModelParameters): Traits {
  checkRopeSections(keys, ropeDimensions);
  return { recurrent: readRecurrent(keys, layers) };
}

function readGranite(keys: ArchitectureKeys): Traits {
  return {
    logitsDivisor: keys.positive('logit_scale', ...SCALE),
    ...optional('residualScale', positiveOrNone(keys, 'residual_scale', SCALE)),
    ...optional('embeddingScale', positiveOrNone(keys, 'embedding_scale', SCALE)),
    ...optional('attentionScale', positiveOrNone(keys, 'attention.scale', SCALE)),
    ...(keys.optionalBoolean('rope.scaling.finetuned') === false && { isUnrotated: true }),
  };
}

/** The models of 27 billion parameters, told by their layers, scale by the width of a head's share of the residual stream. */
function gemmaScale(
  { layers, hiddenSize, heads }: ModelParameters,
  layersOf27b: number,
): Pick<Traits, 'attentionScale'> {
  return layers === layersOf27b ? { attentionScale: 1 / Math.sqrt(Math.floor(hiddenSize / heads)) } : {};
}

function positiveOrNone(keys: ArchitectureKeys, key: string, bounds: readonly [number, number]): number | undefined {
  return keys.optionalNumber(key) === 0 ? undefined : keys.optionalPositive(key, ...bounds);
}

function optional<K extends keyof Traits>(key: K, value: Traits[K] | undefined): Pick<Traits, K> | object {
  return value === undefined ? {} : { [key]: value };
}
