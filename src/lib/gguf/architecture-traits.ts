import type { ArchitectureKeys } from './architecture-keys.js';
import type { AliasName, ArchitectureName } from './architectures.js';
import { ENCODER_READERS } from './encoder-traits.js';
import { readGemma3n } from './gemma3n.js';
import { type Latents, readLatents } from './latents.js';
import { type LayerShape, readGemmaShapes } from './layer-shapes.js';
import type { ModelParameters } from './model-parameters.js';
import {
  type MambaStates,
  type Recurrent,
  readMamba,
  readRecurrent,
  readShortConvolutions,
  type ShortConvolutions,
} from './recurrent.js';
import { checkRopeSections, readRopeSections } from './rope-sections.js';
import { readWindow } from './windows.js';
import { readXielus, type Xielu } from './xielu.js';

/** Properties that only some architectures have. Absent: as if it were not there. */
export interface Traits {
  /** Layers with sliding window attention. */
  readonly window?: Window;
  /** The embedding's rows are multiplied by it. */
  readonly embeddingScale?: number;
  /** Factor of each residual branch. */
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
  /** Attention temperature: queries at position p are multiplied by 1 + scale · ln(1 + ⌊p / length⌋). */
  readonly temperature?: { readonly scale: number; readonly length: number };
  /** No layer has RoPE (NoPE). */
  readonly isUnrotated?: true;
  /** NeoX-style RoPE, in a family whose RoPE is otherwise interleaved. */
  readonly hasNeoxRope?: true;
  /** Shape of each layer, where they differ. */
  readonly shapes?: readonly LayerShape[];
  /** Width of what each layer gets beside the residual stream; Gemma's per-layer embeddings. */
  readonly layerInputSize?: number;
  /** Standard deviations above their mean from which on a layer's gates count; undefined of a layer whose gates all do. */
  readonly gateDeviations?: readonly (number | undefined)[];
  /** Sizes of latent attention, which all layers have. */
  readonly latents?: Latents;
  /** MLPs have no gate, and this activation, or one of each layer; experts, too, if it is max(x, 0)². */
  readonly ungated?: 'relu-squared' | 'gelu' | readonly Xielu[];
  /** Every position sees the whole input, or a window on both sides of it, and there are hidden states but no logits. */
  readonly isEncoder?: true;
  /** Scores of each head are lowered by its slope times the distance of the two positions: ALiBi. */
  readonly slopes?: readonly number[];
  /** Width between the two products behind the pooling of hidden states; absent: there are none. */
  readonly denseSize?: number;
  /** Activation of the gates of MLPs; absent: SiLU, or that of the family. */
  readonly gateActivation?: 'gelu';
  /** Attention and MLP take the same residual stream. */
  readonly isParallel?: true;
  /** Blocks may have LayerNorms of heads, and one without a norm before its MLP is parallel. */
  readonly variesNorms?: true;
  /** Which layers are an FFN alone; absent: each has one behind its attention. */
  readonly ffnLayers?: readonly boolean[];
  /** Layers that have a state instead of keys and values. */
  readonly recurrent?: Recurrent | ShortConvolutions | MambaStates;
}

export interface Window {
  /** Positions that a row sees, its own included; in an encoder half of them are before it and half behind it. */
  readonly size: number;
  /** Which layers are windowed. */
  readonly layers: readonly boolean[];
  /** Base of RoPE's frequencies in windowed layers, without any scaling of positions; absent: they are turned as others. */
  readonly ropeFreqBase?: number;
  /** Leading elements of each head that RoPE rotates in windowed layers; absent: as many as in others. */
  readonly ropeDimensions?: number;
}

const SCALE = [1e-6, 1e6] as const;
const CAP = [1e-3, 1e6] as const;

/** Reads the keys that one architecture has and others have not. */
export type TraitsReader = (keys: ArchitectureKeys, model: ModelParameters) => Traits;

const none: TraitsReader = () => ({});

