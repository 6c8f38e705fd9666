import type { MatrixRef, VectorRef } from '../model/tensors.js';
import type { Attention, Linear, Norm, Renormed, Rope } from '../model/values.js';
import { type AttentionOptions, Layers } from './family.js';

/** Building blocks of encoders: attention on both sides of a position, norms behind what is added, and what enters the first layer. */
export class EncoderLayers extends Layers {
  /** Attention of each position to its whole sequence, or to a window around it. */
  sighted(layer: number, qkv: Linear, rope: Rope, options: AttentionOptions = {}): Attention {
    const { isSlidingWindow, ...others } = options;
    const { contextLength, traits } = this.model;
    const reach = isSlidingWindow ? Math.floor((traits.window?.size ?? 2 * contextLength) / 2) : contextLength;
    const sight = { reach: reach < contextLength ? reach : undefined, slopes: traits.slopes };
    return { ...this.attention(layer, qkv, rope, others), sight };
  }

  /** The residual stream becomes its LayerNorm. */
  renormed(name: string): Renormed {
    return { kind: 'renormed', of: this.layerNorm(name) };
  }

  /** LayerNorm by the tensor `name`.weight; undefined if there is none. */
  layerNormIf(name: string): Norm | undefined {
    return this.tensors.has(`${name}.weight`) ? this.layerNorm(name) : undefined;
  }

  /** Products, one of the other, with those of the matrices of these names that the file has. The last has as many rows as x has elements. */
  dense(names: readonly string[], of: Norm): Norm | Linear {
    const { hiddenSize, traits } = this.model;
    const present = names.filter((name) => this.tensors.has(`${name}.weight`));
    let [value, columns]: [Norm | Linear, number] = [of, hiddenSize];
    for (const [i, name] of present.entries()) {
      const rows = i === present.length - 1 ? hiddenSize : (traits.denseSize ?? hiddenSize);
      value = this.linear([this.matrix(name, rows, columns)], value);
      columns = rows;
    }
    return value;
  }

  /** The tensor `position_embd`.weight, a row a position. */
  positions(): MatrixRef {
    return this.matrix('position_embd', this.model.contextLength, this.model.hiddenSize);
  }

  /** The tensor `token_types`.weight, a row a kind of segment; undefined if there is none. */
  segments(): VectorRef | undefined {
    const name = 'token_types.weight';
    if (!this.tensors.has(name)) return undefined;
    const count = this.tensors.vectorCount(name);
    const { hiddenSize } = this.model;
    // Some writers leave out a last dimension of one.
    return count === undefined ? this.tensors.vector(name, hiddenSize) : this.tensors.vectors(name, count, hiddenSize);
  }
}
