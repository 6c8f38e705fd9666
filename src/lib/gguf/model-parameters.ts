import { quoted } from '../support/quoted.js';
import { ArchitectureKeys } from './architecture-keys.js';
import { familyOf } from './architectures.js';
import { type Experts, readExperts } from './experts.js';
import type { GgufModel } from './reader.js';
import { nameOf } from './split.js';
import { readVocabularySize, type VocabularySource } from './vocabulary-size.js';

const DEFAULT_ROPE_FREQ_BASE = 10_000;
const ROPE_SCALING_TYPES = ['linear', 'yarn', 'longrope'] as const;

/** Limits of models, far beyond real ones. */
const BOUNDS = {
  epsilon: [1e-30, 1],
  freqBase: [1, 1e15],
  scalingFactor: [1e-3, 1e6],
  attentionFactor: [1e-3, 1e3],
  yarn: [1e-6, 1e6],
} as const;

/** Mapping of positions beyond the trained context into it. */
export interface RopeScaling {
  readonly type: (typeof ROPE_SCALING_TYPES)[number];
  /** Context stretch, > 0; 4 makes a 8k model a 32k one. */
  readonly factor: number;
  /** Parameters of type yarn. */
  readonly yarn?: Yarn;
}

/** yarn's mixture of stretched and unstretched positions: Peng et al. (2023). */
export interface Yarn {
  /** Share of the unstretched ones where they are mixed; 1 unless a file says otherwise. */
  readonly extrapolation: number;
  /** Rotations within the original context from which on frequencies are not stretched, and up to which they are. */
  readonly betaFast: number;
  readonly betaSlow: number;
  /** Rotations are multiplied by (1 + 0.1 ln factor) / (1 + 0.1 · this · ln factor). */
  readonly logMultiplier: number;
}

/** The shape of a generic decoder-only transformer, from `{architecture}.*` metadata. Dimensions are in elements. */
export interface ModelParameters {
  /** `general.architecture`, the prefix of the keys below: llama, qwen2, glm4, ... */
  readonly architecture: string;
  /** `general.name`, else the file's name. */
  readonly name: string;
  /** Transformer blocks, without those that only predict further tokens. */
  readonly layers: number;
  /** Blocks behind the last one that predict tokens beyond the next one; they are not computed. Absent: none. */
  readonly predictionLayers?: number;
  /** Tokens the model was made for, prompt and answer together. */
  readonly contextLength: number;
  /** Width of the residual stream. */
  readonly hiddenSize: number;
  /** Width between the FFN's up and down projection; where layers differ (`traits.shapes`), the largest, here and below. */
  readonly ffnSize: number;
  /** Query heads; `heads * headDim` is the width of the attention output before its projection. */
  readonly heads: number;
  /** Key and value heads; `heads / kvHeads` query heads share one (the GQA group). */
  readonly kvHeads: number;
  /** Width of one query, key or value head. */
  readonly headDim: number;
  /** Added to the mean square in RMSNorm, or to the variance in LayerNorm, > 0. */
  readonly rmsNormEpsilon: number;
  /** Leading dims of each head that RoPE rotates: even, at most `headDim`. */
  readonly ropeDimensions: number;
  /** Base of RoPE's frequencies `base^(-2i/ropeDimensions)`, > 0. */
  readonly ropeFreqBase: number;
  /** Context the model was trained on before it was stretched, tokens. */
  readonly originalContextLength: number;
  /** Absent when positions are used as they are. */
  readonly ropeScaling?: RopeScaling;
  /** Factor of every rotation's sine and cosine; absent: 1. */
  readonly ropeAttentionFactor?: number;
  /** Absent for a dense model. */
  readonly experts?: Experts;
  /** Token ids, and logits a token: entries of the tokenizer's list, or all rows where there is none. */
  readonly vocabularySize: number;
  /** Rows of the embedding and of the output projection. Those from `vocabularySize` on are padding, never computed. */
  readonly vocabularyRows: number;
  readonly vocabularySource: VocabularySource;
}

/**
 * The model's shape, checked for consistency.
 *
 * @throws GgufError `GGUF_INVALID` when a key is missing, has the wrong type or contradicts another
 * @throws GgufError `MODEL_UNSUPPORTED` for shapes this project has no kernels for: layers that differ from each
 *         other, value heads unlike key heads, an unknown RoPE scaling, an unknown vocabulary size
 */