const READERS: Readonly<Record<ArchitectureName, TraitsReader>> = {
  llama: none,
  apertus: (keys, { layers }) => ({ ungated: readXielus(keys, layers) }),
  arcee: () => ({ ungated: 'relu-squared' }),
  qwen2: none,
  qwen3: none,
  glm4: (keys, { ropeDimensions }) =>
    readRopeSections(keys, ropeDimensions, 'contiguous') ? { hasNeoxRope: true } : {},
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
    ...optional('logitsSoftcap', keys.positiveOrUnset('final_logit_softcapping', ...CAP)),
  }),
  gemma3n: (keys, model) =>
    readGemma3n(keys, model, readWindow(keys, model, { period: 5, ropeFreqBase: 10_000 }).window),
  gemma4: readGemma4,
  'command-r': (keys) => optional('logitsScale', keys.positiveOrUnset('logit_scale', ...SCALE)),
  cohere2: (keys, model) => ({
    ...readWindow(keys, model, { period: 4 }),
    ...optional('logitsScale', keys.positiveOrUnset('logit_scale', ...SCALE)),
  }),
  // Files of 64 layers may leave out the window of the one model that has as many.
  exaone4: (keys, model) => readWindow(keys, model, { period: 4, ...(model.layers === 64 && { size: 4096 }) }),
  seed_oss: none,
  'hunyuan-dense': none,
  maincoder: none,
  starcoder2: () => ({ ungated: 'gelu' }),
  falcon: () => ({ ungated: 'gelu' }),
  gptneox: (keys) => ({
    ungated: 'gelu',
    ...((keys.optionalBoolean('use_parallel_residual') ?? keys.fail('use_parallel_residual', 'is missing')) && {
      isParallel: true,
    }),
  }),
  phi3: (keys, model) => readWindow(keys, model, { period: 0 }),
  phimoe: (keys, model) => readWindow(keys, model, { period: 0 }),
  olmo2: (keys, model) => readWindow(keys, model, { period: 4, ropeFreqBase: model.ropeFreqBase }),
  granite: readGranite,
  qwen2moe: none,
  qwen3moe: none,
  granitemoe: readGranite,
  granitehybrid: (keys, model) => ({
    ...readGranite(keys),
    recurrent: readMamba(keys, withoutHeads(keys, model.layers)),
  }),
  'falcon-h1': (keys, { layers }) => ({ recurrent: readMamba(keys, Array<boolean>(layers).fill(true)) }),
  glm4moe: (keys, { ropeDimensions }) => {
    readRopeSections(keys, ropeDimensions, 'contiguous');
    return {};
  },
  nemotron_h: readNemotron,
  nemotron_h_moe: readNemotron,
  deepseek2: readDeepseek2,
  olmoe: none,
  'ernie4_5-moe': readErnie,
  dots1: none,
  deepseek: none,
  bailingmoe: none,
  'hunyuan-moe': none,
  mellum: (keys, model) => readWindow(keys, model, { period: 4, ropeFreqBase: model.ropeFreqBase }),
  bailingmoe2: none,
  'minimax-m2': none,
  'gpt-oss': (keys, model) => readWindow(keys, model, { period: 2 }),
  lfm2: readConvolutions,
  lfm2moe: readConvolutions,
  qwen3next: (keys, { layers }) => ({ recurrent: { ...readRecurrent(keys, layers), isGrouped: true } }),
  qwen35: readHybrid,
  qwen35moe: readHybrid,
  ...ENCODER_READERS,
  mistral3: (keys, { originalContextLength: length }) => {
    const scale = keys.positiveOrUnset('attention.temperature_scale', ...SCALE);
    keys.expectEqual('attention.temperature_length', length);
    return scale === undefined ? {} : { temperature: { scale, length } };
  },
};

