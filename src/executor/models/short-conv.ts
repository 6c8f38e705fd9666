import type { ShortConvolutions } from '../../lib/gguf/recurrent.js';
import type { Linear, Residual, Value } from '../model/values.js';
import { Layers } from './family.js';

/** Building blocks of families with short convolutions. */
export class ShortConvBlocks extends Layers {
  /** The block's `shortconv.out_proj` of its gated convolution. */
  shortConv(block: string, layer: number, of: Residual | Value): Linear {
    const { hiddenSize: columns } = this.model;
    const { taps } = this.recurrent as ShortConvolutions;
    const gates = this.project([[`${block}.shortconv.in_proj`, 3 * columns]], columns, of);
    const convolution = this.tensors.vectors(`${block}.shortconv.conv.weight`, columns, taps);
    const own = { layer: this.amongItsKind(layer), of: gates, columns, taps, convolution };
    return this.project([[`${block}.shortconv.out_proj`, columns]], columns, { kind: 'short-conv', ...own });
  }
}
