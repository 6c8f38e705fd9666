import type { BuilderValue } from './gguf-builder.js';
import type { RandomFamily } from './random-family.js';

/** Keys of latent attention. */
export function latentKeys(
  architecture: string,
  { queryRank, rank, plain, rotated, valueDim }: NonNullable<RandomFamily['latents']>,
): Record<string, BuilderValue> {
  return {
    [`${architecture}.attention.head_count_kv`]: 1,
    [`${architecture}.attention.key_length`]: rank + rotated,
    [`${architecture}.attention.value_length`]: rank,
    [`${architecture}.attention.key_length_mla`]: plain + rotated,
    [`${architecture}.attention.value_length_mla`]: valueDim,
    [`${architecture}.attention.kv_lora_rank`]: rank,
    ...(queryRank !== undefined && { [`${architecture}.attention.q_lora_rank`]: queryRank }),
    [`${architecture}.rope.dimension_count`]: rotated,
  };
}

/** Keys of state-space layers. @param times as many heads as the family's */
export function mambaKeys(
  architecture: string,
  { heads, dim, state, groups }: NonNullable<RandomFamily['mamba']>,
  times: number,
): Record<string, BuilderValue> {
  return {
    [`${architecture}.ssm.conv_kernel`]: 4,
    [`${architecture}.ssm.state_size`]: state,
    [`${architecture}.ssm.group_count`]: groups,
    [`${architecture}.ssm.time_step_rank`]: heads * times,
    [`${architecture}.ssm.inner_size`]: heads * times * dim,
  };
}
