import type { ArchitectureKeys } from './architecture-keys.js';
import { type ArchitectureName, familyOf } from './architectures.js';
import type { ModelParameters } from './model-parameters.js';

/** The most experts of a layer, and of a row, that kernels hold (`MOST_EXPERTS` and others of src/executor/kernels/experts.ts). */
const MOST = { experts: 512, used: 32, groups: 64 } as const;

/**
 * Function from a router's scores to weights: parts of the softmax over all, sigmoids, or parts of the softmax over the chosen.
 */
export type ExpertScoring = 'softmax' | 'sigmoid' | 'chosen';

/** Routed experts of a mixture-of-experts FFN; Shazeer et al. (2017). */
export interface Experts {
  /** Experts a layer. */
  readonly count: number;
  /** Experts each token is sent to. */
  readonly usedPerToken: number;
  /** Width of one expert. */
  readonly ffnSize: number;
  /** Width of the expert that every token is sent to; 0: there is none. */
  readonly sharedFfnSize: number;
  /** Leading blocks whose FFN is one for all tokens. */
  readonly denseLayers: number;
  readonly scoring: ExpertScoring;
  /** Weights are divided by their sum. */
  readonly isNormalized: boolean;
  /** Factor of the weights at the end. */
  readonly scale: number;
  /** Groups of consecutive experts, and how many of them a token's experts are in; absent: they are not in groups. */
  readonly groups?: { readonly count: number; readonly used: number };
}

/** Properties of a family's experts that follow from its name alone. */
interface ExpertForm extends Pick<Experts, 'scoring' | 'isNormalized'> {
  /** Files say how weights are made, and of a leading dense part and shared experts. */
  readonly isConfigured?: true;
  /** Files state the normalization and scale of weights. */
  readonly hasWeights?: true;
  /** There are models of the family without experts. */
  readonly isOptional?: true;
  /** Files say of groups of experts. */
  readonly hasGroups?: true;
}

const FORMS: Readonly<Partial<Record<ArchitectureName, ExpertForm>>> = {
  llama: { scoring: 'softmax', isNormalized: true, isOptional: true },
  mistral3: { scoring: 'softmax', isNormalized: true, isOptional: true },
  granite: { scoring: 'softmax', isNormalized: true, isOptional: true },
  qwen2moe: { scoring: 'softmax', isNormalized: false },
  qwen3moe: { scoring: 'softmax', isNormalized: true },
  granitemoe: { scoring: 'softmax', isNormalized: true },
  granitehybrid: { scoring: 'softmax', isNormalized: true, isOptional: true },
  glm4moe: { scoring: 'sigmoid', isNormalized: false, isConfigured: true },
  deepseek2: { scoring: 'softmax', isNormalized: false, isConfigured: true, hasGroups: true },
  olmoe: { scoring: 'softmax', isNormalized: false },
  'ernie4_5-moe': { scoring: 'softmax', isNormalized: true },
  dots1: { scoring: 'softmax', isNormalized: false, isConfigured: true },
  bailingmoe2: { scoring: 'softmax', isNormalized: false, isConfigured: true, hasGroups: true },
  deepseek: { scoring: 'softmax', isNormalized: false, hasWeights: true },
  bailingmoe: { scoring: 'softmax', isNormalized: false, hasWeights: true },
  'hunyuan-moe': { scoring: 'softmax', isNormalized: true },
  mellum: { scoring: 'softmax', isNormalized: true },
  'minimax-m2': { scoring: 'sigmoid', isNormalized: true },
  phimoe: { scoring: 'softmax', isNormalized: true },
  gemma4: { scoring: 'softmax', isNormalized: true, isOptional: true },
  lfm2moe: { scoring: 'sigmoid', isNormalized: true },
  'gpt-oss': { scoring: 'chosen', isNormalized: false },
  nemotron_h_moe: { scoring: 'sigmoid', isNormalized: false, hasWeights: true },
  qwen3next: { scoring: 'softmax', isNormalized: true },
  qwen35moe: { scoring: 'softmax', isNormalized: true },
};

