import type { GgufValue } from './metadata.js';
import type { GgufModel, GgufTensor } from './reader.js';

/** Something in a model file that nothing here reads, and why the model computes the same without it. */
interface Harmless {
  readonly name: RegExp;
  /** Values with which a metadata key is harmless; default: all. */
  readonly when?: (value: GgufValue) => boolean;
  /** Tensors that a metadata key is about: it means nothing in a file without them. */
  readonly of?: RegExp;
  readonly why: string;
}

const isZero = (value: GgufValue): boolean =>
  ArrayBuffer.isView(value)
    ? Array.from(value as ArrayLike<number | bigint>, Number).every((one) => one === 0)
    : value === 0;
const isMinusOne = (value: GgufValue): boolean =>
  ArrayBuffer.isView(value) && Array.from(value as ArrayLike<number | bigint>, Number).every((one) => one === -1);

const areNames = (value: GgufValue): boolean =>
  Array.isArray(value) && value.length > 0 && value.every((name) => typeof name === 'string');

/**
 * The one list of what may stand in a model file unread. Anything else that no code asks for is refused by name: a bias, a
 * scale or an expert that is passed over makes a model answer, fluently, something else.
 *
 * Keys without their architecture's prefix, as `gguf-py/gguf/constants.py` of llama.cpp names them and its converter writes
 * them for llama, qwen2 and qwen3.
 */
const HARMLESS_KEYS: readonly Harmless[] = [
  {
    name: /^attention\.layer_norm_epsilon$/,
    why: 'of LayerNorm, in an architecture that has RMSNorm; written when a config.json names it',
  },
  { name: /^tensor_data_layout$/, why: 'a note of old converters that q and k are permuted, as they always are' },
  { name: /^rope\.scaling\.finetuned$/, why: 'a note on the training' },
  { name: /^classifier\.output_labels$/, when: areNames, why: 'names of scores, which the head’s reader counts' },
  { name: /^pooling_type$/, why: 'how embeddings are made of hidden states, which the gateway reads' },
  { name: /^attention\.causal$/, when: (value) => value === true, why: 'what attention is without it' },
  { name: /^use_parallel_residual$/, when: (value) => value === false, why: 'what a block is without it' },
  { name: /^n_deepstack_layers$/, why: 'how many layers features of images are added in; none can come here' },
  { name: /^deepstack_mapping$/, when: isMinusOne, why: 'which features of images are added in each layer: none' },
  { name: /^ssm\./, of: /^blk\.\d+\.ssm_/, why: 'of state-space layers, of which a hybrid model may have none' },
  { name: /^expert_shared_feed_forward_length$/, of: /_shexp\./, why: 'the width of a shared expert' },
  { name: /./, when: isZero, why: 'a number that is not set' },
];

/**
 * Values that llama.cpp's `llama_model_save_to_file` writes for properties that an architecture lacks, if they are not 0: it
 * writes all of its parameters, set or not.
 */
const SAVED_DEFAULTS: ReadonlyMap<string, GgufValue> = new Map<string, GgufValue>([
  ['attn_logit_softcapping', 50],
  ['router_logit_softcapping', 30],
  ['final_logit_softcapping', 30],
  ['expert_group_scale', Math.fround(0.05)],
  ['expert_weights_norm', false],
  ['decoder_start_token_id', -1],
  ['token_shift_count', 2],
  ['swin_norm', false],
  ['hrm.prefix_lm', false],
  ['attention.rope_pattern', 1],
  ['ssm.dt_b_c_rms', false],
  ['kda.safe_gate', false],
  ['kda.gate_lower_bound', Number.NEGATIVE_INFINITY],
  ['activation.situ_beta', 1],
]);

/** True of a file with the defaults of two architectures that have nothing in common: no converter writes both. */
export function isSavedByLlamaCpp({ metadata }: Pick<GgufModel, 'metadata'>): boolean {
  const architecture = metadata.string('general.architecture');
  return ['router_logit_softcapping', 'token_shift_count'].every(
    (key) => metadata.get(`${architecture}.${key}`) === SAVED_DEFAULTS.get(key),
  );
}

