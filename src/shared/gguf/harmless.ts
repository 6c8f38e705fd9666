import type { GgufValue } from './metadata.js';

/** Something in a model file that nothing here reads, and why the model computes the same without it. */
interface Harmless {
  readonly name: RegExp;
  /** Of a metadata key: the values with which it is harmless; default: all. */
  readonly when?: (value: GgufValue) => boolean;
  readonly why: string;
}

const isZero = (value: GgufValue): boolean => Number(value) === 0;

/**
 * The one list of what may stand in a model file unread. Anything else that no code asks for is refused by name: a bias, a
 * scale or an expert that is passed over makes a model answer, fluently, something else.
 *
 * Keys without their architecture's prefix, as `gguf-py/gguf/constants.py` of llama.cpp names them and its converter writes
 * them for llama and qwen2.
 */
const HARMLESS_KEYS: readonly Harmless[] = [
  {
    name: /^attention\.layer_norm_epsilon$/,
    why: 'of LayerNorm, which these architectures have none of; written when a config.json names it',
  },
  { name: /^tensor_data_layout$/, why: 'a note of old converters that q and k are permuted, as they always are' },
  { name: /^rope\.scaling\.finetuned$/, why: 'a note on the training' },
  { name: /^pooling_type$/, why: 'how embeddings of whole texts are made; none are made here' },
  { name: /^attention\.causal$/, when: (value) => value === true, why: 'what attention is without it' },
  { name: /^use_parallel_residual$/, when: (value) => value === false, why: 'what a block is without it' },
  { name: /^expert_used_count$/, when: isZero, why: 'a dense model' },
  { name: /^(attention\.max_alibi_bias|attention\.clamp_kqv)$/, when: isZero, why: 'off' },
  { name: /^(attention\.sliding_window|nextn_predict_layers)$/, when: isZero, why: 'none' },
];

const HARMLESS_TENSORS: readonly Harmless[] = [
  {
    name: /^blk\.\d+\.attn_rot_embd$/,
    why: 'RoPE’s frequencies as old converters stored them; they follow from the base',
  },
  { name: /^(v|mm|a)\./, why: 'a tower that encodes images or sound, which no request can bring here' },
];

/** Whether a metadata key, without its architecture's prefix, changes nothing of what the model computes. */
export function isHarmlessKey(key: string, value: GgufValue): boolean {
  return HARMLESS_KEYS.some(({ name, when }) => name.test(key) && (when === undefined || when(value)));
}

/** Whether a tensor changes nothing of what the model computes from text. */
export function isHarmlessTensor(tensor: string): boolean {
  return HARMLESS_TENSORS.some(({ name }) => name.test(tensor));
}
