import { gelu } from '../kernels/reference/geglu.js';
import { readFloat64 } from './float64-tensors.js';

export interface HeadOptions {
  /** Tensors that are left out. */
  readonly without?: readonly string[];
  /** Default: that of the architecture. */
  readonly activation?: (value: number) => number;
  /** The label whose score is returned; default: the first. */
  readonly label?: number;
}

/**
 * Classification head of a reranker, computed in double precision from its file: `cls`, an activation, `cls.norm` and `cls.output`,
 * each if the file has it. As in llama.cpp's `build_pooling` the activation is tanh, of ModernBERT GELU.
 *
 * @returns what makes a score of a pooled hidden state
 */
export function float64Head(path: string, options: HeadOptions = {}): (hidden: ArrayLike<number>) => number {
  const { metadata, tensors, tensor } = readFloat64(path);
  const architecture = metadata.string('general.architecture')!;
  const epsilon = metadata.number(`${architecture}.attention.layer_norm_epsilon`) ?? 0;
  const { without = [], label = 0, activation = architecture === 'modern-bert' ? gelu : Math.tanh } = options;
  const has = (name: string) => tensors.has(name) && !without.includes(name);
  const product = (name: string, x: Float64Array): Float64Array => {
    const weight = tensor(`${name}.weight`);
    const bias = has(`${name}.bias`) ? tensor(`${name}.bias`) : undefined;
    return Float64Array.from({ length: weight.length / x.length }, (_, row) =>
      x.reduce((sum, value, i) => sum + weight[row * x.length + i]! * value, bias?.[row] ?? 0),
    );
  };
  return (hidden) => {
    let values: Float64Array = Float64Array.from(hidden);
    if (has('cls.weight')) values = product('cls', values).map(activation);
    if (has('cls.norm.weight')) {
      const weight = tensor('cls.norm.weight');
      const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
      const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
      values = values.map((value, i) => ((value - mean) / Math.sqrt(variance + epsilon)) * weight[i]!);
    }
    if (has('cls.output.weight')) values = product('cls.output', values);
    return values[label]!;
  };
}
