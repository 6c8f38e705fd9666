import { createHash } from 'node:crypto';
import type { GgufMetadata, GgufValue } from '../../../../lib/gguf/metadata.js';
import type { EmbeddingFacts } from '../../../request/embedding.js';
import type { OfferedModel } from '../../models.js';
import type { HttpFacts } from '../context.js';

type Json = Readonly<Record<string, unknown>>;

/** Names of `general.file_type` (llama.cpp's `llama_ftype`). */
const FILE_TYPES: Readonly<Record<number, string>> = {
  ...{ 0: 'F32', 1: 'F16', 2: 'Q4_0', 3: 'Q4_1', 7: 'Q8_0', 8: 'Q5_0', 9: 'Q5_1', 10: 'Q2_K' },
  ...{ 11: 'Q3_K_S', 12: 'Q3_K_M', 13: 'Q3_K_L', 14: 'Q4_K_S', 15: 'Q4_K_M', 16: 'Q5_K_S', 17: 'Q5_K_M', 18: 'Q6_K' },
  ...{ 25: 'IQ4_NL', 30: 'IQ4_XS', 32: 'BF16', 38: 'MXFP4' },
};

/** Numbers with the units of Ollama's `parameter_size`. */
const UNITS = [
  [1e9, 'B'],
  [1e6, 'M'],
  [1e3, 'K'],
] as const;

function parameterSize(count: number): string {
  const [unit, name] = UNITS.find(([least]) => count >= least) ?? [1, ''];
  return `${Number((count / unit).toFixed(2))}${name}`;
}

/** `details` of Ollama's model objects. */
export function detailsOf({ served }: OfferedModel): Json {
  const { architecture, parameters, file } = served;
  const type = file.header.metadata.number('general.file_type');
  return {
    parent_model: '',
    format: 'gguf',
    family: architecture,
    families: [architecture],
    parameter_size: parameterSize(parameters),
    quantization_level: (type === undefined ? undefined : FILE_TYPES[type]) ?? 'unknown',
  };
}

/** A model as `/api/tags` and `/api/ps` list it. `digest` identifies the content; it is not the file's SHA-256. */
export function listedModel(model: OfferedModel): Json {
  const { name, file } = model.served;
  const digest = createHash('sha256').update(file.identity).digest('hex');
  return { name, model: name, size: file.bytes, digest, details: detailsOf(model) };
}

/** True if the file says that the model embeds: some clients offer such models for nothing else. */
const isEmbedder = (facts: EmbeddingFacts | undefined): boolean =>
  facts?.isDeclared === true && facts.refusal === undefined;

/** `capabilities` of `/api/show`. */
export function capabilitiesOf({ served }: OfferedModel): readonly string[] {
  const { answerFormat, toolTemplate, toolsRefusal } = served.facts;
  if (served.facts.embeddings?.isEncoder) return ['embedding'];
  return [
    'completion',
    ...(toolTemplate !== undefined && toolsRefusal === undefined ? ['tools'] : []),
    ...(answerFormat?.reasoning === undefined ? [] : ['thinking']),
    ...(served.fillIn === undefined ? [] : ['insert']),
    ...(isEmbedder(served.facts.embeddings) ? ['embedding'] : []),
  ];
}

/** Elements of an array of the metadata that are shown. */
const MOST_SHOWN = 64;

/** The metadata of the model file. Long arrays, such as the vocabulary, are null. */
export function modelInfo(metadata: GgufMetadata): Json {
  const shown = (value: GgufValue): unknown => {
    if (typeof value === 'bigint') return Number(value);
    if (typeof value !== 'object') return value;
    return value.length > MOST_SHOWN ? null : Array.from(value as ArrayLike<GgufValue>, shown);
  };
  return Object.fromEntries(
    [...metadata]
      .filter(([key]) => !key.startsWith('tokenizer.chat_template'))
      .map(([key, value]) => [key, shown(value)]),
  );
}

/** Parameters of a Modelfile: what ends a response. */
export function modelParameters({ endIds, tokenText }: HttpFacts): string {
  return [...endIds].map((id) => `stop ${JSON.stringify(tokenText(id))}`).join('\n');
}