/** Values of `expert_gating_func`. */
const SCORINGS: readonly (ExpertScoring | undefined)[] = [undefined, 'softmax', 'sigmoid', 'chosen'];

const SCALE = [1e-6, 1e6] as const;

/**
 * @returns undefined for a dense model
 * @throws GgufError `GGUF_INVALID` for a number that is none or contradicts another; `MODEL_UNSUPPORTED` for more than
 *         kernels hold, and for forms that are not built
 */
export function readExperts(
  keys: ArchitectureKeys,
  { layers, ffnSize, vocabularyRows }: Pick<ModelParameters, 'layers' | 'ffnSize' | 'vocabularyRows'>,
): Experts | undefined {
  const count = keys.countOrNone('expert_count');
  const family = familyOf(keys.architecture);
  const form = family && FORMS[family];
  if (count === 0) {
    if (form === undefined || form.isOptional) return undefined;
    keys.fail('expert_count', `is 0 or missing: ${keys.architecture} is made of experts`);
  }
  if (family === undefined || form === undefined)
    keys.unsupported('expert_count', `is ${count}: ${keys.architecture} has no experts here`);
  const usedPerToken = keys.count('expert_used_count');
  if (usedPerToken > count)
    keys.fail('expert_used_count', `is ${usedPerToken}, more than the ${count} experts there are`);
  if (count > MOST.experts) keys.unsupported('expert_count', `is ${count}; kernels hold at most ${MOST.experts}`);
  if (usedPerToken > MOST.used) keys.unsupported('expert_used_count', `is ${usedPerToken}; kernels hold ${MOST.used}`);
  const groups = form.hasGroups ? readGroups(keys, count, usedPerToken) : refuseGroups(keys);
  const own = readWidth(keys, family, ffnSize, usedPerToken);
  const { scoring, isNormalized } = form;
  const all = {
    count,
    usedPerToken,
    scoring,
    isNormalized,
    ffnSize: own,
    sharedFfnSize: 0,
    denseLayers: 0,
    scale: 1,
    ...(groups && { groups }),
  };
  if (form.isConfigured) {
    return {
      ...all,
      scoring: readScoring(keys) ?? (isGlmFlash(keys, vocabularyRows) ? 'sigmoid' : scoring),
      ...readWeights(keys, isNormalized),
      sharedFfnSize: ((family === 'bailingmoe2' && readSharedWidth(keys)) || own) * keys.count('expert_shared_count'),
      denseLayers: readDenseLayers(keys, layers),
    };
  }
  expectForm(keys, form);
  switch (family) {
    case 'qwen2moe':
    case 'qwen3next':
    case 'hunyuan-moe':
      return { ...all, sharedFfnSize: readSharedWidth(keys) || ffnSize };
    case 'qwen35moe':
      return { ...all, sharedFfnSize: keys.count('expert_shared_feed_forward_length') };
    case 'granite':
    case 'granitemoe':
    case 'granitehybrid':
      return { ...all, sharedFfnSize: readSharedWidth(keys) };
    case 'nemotron_h_moe':
      // The number of shared experts is part of their width.
      keys.countOrNone('expert_shared_count');
      return {
        ...all,
        ...readWeights(keys, isNormalized),
        sharedFfnSize: keys.count('expert_shared_feed_forward_length'),
      };
    case 'deepseek':
    case 'bailingmoe':
      return {
        ...all,
        ...readWeights(keys, isNormalized),
        sharedFfnSize: own * keys.count('expert_shared_count'),
        denseLayers: readDenseLayers(keys, layers),
      };
    case 'lfm2moe':
      return { ...all, denseLayers: readDenseLayers(keys, layers) };
    case 'ernie4_5-moe':
      // Number of layers of which one has experts.
      keys.expectEqual('interleave_moe_layer_step', 1);
      keys.countOrNone('expert_shared_count');
      return { ...all, sharedFfnSize: readSharedWidth(keys), denseLayers: readDenseLayers(keys, layers) };
    default:
      return all;
  }
}

/** The first files of GLM-4.7-Flash do not say that its scores are sigmoids; llama.cpp tells them by these numbers, too. */
const isGlmFlash = (keys: ArchitectureKeys, vocabularyRows: number): boolean =>
  keys.architecture === 'deepseek2' && [47, 48].includes(keys.count('block_count')) && vocabularyRows === 154_880;

