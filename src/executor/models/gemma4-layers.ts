import type { ServableModel } from '../../lib/gguf/servable-model.js';
import type { TensorCatalog } from '../model/tensors.js';
import {
  type Attention,
  type LayerInputs,
  type Linear,
  type Norm,
  type Residual,
  type Rope,
  type Value,
  x,
} from '../model/values.js';
import { Layers } from './family.js';

/** Building blocks of one of Gemma 4's layers, which has heads and an FFN of its own size. */
export class Gemma4Layer extends Layers {
  private readonly block: string;

  constructor(
    whole: ServableModel,
    tensors: TensorCatalog,
    private readonly index: number,
  ) {
    super({ ...whole, ...whole.traits.shapes?.[index] }, tensors);
    this.block = `blk.${index}`;
  }

  /**
   * Attention whose heads of q, k and v are all normalized, those of v without a weight. A layer without `attn_v` takes its keys
   * for values as well, before they are normalized; one that shares keys and values projects q alone.
   *
   * @param of its input
   */
  attentionOutput4(rope: Rope, of: Value = this.rmsNorm(`${this.block}.attn_norm`)): Linear {
    const { block, index } = this;
    const { heads, kvHeads, headDim, hiddenSize, rmsNormEpsilon: epsilon, traits } = this.model;
    const sharedWith = traits.shapes?.[index]?.sharedWith;
    const vector = (name: string) => this.tensors.vector(`${block}.${name}.weight`, headDim);
    const query = vector('attn_q_norm');
    const key = sharedWith === undefined ? vector('attn_k_norm') : query;
    const values = this.tensors.has(`${block}.attn_v.weight`) ? 'attn_v' : 'attn_k';
    const own = sharedWith === undefined ? ['attn_k', values].map((name) => [name, kvHeads] as const) : [];
    const parts = [['attn_q', heads] as const, ...own];
    const named = parts.map(([name, count]) => [`${block}.${name}`, count * headDim] as const);
    const options = {
      qkNorm: { over: 'head', query, key, epsilon },
      isSlidingWindow: this.isSlidingWindow(index),
    } as const;
    const qkv = this.project(named, hiddenSize, of);
    const attention: Attention = {
      ...this.attention(sharedWith ?? index, qkv, rope, options),
      valueNormEpsilon: epsilon,
      ...(sharedWith !== undefined && { isShared: true }),
    };
    return this.attentionOutput(block, attention);
  }

  /** The block's MLP, and beside it its experts, whose scores are of the residual stream as it is; each with norms of its own. */
  ffn4(): Value {
    const { block } = this;
    const { experts, rmsNormEpsilon: epsilon, hiddenSize } = this.model;
    const mlp = this.mlp(block, this.rmsNorm(`${block}.ffn_norm`), 'gelu');
    if (experts === undefined) return mlp;
    const routed = this.experts(block, experts, this.rmsNorm(`${block}.pre_ffw_norm_2`), 'gelu');
    const weight = this.tensors.vector(`${block}.ffn_gate_inp.scale`, hiddenSize);
    const of: Norm = { kind: 'norm', weight, epsilon, of: x };
    const scales = `${block}.ffn_down_exps.scale`;
    const scaled = {
      ...routed,
      router: { ...routed.router, of, scoreScale: 1 / Math.sqrt(hiddenSize) },
      ...(this.tensors.has(scales) && { outputScales: this.tensors.vector(scales, experts.count) }),
    };
    const normed = [
      this.rmsNorm(`${block}.post_ffw_norm_1`, mlp),
      this.rmsNorm(`${block}.post_ffw_norm_2`, scaled),
    ] as const;
    return { kind: 'sum', of: normed };
  }

  /** Term of the layer's input, and the factor of the residual stream behind it; neither where the file has none. */
  ending(): readonly Value[] {
    const factor = `${this.block}.layer_output_scale.weight`;
    return [
      ...(this.model.traits.layerInputSize === undefined ? [] : [this.gatedInput(x)]),
      ...(this.tensors.has(factor)
        ? [{ kind: 'rescaled', factor: this.tensors.vector(factor, 1), of: x } as const]
        : []),
    ];
  }

  /**
   * Term of the layer's input.
   *
   * @param gate what its gate is computed from
   */
  gatedInput(gate: Residual | Value): Norm {
    const { block, index: layer } = this;
    const { hiddenSize, traits } = this.model;
    const width = traits.layerInputSize as number;
    const of = this.project([[`${block}.inp_gate`, width]], hiddenSize, gate);
    const projected = this.project([[`${block}.proj`, hiddenSize]], width, { kind: 'layer-gated', layer, of });
    return this.rmsNorm(`${block}.post_norm`, projected);
  }
}

/** Inputs of all layers; undefined where the model has none. */
export function layerInputs(model: ServableModel, tensors: TensorCatalog): LayerInputs | undefined {
  const { layers, hiddenSize, vocabularyRows, rmsNormEpsilon: epsilon, traits } = model;
  const width = traits.layerInputSize;
  if (width === undefined) return undefined;
  const projection = tensors.matrix('per_layer_model_proj.weight', layers * width, hiddenSize);
  return {
    ...{ layers, width, epsilon },
    table: tensors.matrix('per_layer_token_embd.weight', vocabularyRows, layers * width),
    tableScale: Math.sqrt(width),
    projection: { kind: 'linear', weights: [projection], biases: undefined, of: x },
    projectionScale: 1 / Math.sqrt(hiddenSize),
    norm: tensors.vector('per_layer_proj_norm.weight', width),
    scale: Math.SQRT1_2,
  };
}
