import type { ArchitectureKeys } from './architecture-keys.js';
import type { ModelParameters } from './model-parameters.js';

/** The most experts of a layer, and of a row, that kernels hold (`MOST_EXPERTS` of src/executor/kernels/experts.ts). */
const MOST = { experts: 512, used: 32 } as const;

/** How a router's scores become weights: parts of the softmax over all, sigmoids, or parts of the softmax over the chosen. */
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
  /** What weights are multiplied by at the end. */
  readonly scale: number;
}

/** Which architectures have experts, and what of them follows from the name alone. */
const FORMS: Readonly<Record<string, Pick<Experts, 'scoring' | 'isNormalized'>>> = {
  llama: { scoring: 'softmax', isNormalized: true },
  qwen2moe: { scoring: 'softmax', isNormalized: false },
  qwen3moe: { scoring: 'softmax', isNormalized: true },
  granitemoe: { scoring: 'softmax', isNormalized: true },
  glm4moe: { scoring: 'sigmoid', isNormalized: false },
  'gpt-oss': { scoring: 'chosen', isNormalized: false },
  qwen35moe: { scoring: 'softmax', isNormalized: true },
};

/** Of `expert_gating_func`. */
const SCORINGS: readonly (ExpertScoring | undefined)[] = [undefined, 'softmax', 'sigmoid', 'chosen'];

const SCALE = [1e-6, 1e6] as const;

/**
 * @returns undefined for a dense model
 * @throws RocmForgeError `GGUF_INVALID` for a number that is none or contradicts another; `MODEL_UNSUPPORTED` for more than
 *         kernels hold, and for forms that are not built
 */
export function readExperts(
  keys: ArchitectureKeys,
  { layers, ffnSize }: Pick<ModelParameters, 'layers' | 'ffnSize'>,
): Experts | undefined {
  const count = keys.countOrNone('expert_count');
  const form = FORMS[keys.architecture];
  if (count === 0) {
    if (form === undefined || keys.architecture === 'llama') return undefined;
    keys.fail('expert_count', `is 0 or missing: ${keys.architecture} is made of experts`);
  }
  if (form === undefined) keys.unsupported('expert_count', `is ${count}: ${keys.architecture} has no experts here`);
  const usedPerToken = keys.count('expert_used_count');
  if (usedPerToken > count)
    keys.fail('expert_used_count', `is ${usedPerToken}, more than the ${count} experts there are`);
  if (count > MOST.experts) keys.unsupported('expert_count', `is ${count}; kernels hold at most ${MOST.experts}`);
  if (usedPerToken > MOST.used) keys.unsupported('expert_used_count', `is ${usedPerToken}; kernels hold ${MOST.used}`);
  // One group of which one is used is what a model without groups is; files of glm4moe say so.
  for (const key of ['expert_group_count', 'expert_group_used_count']) {
    const groups = keys.countOrNone(key);
    if (groups > 1) keys.unsupported(key, `is ${groups}: expert groups are not supported`);
  }
  const own = keys.optionalCount('expert_feed_forward_length') ?? ffnSize;
  const all = { count, usedPerToken, ...form, ffnSize: own, sharedFfnSize: 0, denseLayers: 0, scale: 1 };
  switch (keys.architecture) {
    case 'qwen2moe':
      return { ...all, sharedFfnSize: keys.optionalCount('expert_shared_feed_forward_length') ?? ffnSize };
    case 'qwen35moe':
      return {
        ...all,
        ffnSize: keys.count('expert_feed_forward_length'),
        sharedFfnSize: keys.count('expert_shared_feed_forward_length'),
      };
    case 'granitemoe':
      return { ...all, sharedFfnSize: keys.countOrNone('expert_shared_feed_forward_length') };
    case 'glm4moe':
      return {
        ...all,
        scoring: readScoring(keys) ?? form.scoring,
        isNormalized: keys.optionalBoolean('expert_weights_norm') ?? form.isNormalized,
        scale: keys.optionalPositive('expert_weights_scale', ...SCALE) ?? 1,
        sharedFfnSize: own * keys.count('expert_shared_count'),
        denseLayers: readDenseLayers(keys, layers),
      };
    default:
      return all;
  }
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
  return SCORINGS[value] ?? keys.unsupported('expert_gating_func', `is ${value}; known are 1, 2 and 3`);
}