const isSavedDefault = (key: string, value: GgufValue): boolean =>
  SAVED_DEFAULTS.get(key) === value ||
  (key === 'classifier.output_labels' && Array.isArray(value) && value.length === 0);

/** Keys that are not under the file's own architecture; the first that matches decides. */
const HARMLESS_FILE_KEYS: readonly Harmless[] = [
  { name: /^general\.type$/, when: (value) => value === 'model', why: 'what a file without it is' },
  {
    name: /^general\.quantization_version$/,
    when: (value) => value === 2,
    why: 'the layout of quantized blocks that GGUF files have had from the beginning',
  },
  { name: /^general\./, why: 'names, origins and licences, and default sampling parameters' },
  { name: /^split\./, why: 'which part of a split model this is: read where the parts are put together' },
  { name: /^quantize\./, why: 'a note on how it was quantized' },
  { name: /^tokenizer\./, why: 'not the model’s: the tokenizer’s reader refuses keys that it does not know' },
  { name: /^clip\./, why: 'a tower that encodes images, which no request can bring here' },
];

/** Endings of keys that say what a model computes, or that the file is something other than a model. */
const MODEL_KEY =
  /^adapter\.|\.(attention|rope|ssm|wkv|altup|hyper_connection)\.|\.(vocab_size|context_length|block_count|pooling_type|tensor_data_layout)$|\.(embedding|feed_forward|expert|leading_dense|shared_kv|moe|nextn|dense|decoder|router|interleave)[a-z_]*$|\.[a-z_]*(_scale|_softcapping|_residual)$/;

/** Keys that may stand in a file and that the tokenizer does not read. */
const HARMLESS_TOKENIZER_KEYS: readonly Harmless[] = [
  { name: /^tokenizer\.chat_templates?$/, why: 'read where conversations are rendered; the names of its variants' },
  { name: /^tokenizer\.chat_template\./, why: 'a variant of the chat template' },
  { name: /^tokenizer\.huggingface\.json$/, why: 'the same vocabulary in another form' },
  {
    name: /^tokenizer\.ggml\.(pre|merges)$/,
    why: 'unread with SentencePiece, which cuts no text and merges by score; converters write both with it',
  },
  { name: /^tokenizer\.ggml\.add_space_prefix$/, why: 'unread with byte-level BPE, which adds none' },
  {
    name: /^tokenizer\.ggml\.(padding|seperator|separator|cls|mask)_token_id$/,
    why: 'of encoders and of training: nothing is padded or masked here, and rankings read what separates texts',
  },
  {
    name: /^tokenizer\.ggml\.(fim_(pre|suf|mid)|prefix|suffix|middle)_token_id$/,
    why: 'markers of fill-in-the-middle, which clients write by name',
  },
  { name: /^tokenizer\.ggml\.token_type_count$/, why: 'kinds of segments, of which every text is the first' },
  {
    name: /^tokenizer\.ggml\.add_sep_token$/,
    why: 'between the two texts of a pair, which rankings read; where it is the end of a text, too, its reader puts it there',
  },
  {
    name: /^tokenizer\.ggml\.(remove_extra_whitespaces|normalizer\.lowercase)$/,
    when: (value) => value === false,
    why: 'off',
  },
];

/**
 * Tensors that nothing here computes with. Those of draft models (eagle3's `d2t` and `fc`, gemma's assistants) are in files of
 * an architecture of their own, which is refused by its name.
 */
const HARMLESS_TENSORS: readonly Harmless[] = [
  {
    name: /^blk\.\d+\.attn_rot_embd$/,
    why: 'RoPE’s frequencies as old converters stored them; they follow from the base',
  },
  { name: /^(v|mm|a|resampler)\./, why: 'a tower that encodes images or sound, which no request can bring here' },
];

export const PREDICTION =
  'layers behind the last that predict tokens beyond the next one, which only --speculate mtp uses';

const SHARED = 'projections of keys and values of layers that attend to those of an earlier one';

