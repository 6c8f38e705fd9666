import { RocmForgeError } from '../../shared/errors.js';
import type { GgufModel } from '../../shared/gguf/reader.js';
import type { ServableModel } from '../../shared/gguf/servable-model.js';
import type { ModelFile } from './model-file.js';

/** A product with a bias: rows `[outputs, inputs]`, and `[outputs]`. */
interface Projection {
  readonly rows: readonly Float32Array[];
  readonly bias: Float32Array | undefined;
}

interface Parts {
  readonly dense: Projection | undefined;
  readonly activation: 'tanh' | 'gelu';
  /** Weights of a LayerNorm behind the activation, and its epsilon. */
  readonly norm: Float32Array | undefined;
  readonly epsilon: number;
  readonly output: Projection | undefined;
  /** True if the score is the first label's share of the softmax; else it is its logit. */
  readonly isShare: boolean;
}

/**
 * Classification head of a reranker, in double precision: `cls`, an activation, `cls.norm` and `cls.output`, each if the file has it.
 * As in llama.cpp's `build_pooling` the activation is tanh, of ModernBERT GELU, and a decoder's score the share of its first label.
 */
export class ClassificationHead {
  private constructor(private readonly parts: Parts) {}

  /**
   * The head of a file; undefined if it has none.
   *
   * @throws RocmForgeError `MODEL_UNSUPPORTED` for a head of other sizes than the model's, or whose weights have a type that is not read
   */
  static of(
    file: Pick<ModelFile, 'header' | 'smallMatrix'>,
    { hiddenSize, traits }: Pick<ServableModel, 'hiddenSize' | 'traits'>,
  ): ClassificationHead | undefined {
    if (!hasHead(file.header)) return undefined;
    const { metadata } = file.header;
    const architecture = metadata.string('general.architecture') ?? '';
    const isEncoder = traits.isEncoder === true;
    /** @param outputs number of rows; absent: as many as inputs at most */
    const projection = (name: string, inputs: number, outputs?: number): Projection | undefined => {
      const [columns, count = 1] = file.header.tensors.get(`${name}.weight`)?.dims ?? [];
      if (columns === undefined) return undefined;
      check(`${name}.weight`, columns, inputs);
      check(`${name}.weight`, count, outputs ?? Math.min(count, inputs));
      const rows = file.smallMatrix(`${name}.weight`) as readonly Float32Array[];
      return { rows, bias: vector(`${name}.bias`, rows.length) };
    };
    const vector = (name: string, length: number): Float32Array | undefined => {
      const dims = file.header.tensors.get(name)?.dims;
      if (dims === undefined) return undefined;
      check(
        name,
        dims.reduce((product, size) => product * size, 1),
        length,
      );
      return file.smallMatrix(name)?.[0];
    };
    const labels = labelsOf(metadata.get(`${architecture}.classifier.output_labels`));
    const dense = isEncoder ? projection('cls', hiddenSize) : undefined;
    const width = dense?.rows.length ?? hiddenSize;
    const output = projection('cls.output', width, isEncoder ? labels : undefined);
    if (output === undefined) check('cls.weight', width, labels);
    return new ClassificationHead({
      ...{ dense, output },
      activation: architecture === 'modern-bert' ? 'gelu' : 'tanh',
      norm: dense && vector('cls.norm.weight', width),
      epsilon: metadata.number(`${architecture}.attention.layer_norm_epsilon`) ?? 0,
      isShare: !isEncoder,
    });
  }

  /** @param hidden a pooled hidden state, `[hidden size]` @returns the score of the first label */
  score(hidden: Float32Array): number {
    const { dense, activation, norm, epsilon, output, isShare } = this.parts;
    let values: Float64Array = Float64Array.from(hidden);
    if (dense !== undefined) {
      values = product(dense, values).map(activation === 'gelu' ? gelu : Math.tanh);
      if (norm !== undefined) values = normed(values, norm, epsilon);
    }
    if (output !== undefined) values = product(output, values);
    return isShare ? share(values) : (values[0] as number);
  }
}

/** True if a file has a head that makes scores of hidden states. */
export const hasHead = ({ tensors }: Pick<GgufModel, 'tensors'>): boolean =>
  tensors.has('cls.weight') || tensors.has('cls.output.weight');

/** Number of labels, one in a file that names none. */
const labelsOf = (names: unknown): number => (Array.isArray(names) && names.length > 0 ? names.length : 1);

function check(name: string, size: number | undefined, expected: number): void {
  if (size === expected) return;
  throw new RocmForgeError('MODEL_UNSUPPORTED', `tensor ${name} has ${size} elements or rows where ${expected} fit`);
}

function product({ rows, bias }: Projection, values: Float64Array): Float64Array {
  return Float64Array.from(rows, (row, index) => {
    let total = bias?.[index] ?? 0;
    for (let i = 0; i < row.length; i++) total += (row[i] as number) * (values[i] as number);
    return total;
  });
}

function normed(values: Float64Array, weight: Float32Array, epsilon: number): Float64Array {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  const scale = 1 / Math.sqrt(variance + epsilon);
  return values.map((value, i) => (value - mean) * scale * (weight[i] as number));
}

/** GELU by its approximation with tanh, as the model's own layers have it; Hendrycks and Gimpel (2016). */
const gelu = (x: number): number => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * x * (1 + 0.044715 * x * x)));

function share(logits: Float64Array): number {
  const largest = Math.max(...logits);
  const powers = logits.map((logit) => Math.exp(logit - largest));
  return (powers[0] as number) / powers.reduce((sum, power) => sum + power, 0);
}
