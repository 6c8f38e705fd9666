import { hasHead } from '../../lib/gguf/classification-head.js';
import type { GgufModel } from '../../lib/gguf/reader.js';
import type { ServableModel } from '../../lib/gguf/servable-model.js';
import type { TensorCatalog } from '../model/tensors.js';
import { type Activated, type Linear, type ModelGraph, type Norm, type Value, x } from '../model/values.js';

/**
 * Classification head of a file: `cls`, an activation, `cls.norm` and `cls.output`, each if the file has it; of a decoder `cls.output`
 * alone. As in llama.cpp's `build_pooling` the activation is tanh, of ModernBERT GELU. Undefined in a file without one.
 *
 * @throws RocmForgeError `GGUF_INVALID` for a head of other sizes than the model's
 */
export function classificationHead(file: GgufModel, model: ServableModel, tensors: TensorCatalog): ModelGraph['head'] {
  const { hiddenSize, rmsNormEpsilon, traits, architecture } = model;
  const isEncoder = traits.isEncoder === true;
  const hasOutput = tensors.has('cls.output.weight');
  if (!hasHead(file) || !(isEncoder || hasOutput)) return undefined;
  const product = (name: string, rows: number, columns: number, of: typeof x | Value): Linear => {
    const weight = tensors.matrix(`${name}.weight`, rows, columns);
    const bias = `${name}.bias`;
    return {
      kind: 'linear',
      weights: [weight],
      biases: tensors.has(bias) ? [tensors.vector(bias, rows)] : undefined,
      of,
    };
  };
  const rowsOf = (name: string) => tensors.vectorCount(`${name}.weight`) ?? 1;
  const labels = isEncoder ? labelsOf(file, architecture) : rowsOf('cls.output');
  let [value, columns]: [Activated | Norm | typeof x, number] = [x, hiddenSize];
  if (isEncoder && tensors.has('cls.weight')) {
    columns = hasOutput ? rowsOf('cls') : labels;
    const of = product('cls', columns, hiddenSize, value);
    value = { kind: 'activated', activation: architecture === 'modern-bert' ? 'gelu' : 'tanh', of };
    if (tensors.has('cls.norm.weight')) {
      const weight = tensors.vector('cls.norm.weight', columns);
      value = { kind: 'norm', isCentered: true, weight, epsilon: rmsNormEpsilon, of: value };
    }
  }
  return hasOutput ? product('cls.output', labels, columns, value) : (value as Activated | Norm);
}

/** Number of labels, one in a file that names none. */
function labelsOf({ metadata }: GgufModel, architecture: string): number {
  const names = metadata.get(`${architecture}.classifier.output_labels`);
  return Array.isArray(names) && names.length > 0 ? names.length : 1;
}