/**
 * True if a metadata key, without its architecture's prefix, changes nothing of what a model computes.
 *
 * @param file whose key it is; absent: of a key under another architecture's name, which no tensor of the file belongs to
 */
export function isHarmlessKey(key: string, value: GgufValue, file?: Pick<GgufModel, 'metadata' | 'tensors'>): boolean {
  const lacks = (of: RegExp): boolean =>
    file !== undefined && ![...file.tensors.keys()].some((tensor) => of.test(tensor));
  const isListed = HARMLESS_KEYS.some(
    ({ name, when, of }) => name.test(key) && (when === undefined || when(value)) && (of === undefined || lacks(of)),
  );
  return isListed || (file !== undefined && isSavedByLlamaCpp(file) && isSavedDefault(key, value));
}

/**
 * True if a key that is not under the file's own architecture changes nothing of what the model computes. Quantizers leave
 * notes under names of their own: what is unknown passes, but for what names a part of a model.
 */
export function isHarmlessFileKey(key: string, value: GgufValue): boolean {
  const known = HARMLESS_FILE_KEYS.find(({ name }) => name.test(key));
  if (known !== undefined) return known.when === undefined || known.when(value);
  return !MODEL_KEY.test(key) || isHarmlessKey(key.slice(key.indexOf('.') + 1), value);
}

/** True if a key that the tokenizer did not ask for changes nothing of what texts become. */
export function isHarmlessTokenizerKey(key: string, value: GgufValue): boolean {
  return HARMLESS_TOKENIZER_KEYS.some(({ name, when }) => name.test(key) && (when === undefined || when(value)));
}

/** Tensors of a file that change nothing of what its model computes from text, and why. */
export interface UnusedTensors {
  readonly why: string;
  readonly tensors: readonly GgufTensor[];
}

/**
 * @returns one entry for each reason that there is
 * @throws GgufError `GGUF_INVALID` when the keys that say which layers only predict are no numbers
 */
export function unusedTensors(file: Pick<GgufModel, 'metadata' | 'tensors'>): readonly UnusedTensors[] {
  const isPrediction = predictionTensors(file);
  const isShared = sharedTensors(file);
  const whyOf = (tensor: string): string | undefined =>
    isPrediction(tensor)
      ? PREDICTION
      : isShared(tensor)
        ? SHARED
        : HARMLESS_TENSORS.find(({ name }) => name.test(tensor))?.why;
  const found = new Map<string, GgufTensor[]>();
  for (const tensor of file.tensors.values()) {
    const why = whyOf(tensor.name);
    if (why !== undefined) found.set(why, [...(found.get(why) ?? []), tensor]);
  }
  return [...found].map(([why, tensors]) => ({ why, tensors }));
}

/** Tensors of the last `nextn_predict_layers` blocks, whole, which `block_count` counts too. */
function predictionTensors({ metadata }: Pick<GgufModel, 'metadata'>): (tensor: string) => boolean {
  const architecture = metadata.string('general.architecture');
  const layers = metadata.number(`${architecture}.nextn_predict_layers`) ?? 0;
  if (layers === 0) return () => false;
  const first = (metadata.number(`${architecture}.block_count`) ?? Number.POSITIVE_INFINITY) - layers;
  return (tensor) => Number(/^blk\.(\d+)\./.exec(tensor)?.[1] ?? -1) >= first;
}

/** Projections of keys and values of the last `attention.shared_kv_layers` blocks, which files may have and nothing computes. */
function sharedTensors({ metadata }: Pick<GgufModel, 'metadata'>): (tensor: string) => boolean {
  const architecture = metadata.string('general.architecture');
  const layers = metadata.number(`${architecture}.attention.shared_kv_layers`) ?? 0;
  if (layers === 0) return () => false;
  const first = (metadata.number(`${architecture}.block_count`) ?? Number.POSITIVE_INFINITY) - layers;
  return (tensor) => Number(/^blk\.(\d+)\.attn_(k|v|k_norm)\./.exec(tensor)?.[1] ?? -1) >= first;
}