/** Readers of aliases that have keys of their own, in place of their family's reader. */
const ALIAS_READERS: Readonly<Partial<Record<AliasName, TraitsReader>>> = {
  baichuan: (keys, { layers }) => {
    // Which the file does not say: of the two sizes only the smaller one turns its queries and keys.
    if (layers !== 32) keys.unsupported('block_count', `is ${layers}; of baichuan only the 7B, of 32 layers, has RoPE`);
    return {};
  },
  ernie4_5: readErnie,
  jais2: () => ({ ungated: 'relu-squared' }),
  minicpm: (keys, { layers, hiddenSize }) => ({
    logitsDivisor: keys.positiveOrUnset('logit_scale', ...SCALE) ?? 256 / hiddenSize,
    residualScale: keys.positiveOrUnset('residual_scale', ...SCALE) ?? 1.4 / Math.sqrt(layers),
    embeddingScale: keys.positiveOrUnset('embedding_scale', ...SCALE) ?? 12,
  }),
  nanbeige: (keys) => {
    const loops = keys.optionalCount('num_loops') ?? 1;
    if (loops !== 1) keys.unsupported('num_loops', `is ${loops}: layers that run several times are not supported`);
    // The norm between two loops, of which there is one.
    keys.optionalBoolean('skip_loop_final_norm');
    return {};
  },
  nemotron: (keys, { heads, headDim, hiddenSize }) => {
    // Its converter counts rotated elements by the width of the residual stream, which is wrong where heads have another.
    if (heads * headDim !== hiddenSize)
      keys.unsupported(
        'attention.key_length',
        `is ${headDim}: ${heads} heads are not as wide as the hidden size ${hiddenSize}`,
      );
    return { ungated: 'relu-squared' };
  },
  orion: none,
  paddleocr: (keys, { ropeDimensions }) => requireSections(keys, ropeDimensions, 'contiguous'),
  qwen2vl: (keys, { ropeDimensions }) => requireSections(keys, ropeDimensions, 'contiguous'),
  qwen3vl: (keys, { ropeDimensions }) => requireSections(keys, ropeDimensions, 'interleaved'),
  qwen3vlmoe: (keys, { ropeDimensions }) => requireSections(keys, ropeDimensions, 'interleaved'),
  stablelm: (keys) => {
    // Said by its converter, and true of models without ffn_norm alone.
    keys.optionalBoolean('use_parallel_residual');
    return { variesNorms: true };
  },
};

/**
 * Properties of the architecture that others lack.
 *
 * @throws GgufError `GGUF_INVALID` for a key of the wrong type, or a number that no model comes near
 */
export function readTraits(family: ArchitectureName, keys: ArchitectureKeys, model: ModelParameters): Traits {
  const reader = ALIAS_READERS[keys.architecture as AliasName] ?? READERS[family];
  const traits = reader(keys, model);
  acceptWindowBase(keys, model, traits);
  keys.expectEqual('attention.scale', traits.attentionScale ?? 1 / Math.sqrt(model.headDim));
  return traits;
}

/** A base for windowed layers changes nothing where there are none, or where it is the base of the other layers. */
function acceptWindowBase(keys: ArchitectureKeys, { ropeFreqBase }: ModelParameters, { window }: Traits): void {
  if (window?.ropeFreqBase !== undefined) return;
  if (window === undefined) keys.optionalNumber('rope.freq_base_swa');
  else keys.expectEqual('rope.freq_base_swa', ropeFreqBase);
}

function requireSections(keys: ArchitectureKeys, ropeDimensions: number, order: 'contiguous' | 'interleaved'): Traits {
  checkRopeSections(keys, ropeDimensions, order);
  return {};
}

/** Text is turned by one position; the sections are of PaddleOCR, which shares the converter. */
function readErnie(keys: ArchitectureKeys): Traits {
  keys.numbers('rope.dimension_sections');
  return {};
}