export function readModelParameters(file: GgufModel, keys = new ArchitectureKeys(file)): ModelParameters {
  const contextLength = keys.count('context_length');
  const hiddenSize = keys.count('embedding_length');
  const blocks = readLayers(keys);
  const attention = readAttention(keys, hiddenSize, blocks.layers);
  const ropeDimensions = keys.optionalCount('rope.dimension_count') ?? attention.headDim;
  if (ropeDimensions > attention.headDim || ropeDimensions % 2 !== 0) {
    keys.fail('rope.dimension_count', `is ${ropeDimensions}, not an even number up to head_dim ${attention.headDim}`);
  }
  // Windowed layers have heads of another size in some architectures, which read these keys themselves.
  if (!isVaried(keys)) {
    keys.expectEqual('attention.key_length_swa', attention.headDim);
    keys.expectEqual('attention.value_length_swa', attention.headDim);
    keys.expectEqual('rope.dimension_count_swa', ropeDimensions);
  }
  const ropeScaling = readRopeScaling(keys);
  const originalContextLength = keys.optionalCount('rope.scaling.original_context_length') ?? contextLength;
  const ropeAttentionFactor = keys.optionalPositive('rope.scaling.attn_factor', ...BOUNDS.attentionFactor);
  // Files whose every FFN is of experts may leave out a width that none has.
  const stated = isVaried(keys)
    ? Math.max(...keys.layerCounts('feed_forward_length', blocks.layers))
    : (keys.optionalCount('feed_forward_length') ??
      (keys.countOrNone('expert_feed_forward_length') || keys.count('feed_forward_length')));
  // Qwen 1 counts gate and up together.
  const ffnSize = keys.architecture === 'qwen' ? stated / 2 : stated;
  if (!Number.isInteger(ffnSize)) keys.fail('feed_forward_length', `is ${stated}: gate and up have half of it each`);
  const vocabulary = readVocabularySize(file, keys, hiddenSize);
  const experts = readExperts(keys, { ...blocks, ffnSize, vocabularyRows: vocabulary.rows });
  return {
    architecture: keys.architecture,
    name: file.metadata.string('general.name') ?? nameOf(file.name),
    ...blocks,
    contextLength,
    hiddenSize,
    ffnSize,
    ...attention,
    rmsNormEpsilon: readEpsilon(keys),
    ropeDimensions,
    ropeFreqBase: keys.optionalPositive('rope.freq_base', ...BOUNDS.freqBase) ?? DEFAULT_ROPE_FREQ_BASE,
    originalContextLength,
    ...(ropeScaling && { ropeScaling }),
    ...(ropeAttentionFactor !== undefined && ropeAttentionFactor !== 1 && { ropeAttentionFactor }),
    ...(experts && { experts }),
    vocabularySize: vocabulary.tokens,
    vocabularyRows: vocabulary.rows,
    vocabularySource: vocabulary.source,
  };
}

/** Files of Nemotron-H may have LayerNorm's epsilon beside RMSNorm's, which counts, or in its place. */
function readEpsilon(keys: ArchitectureKeys): number {
  const [rms, layer] = ['attention.layer_norm_rms_epsilon', 'attention.layer_norm_epsilon'] as const;
  if (hasLayerNorm(keys)) {
    // Converters write it of configurations that name LayerNorm's so.
    keys.optionalNumber(rms);
    return keys.positive(layer, ...BOUNDS.epsilon);
  }
  const other = isNemotron(keys) ? keys.optionalPositive(layer, ...BOUNDS.epsilon) : undefined;
  return keys.optionalPositive(rms, ...BOUNDS.epsilon) ?? other ?? keys.positive(rms, ...BOUNDS.epsilon);
}

const isNemotron = ({ architecture }: ArchitectureKeys): boolean =>
  ['nemotron_h', 'nemotron_h_moe'].includes(architecture);

/** Families with LayerNorm; all others have RMSNorm. */
const LAYER_NORM_FAMILIES: readonly string[] = [
  ...['command-r', 'cohere2', 'starcoder2', 'falcon', 'gptneox'],
  ...['bert', 'nomic-bert', 'jina-bert-v2', 'modern-bert'],
];

const hasLayerNorm = ({ architecture }: ArchitectureKeys): boolean =>
  LAYER_NORM_FAMILIES.includes(familyOf(architecture) ?? '');

/** Architectures whose layers differ in their heads and FFNs: the shape that is read here has the largest of each. */
const isVaried = ({ architecture }: ArchitectureKeys): boolean =>
  ['gemma4', 'lfm2', 'lfm2moe', 'granitehybrid', 'nemotron_h', 'nemotron_h_moe'].includes(architecture);

/** Architectures of latent attention, whose heads are read with {@link readLatents}. */
const isLatent = ({ architecture }: ArchitectureKeys): boolean => architecture === 'deepseek2';