/** One group of which one is used is what a model without groups is; files of glm4moe say so. */
function refuseGroups(keys: ArchitectureKeys): undefined {
  for (const key of ['expert_group_count', 'expert_group_used_count']) {
    const groups = keys.countOrNone(key);
    if (groups > 1) keys.unsupported(key, `is ${groups}: expert groups of ${keys.architecture} are not supported`);
  }
}

function readGroups(keys: ArchitectureKeys, experts: number, usedPerToken: number): Experts['groups'] {
  const count = keys.countOrNone('expert_group_count');
  const used = keys.countOrNone('expert_group_used_count');
  if (count <= 1) {
    if (used > 1) keys.fail('expert_group_used_count', `is ${used}, of ${count} groups`);
    return undefined;
  }
  const size = experts / count;
  // A group counts as its two best experts.
  if (!Number.isInteger(size) || size < 2)
    keys.fail('expert_group_count', `is ${count}, which makes no groups of ${experts} experts`);
  if (count > MOST.groups) keys.unsupported('expert_group_count', `is ${count}; kernels hold at most ${MOST.groups}`);
  if (used < 1 || used > count) keys.fail('expert_group_used_count', `is ${used} of ${count} groups`);
  if (used * size < usedPerToken)
    keys.fail('expert_group_used_count', `is ${used}: so many groups have fewer than ${usedPerToken} experts`);
  return { count, used };
}

const readSharedWidth = (keys: ArchitectureKeys): number => keys.countOrNone('expert_shared_feed_forward_length');

/** If a file omits it, it is a dense block's, or in Qwen's first models that width divided among the experts of a token. */
function readWidth(keys: ArchitectureKeys, family: ArchitectureName, ffnSize: number, usedPerToken: number): number {
  const stated = keys.countOrNone('expert_feed_forward_length');
  if (stated > 0) return stated;
  if (family === 'qwen35moe') return keys.count('expert_feed_forward_length');
  const isShare = ['qwen2moe', 'qwen3moe', 'qwen3next'].includes(family) && ffnSize % usedPerToken === 0;
  return isShare ? ffnSize / usedPerToken : ffnSize;
}

/** Normalization and scale of weights, where files state them. */
function readWeights(keys: ArchitectureKeys, isNormalized: boolean): Pick<Experts, 'isNormalized' | 'scale'> {
  return {
    isNormalized: keys.optionalBoolean('expert_weights_norm') ?? isNormalized,
    scale: keys.positiveOrUnset('expert_weights_scale', ...SCALE) ?? 1,
  };
}

/** Keys that say how weights are made pass where they say what the family does anyway. */
function expectForm(keys: ArchitectureKeys, { scoring, isNormalized, hasWeights }: ExpertForm): void {
  const stated = readScoring(keys);
  if (stated !== undefined && stated !== scoring)
    keys.unsupported('expert_gating_func', `is ${stated}; ${keys.architecture} has ${scoring}`);
  if (hasWeights) return;
  const norm = keys.optionalBoolean('expert_weights_norm');
  // False is what a file that llama.cpp saved has for "not set".
  const isSet = norm === true || (norm === false && !keys.isSavedByLlamaCpp);
  if (isSet && norm !== isNormalized)
    keys.unsupported('expert_weights_norm', `is ${norm}; ${keys.architecture} has ${isNormalized}`);
  keys.expectEqual('expert_weights_scale', 1);
}

function readDenseLayers(keys: ArchitectureKeys, layers: number): number {
  const dense = keys.countOrNone('leading_dense_block_count');
  if (dense >= layers)
    keys.fail('leading_dense_block_count', `is ${dense} of ${layers} layers: none would have experts`);
  return dense;
}

function readScoring(keys: ArchitectureKeys): ExpertScoring | undefined {
  const value = keys.optionalNumber('expert_gating_func') ?? 0;
  if (value === 0) return undefined;
  return SCORINGS[value] ?? keys.unsupported('expert_gating_func', `is ${value}; allowed: 1, 2, 3`);
}