/** Windowed layers have heads and a rotation of their own, and the last layers may share keys and values of earlier ones. */
function readGemma4(keys: ArchitectureKeys, model: ModelParameters): Traits {
  const { window } = readWindow(keys, model, { period: 6, ropeFreqBase: 10_000 });
  if (window === undefined) keys.fail('attention.sliding_window', 'is missing or 0');
  const { shapes, ropeDimensions } = readGemmaShapes(keys, model, window.layers);
  const layerInputSize = keys.countOrNone('embedding_length_per_layer_input');
  return {
    embeddingScale: Math.sqrt(model.hiddenSize),
    attentionScale: 1,
    window: { ...window, ropeDimensions },
    shapes,
    ...(layerInputSize > 0 && { layerInputSize }),
    ...optional('logitsSoftcap', keys.positiveOrUnset('final_logit_softcapping', ...CAP)),
  };
}

/**
 * Scores are scaled by the square of what yarn multiplies rotations by, whose multiplier files have a tenth of.
 */
function readDeepseek2(keys: ArchitectureKeys, model: ModelParameters): Traits {
  const latents = readLatents(keys, model);
  const { factor = 1, yarn } = model.ropeScaling ?? {};
  const grown = yarn === undefined ? 1 : 1 + yarn.logMultiplier * Math.log(Math.max(1, factor));
  const scale = keys.positiveOrUnset('attention.temperature_scale', ...SCALE);
  const length = keys.optionalCount('attention.temperature_length') ?? model.originalContextLength;
  return {
    latents,
    attentionScale: grown ** 2 / Math.sqrt(latents.plain + latents.rotated),
    ...(scale !== undefined && { temperature: { scale, length } }),
  };
}

/** Layers without key heads, which have a state instead. */
const withoutHeads = (keys: ArchitectureKeys, layers: number): readonly boolean[] =>
  keys.layerCounts('attention.head_count_kv', layers).map((count) => count === 0);

function readConvolutions(keys: ArchitectureKeys, { layers }: ModelParameters): Traits {
  return { recurrent: readShortConvolutions(keys, layers) };
}

/** A layer is one of three: an FFN where it has a width for one, attention where it has key heads, else a state. */
function readNemotron(keys: ArchitectureKeys, { layers }: ModelParameters): Traits {
  const ffnLayers = keys.layerCounts('feed_forward_length', layers).map((width) => width > 0);
  const states = withoutHeads(keys, layers).map((isHeadless, layer) => isHeadless && ffnLayers[layer] === false);
  // Said by converters; nothing is rotated.
  keys.optionalBoolean('rope.scaling.finetuned');
  return { isUnrotated: true, ungated: 'relu-squared', ffnLayers, recurrent: readMamba(keys, states) };
}

function readHybrid(keys: ArchitectureKeys, { layers, ropeDimensions }: ModelParameters): Traits {
  checkRopeSections(keys, ropeDimensions, 'interleaved');
  return { recurrent: readRecurrent(keys, layers) };
}

function readGranite(keys: ArchitectureKeys): Traits {
  return {
    logitsDivisor: keys.positive('logit_scale', ...SCALE),
    ...optional('residualScale', keys.positiveOrUnset('residual_scale', ...SCALE)),
    ...optional('embeddingScale', keys.positiveOrUnset('embedding_scale', ...SCALE)),
    ...optional('attentionScale', keys.positiveOrUnset('attention.scale', ...SCALE)),
    // In granitemoe it is the note on the training that it is elsewhere.
    ...(['granite', 'granitehybrid'].includes(keys.architecture) &&
      keys.optionalBoolean('rope.scaling.finetuned') === false && { isUnrotated: true }),
  };
}

/** The models of 27 billion parameters, told by their layers, scale by the width of a head's share of the residual stream. */
function gemmaScale(
  { layers, hiddenSize, heads }: ModelParameters,
  layersOf27b: number,
): Pick<Traits, 'attentionScale'> {
  return layers === layersOf27b ? { attentionScale: 1 / Math.sqrt(Math.floor(hiddenSize / heads)) } : {};
}

function optional<K extends keyof Traits>(key: K, value: Traits[K] | undefined): Pick<Traits, K> | object {
  return value === undefined ? {} : { [key]: value };
}