/** A file's count of blocks has those that only predict. */
function readLayers(keys: ArchitectureKeys): Pick<ModelParameters, 'layers' | 'predictionLayers'> {
  const blocks = keys.count('block_count');
  const predictionLayers = keys.optionalNumber('nextn_predict_layers') ?? 0;
  if (!Number.isSafeInteger(predictionLayers) || predictionLayers < 0 || predictionLayers >= blocks) {
    keys.fail('nextn_predict_layers', `is ${predictionLayers} of ${blocks} blocks`);
  }
  return { layers: blocks - predictionLayers, ...(predictionLayers > 0 && { predictionLayers }) };
}

function readAttention(
  keys: ArchitectureKeys,
  hiddenSize: number,
  layers: number,
): Pick<ModelParameters, 'heads' | 'kvHeads' | 'headDim'> {
  const heads = keys.count('attention.head_count');
  const kvHeads = isVaried(keys)
    ? Math.max(...keys.layerCounts('attention.head_count_kv', layers))
    : (keys.optionalCount('attention.head_count_kv') ?? heads);
  if (heads % kvHeads !== 0) {
    keys.fail('attention.head_count_kv', `is ${kvHeads}, which does not divide the ${heads} query heads`);
  }
  const keyLength = keys.optionalCount('attention.key_length');
  if (keyLength === undefined && hiddenSize % heads !== 0) {
    keys.fail('attention.head_count', `is ${heads}, which does not divide the hidden size ${hiddenSize}`);
  }
  const headDim = keyLength ?? hiddenSize / heads;
  const valueLength = keys.optionalCount('attention.value_length') ?? headDim;
  // Latent attention has the first part of its keys for values, of as many elements as it says elsewhere.
  if (valueLength !== headDim && !isLatent(keys)) {
    keys.unsupported('attention.value_length', `is ${valueLength}, unlike the key heads of ${headDim}`);
  }
  return { heads, kvHeads, headDim };
}

/** As llama.cpp: a factor without a type is linear, and so is the old `rope.scale_linear`; linear without a factor is none. */
function readRopeScaling(keys: ArchitectureKeys): RopeScaling | undefined {
  const named = keys.optionalString('rope.scaling.type');
  const oldFactor = keys.positiveOrUnset('rope.scale_linear', ...BOUNDS.scalingFactor);
  const factor = keys.positiveOrUnset('rope.scaling.factor', ...BOUNDS.scalingFactor) ?? oldFactor;
  // Converters copy what a configuration has; without yarn it mixes nothing.
  const yarn = readYarn(keys);
  if (named === 'none') return undefined;
  const type =
    ROPE_SCALING_TYPES.find((known) => known === (named ?? 'linear')) ??
    keys.unsupported(
      'rope.scaling.type',
      `is ${quoted(String(named))}; allowed: none, ${ROPE_SCALING_TYPES.join(', ')}`,
    );
  if (type !== 'longrope' && factor === undefined) return undefined;
  // longrope stretches by its two tensors of per-frequency factors; a scalar factor is not part of it.
  if (type === 'longrope') return { type, factor: 1 };
  const scaling = { type, factor: factor ?? 1 };
  if (type !== 'yarn') return scaling;
  // Configurations have it by two names, one of which is a multiplier and the other the product: where both are the same.
  if (keys.optionalNumber(ATTENTION_FACTOR) !== 1)
    keys.expectEqual(ATTENTION_FACTOR, 1 + 0.1 * Math.log(scaling.factor));
  return { ...scaling, yarn };
}

const ATTENTION_FACTOR = 'rope.scaling.yarn_attn_factor';

/** Numbers of a file's yarn; {@link ATTENTION_FACTOR} changes nothing without it. */
function readYarn(keys: ArchitectureKeys): Yarn {
  keys.optionalNumber(ATTENTION_FACTOR);
  const number = (key: string) => keys.optionalPositive(`rope.scaling.yarn_${key}`, ...BOUNDS.yarn);
  const extrapolation = keys.optionalNumber('rope.scaling.yarn_ext_factor');
  if (extrapolation !== undefined && Math.abs(extrapolation) > 1) {
    keys.fail('rope.scaling.yarn_ext_factor', `is ${extrapolation}, which is not a share`);
  }
  return {
    // As llama.cpp: below 0 it is not set.
    extrapolation: extrapolation === undefined || extrapolation < 0 ? 1 : extrapolation,
    betaFast: number('beta_fast') ?? 32,
    betaSlow: number('beta_slow') ?? 1,
    logMultiplier: keys.optionalNumber('rope.scaling.yarn_log_multiplier') === 0 ? 0 : (number('log_multiplier') ?? 0),
  };
}
