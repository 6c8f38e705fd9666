import type { Recurrent } from '../../lib/gguf/recurrent.js';
import { RocmForgeError } from '../../shared/errors.js';
import { DELTA_DIMS, DELTA_TAPS } from '../kernels/index.js';
import type { DeltaNet, Linear, Residual, Value } from '../model/values.js';
import { PredictingLayers } from './prediction.js';

/** Building blocks of families with gated delta nets. */
export class DeltaNetBlocks extends PredictingLayers {
  /** The block's `ssm_out` of its gated delta net. */
  deltaNet(block: string, layer: number, of: Residual | Value): Linear {
    const { hiddenSize, rmsNormEpsilon: epsilon } = this.model;
    const { keyHeads, valueHeads, dim, isGrouped } = this.recurrent as Recurrent;
    if (!DELTA_DIMS.includes(dim)) {
      const built = DELTA_DIMS.join(', ');
      throw new RocmForgeError('MODEL_UNSUPPORTED', `states of ${dim} rows are not supported; supported are ${built}`);
    }
    const [values, channels] = [valueHeads * dim, (2 * keyHeads + valueHeads) * dim];
    const gates: readonly (readonly [string, number])[] = isGrouped
      ? [[`${block}.ssm_ba`, 2 * valueHeads]]
      : [
          [`${block}.ssm_beta`, valueHeads],
          [`${block}.ssm_alpha`, valueHeads],
        ];
    const projected = [[`${block}.attn_qkv`, channels], [`${block}.attn_gate`, values], ...gates] as const;
    const net: DeltaNet = {
      kind: 'delta-net',
      layer: this.amongItsKind(layer),
      of: this.project(projected, hiddenSize, of),
      ...{ keyHeads, valueHeads, dim, epsilon, isGrouped },
      convolution: this.tensors.vectors(`${block}.ssm_conv1d.weight`, channels, DELTA_TAPS),
      rate: this.tensors.vector(`${block}.ssm_a`, valueHeads),
      bias: this.tensors.vector(`${block}.ssm_dt.bias`, valueHeads),
      norm: this.tensors.vector(`${block}.ssm_norm.weight`, dim),
    };
    return this.project([[`${block}.ssm_out`, hiddenSize]], values, net);
  }
}
