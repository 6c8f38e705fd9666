import type { ModelParameters } from '../../shared/gguf/model-parameters.js';
import type { MatrixRef, TensorCatalog, VectorRef } from '../model/tensors.js';
import {
  type Attention,
  type Gated,
  type HeadNorms,
  type Linear,
  type ModelGraph,
  type Norm,
  type Residual,
  type Rope,
  type Value,
  x,
} from '../model/values.js';

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

  /** The tensor `token_embd`.weight, a row a token. */
  embedding(): MatrixRef {
    return this.matrix('token_embd', this.model.vocabularyRows, this.model.hiddenSize);
  }

  /** The tensor `name`.weight, `[rows, columns]`. */
  matrix(name: string, rows: number, columns: number): MatrixRef {
    return this.tensors.matrix(`${name}.weight`, rows, columns);
  }

  /** The matrix of that name, or the embedding where the file has none: a tied output projection. */
  matrixOrEmbedding(name: string): MatrixRef {
    const { vocabularyRows, hiddenSize } = this.model;
    return this.tensors.has(`${name}.weight`) ? this.matrix(name, vocabularyRows, hiddenSize) : this.embedding();
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
  headNorms(query: string, key: string): HeadNorms {
    const { headDim, rmsNormEpsilon } = this.model;
    const weight = (name: string) => this.tensors.vector(`${name}.weight`, headDim);
    return { query: weight(query), key: weight(key), epsilon: rmsNormEpsilon };
  }

  /** The block's `attn_q`, `attn_k` and `attn_v` side by side. */
  qkv(block: string, of: Value, { bias = false } = {}): Linear {
    const { heads, kvHeads, headDim, hiddenSize } = this.model;
    const parts = [
      [`${block}.attn_q`, heads * headDim],
      [`${block}.attn_k`, kvHeads * headDim],
      [`${block}.attn_v`, kvHeads * headDim],
    ] as const;
    const weights = parts.map(([name, rows]) => this.matrix(name, rows, hiddenSize));
    return this.linear(weights, of, bias ? parts.map(([name, rows]) => this.bias(name, rows)) : undefined);
  }

  /** The block's `attn_output` of what its heads attended to. */
  attended(block: string, of: Attention): Linear {
    return this.linear([this.matrix(`${block}.attn_output`, this.model.hiddenSize, of.heads * of.headDim)], of);
  }

  /** The block's SwiGLU MLP of `ffn_gate`, `ffn_up` and `ffn_down`. */
  mlp(block: string, of: Value): Linear {
    const { hiddenSize, ffnSize } = this.model;
    const [gate, up] = ['gate', 'up'].map((name) => this.matrix(`${block}.ffn_${name}`, ffnSize, hiddenSize));
    const gated = this.swiglu(this.linear([gate as MatrixRef, up as MatrixRef], of));
    return this.linear([this.matrix(`${block}.ffn_down`, hiddenSize, ffnSize)], gated);
  }

  linear(weights: readonly MatrixRef[], of: Value, biases?: readonly VectorRef[]): Linear {
    return { kind: 'linear', weights, biases, of };
  }

  /** Grouped-query attention with the model's heads. */
  attention(layer: number, qkv: Linear, rope: Rope, headNorms?: HeadNorms): Attention {
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
  eachBlock(adds: (block: string, index: number) => readonly Value[]): readonly Value[] {
    return Array.from({ length: this.model.layers }, (_, index) => adds(`blk.${index}`, index)).flat();
  }
}
