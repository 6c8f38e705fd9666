import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { Attention, Gated, Linear, ModelGraph, Norm, Residual, Rope, Value } from '../layers/values.js';
import { x } from '../layers/values.js';
import type { MatrixRef, TensorCatalog, VectorRef } from '../model/tensors.js';

/** A model family: how its layers are composed. */
export interface Family {
  /** `general.architecture` of its files. */
  readonly name: string;
  build(model: ModelParameters, tensors: TensorCatalog): ModelGraph;
}

/** What a family composes its layers of; sizes that all layers share are filled in from the model's parameters. */
export class Layers {
  constructor(
    private readonly model: ModelParameters,
    private readonly tensors: TensorCatalog,
  ) {}

  /** The tensor `name`.weight, `[rows, columns]`. */
  matrix(name: string, rows: number, columns: number): MatrixRef {
    return this.tensors.matrix(`${name}.weight`, rows, columns);
  }

  /** The matrix of that name, or the embedding where the file has none: a tied output projection. */
  matrixOrEmbedding(name: string): MatrixRef {
    const { vocabularyRows, hiddenSize } = this.model;
    return this.matrix(this.tensors.has(`${name}.weight`) ? name : 'token_embd', vocabularyRows, hiddenSize);
  }

  /** The tensor `name`.bias. */
  bias(name: string, length: number): VectorRef {
    return this.tensors.vector(`${name}.bias`, length);
  }

  /** RMS norm by the tensor `name`.weight. */
  rmsNorm(name: string, of: Residual | Value = x): Norm {
    const weight = this.tensors.vector(`${name}.weight`, this.model.hiddenSize);
    return { kind: 'norm', weight, epsilon: this.model.rmsNormEpsilon, of };
  }

  /** RMS norms of each head of q and k. */
  headNorms(query: string, key: string): Attention['headNorms'] {
    const { headDim, rmsNormEpsilon } = this.model;
    const weight = (name: string) => this.tensors.vector(`${name}.weight`, headDim);
    return { query: weight(query), key: weight(key), epsilon: rmsNormEpsilon };
  }

  linear(weights: readonly MatrixRef[], of: Value, biases?: readonly VectorRef[]): Linear {
    return { kind: 'linear', weights, biases, of };
  }

  /** Grouped-query attention with the model's heads. */
  attention(layer: number, qkv: Linear, rope: Rope, headNorms?: Attention['headNorms']): Attention {
    const { heads, kvHeads, headDim } = this.model;
    return { kind: 'attention', layer, qkv, heads, kvHeads, headDim, scale: 1 / Math.sqrt(headDim), rope, headNorms };
  }

  swiglu(gateUp: Linear): Gated {
    return { kind: 'gated', of: gateUp };
  }

  /** The model's rotation; `rope_freqs.weight`, where there is one, divides its frequencies. */
  rope(pairing: Rope['pairing']): Rope {
    const { ropeDimensions, ropeFreqBase, ropeScaling, ropeAttentionFactor = 1 } = this.model;
    const divisors = this.tensors.has('rope_freqs.weight')
      ? this.tensors.vector('rope_freqs.weight', ropeDimensions / 2)
      : undefined;
    return {
      dimensions: ropeDimensions,
      pairing,
      base: ropeFreqBase,
      factor: ropeScaling?.factor ?? 1,
      magnitude: ropeAttentionFactor,
      divisors,
    };
  }

  /** The logits of the rows that are sampled; rows of the matrix that no token has are never computed. */
  logits(output: MatrixRef, of: Value): Linear {
    return this.linear([{ ...output, rows: this.model.vocabularySize }], of);
  }

  /** What each of the model's blocks adds to the residual stream. */
  eachBlock(adds: (block: number, prefix: string) => readonly Value[]): readonly Value[] {
    return Array.from({ length: this.model.layers }, (_, block) => adds(block, `blk.${block}`)).flat();
  }
}
