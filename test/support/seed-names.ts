/** Names of the seed documents' kernels and files, and the names of the same kernels here. */
export interface SeedName {
  readonly seed: string;
  /** Kernels of this library: names of contracts. */
  readonly kernels: readonly string[];
  /** Why the name or the cut is another; nothing where it is the same. */
  readonly why?: string;
}

const PAIR = (name: string) => [`${name}_f32`, `${name}_f16`];

/** Every kernel that the five seed documents name. */
export const SEED_NAMES: readonly SeedName[] = [
  { seed: 'scale_kernel', kernels: PAIR('scale'), why: 'a variant a type' },
  { seed: 'scale_gpu_kernel', kernels: PAIR('scale'), why: 'the wrapper’s name; launched through its contract' },
  { seed: 'scale_f32', kernels: ['scale_f32'], why: 'in place' },
  { seed: 'scale_f16', kernels: ['scale_f16'], why: 'in place' },
  { seed: 'mask_kernel', kernels: PAIR('mask'), why: 'masks past each row’s own position' },
  { seed: 'mask_gpu_kernel', kernels: PAIR('mask'), why: 'the wrapper’s name' },
  { seed: 'causal_mask_kernel', kernels: PAIR('causal_mask'), why: 'with the length of the past; not only square' },
  { seed: 'causal_mask_f32', kernels: ['causal_mask_f32'] },
  { seed: 'causal_mask_f16', kernels: ['causal_mask_f16'] },
  { seed: 'softmax_kernel', kernels: PAIR('softmax'), why: 'a variant a type; a block a row' },
  { seed: 'softmax_gpu_kernel', kernels: PAIR('softmax'), why: 'the wrapper’s name' },
  { seed: 'softmax_fwd', kernels: PAIR('softmax'), why: 'there is no backward pass to tell it from' },
  { seed: 'softmax_fwd_kernel', kernels: PAIR('softmax'), why: 'the same' },
  { seed: 'softmax_fwd_f32', kernels: ['softmax_f32'], why: 'the same' },
  { seed: 'softmax_fwd_f16', kernels: ['softmax_f16'], why: 'the same' },
  { seed: 'softmax_explicit', kernels: PAIR('softmax'), why: 'one softmax serves both layouts: rows are rows' },
  { seed: 'rope_kernel', kernels: ['rope'], why: 'both pairings by an argument; angles from a table' },
  { seed: 'kv_append_kernel', kernels: [...PAIR('kv_append'), 'kv_append_q8_0'], why: 'a variant a cache type; paged' },
  {
    seed: 'rope_kv_append_kernel',
    kernels: [...PAIR('rope_kv_append'), 'rope_kv_append_q8_0'],
    why: 'a variant a cache type; paged',
  },
  { seed: 'rope_kv_append_fused', kernels: [...PAIR('rope_kv_append'), 'rope_kv_append_q8_0'], why: 'the same kernel' },
  {
    seed: 'rope_and_append_kernel',
    kernels: [...PAIR('rope_kv_append'), 'rope_kv_append_q8_0'],
    why: 'the same kernel; rotates q and k, stores v as it is',
  },
  {
    seed: 'qkt_matmul',
    kernels: ['qkt_matmul', 'qkt_matmul_paged_f32', 'qkt_matmul_paged_f16'],
    why: 'scaling is the kernel scale',
  },
  { seed: 'weighted_matmul', kernels: ['weighted_matmul', 'weighted_matmul_paged_f32', 'weighted_matmul_paged_f16'] },
  {
    seed: 'flash_attention_kernel',
    kernels: ['flash_attention_causal_f32_d64', 'flash_attention_causal_f16_d64', 'attention_tile_f16_d64'],
    why: 'a variant a type and head size; on matrix units attention_tile',
  },
  {
    seed: 'flash_attention_fwd_kernel',
    kernels: ['flash_attention_causal_f32_d64', 'flash_attention_causal_f16_d64'],
    why: 'there is no backward pass to tell it from',
  },
  {
    seed: 'flash_attention',
    kernels: ['flash_attention_nocausal_d64', 'flash_attention_causal_f32_d64'],
    why: 'in two',
  },
  { seed: 'flash_attention_nocausal', kernels: ['flash_attention_nocausal_d64'], why: 'a variant a head size' },
  {
    seed: 'flash_attention_causal',
    kernels: ['flash_attention_causal_f32_d64', 'flash_attention_causal_f16_d64'],
    why: 'a variant a type and head size; paged, with past; decoding is attention_split and attention_combine',
  },
  {
    seed: 'swiglu_kernel',
    kernels: ['swiglu', 'swiglu_f16'],
    why: 'silu of the gate, not of up; gate and up in one buffer',
  },
  { seed: 'swiglu_gpu_kernel', kernels: ['swiglu', 'swiglu_f16'], why: 'the wrapper’s name' },
  {
    seed: 'GEMM with fused SwiGLU',
    kernels: ['gate_up_swiglu_f32', 'gate_up_swiglu_f16', 'gate_up_swiglu_packed_q4_0', 'gate_up_swiglu_tile_f16'],
    why: 'for floats, packed blocks and matrix units',
  },
  { seed: 'rms_norm_kernel', kernels: ['rms_norm', 'rms_norm_f16'], why: 'the weight stays f32' },
  {
    seed: 'LayerNorm',
    kernels: ['rms_norm'],
    why: 'what the documents call so is RMSNorm; no architecture here centres',
  },
  {
    seed: 'matmul_f32',
    kernels: ['matmul_f32', 'gemm_f32'],
    why: 'for few rows and for many; the seeds call hipBLAS, which is not needed here',
  },
  { seed: 'hipblasSgemm', kernels: ['gemm_f32', 'gemm_f16', 'gemm_bf16'], why: 'own LDS tiles; no library' },
  {
    seed: 'tiled GEMM with LDS',
    kernels: ['gemm_f32', 'gemm_f16', 'gemm_bf16'],
    why: 'named by what it is',
  },
  { seed: 'small_gemm_kernel', kernels: ['small_gemm'] },
  {
    seed: 'mfma_f32_16x16x16_f32',
    kernels: ['matmul_tile_f16', 'matmul_tile_bf16'],
    why: 'no such instruction for f32: f16 and bf16 by MFMA and WMMA behind one interface',
  },
  {
    seed: 'mfma_f32_32x32x4_f16',
    kernels: ['matmul_tile_f16'],
    why: 'tiles of 16 × 16 × 16 exist on RDNA and CDNA alike',
  },
  { seed: 'top_k_kernel', kernels: ['top_k'] },
  { seed: 'top_p_kernel', kernels: ['top_p'] },
  {
    seed: 'sample_kernel',
    kernels: ['sample', 'sample_best', 'sample_filter', 'sample_draw', 'sample_pick'],
    why: 'and a form of many blocks',
  },
  {
    seed: 'GPU sampler',
    kernels: ['sample', 'top_k', 'top_p', 'min_p', 'penalties', 'logit_bias', 'log_softmax_top'],
    why: 'its steps on their own, and in one launch',
  },
];
