import { ALTUP_STREAMS } from '../kernels/index.js';
import { type Linear, type MixedStreams, type Norm, type Value, x } from '../model/values.js';
import { type Family, Layers } from './family.js';
import { Gemma4Layer, layerInputs } from './gemma4-layers.js';

/** Rank of LAuReL's two matrices, which no key says. */
const LAUREL_RANK = 64;

/**
 * gemma3n: gemma4's attention, shared keys and values, and inputs of each layer. The residual stream is the first of four: AltUp
 * predicts all of them before a layer and corrects them behind it; LAuReL is beside attention.
 */
export const gemma3n: Family = {
  name: 'gemma3n',

  build(model, tensors) {
    const l = new Gemma3nLayers(model, tensors);
    const rope = l.rope('neox');
    const windowRope = l.windowRope('neox');
    return {
      embedding: l.embedding(),
      embeddingScale: model.traits.embeddingScale,
      layerInputs: layerInputs(model, tensors),
      altup: { entry: l.streams('altup_proj'), exit: l.streams('altup_unembd_proj') },
      residualBranches: l.eachBlock((block, index) => {
        const layer = new Gemma4Layer(model, tensors, index);
        const normed = l.rmsNorm(`${block}.attn_norm`);
        const attentionOutput = layer.attentionOutput4(l.isSlidingWindow(index) ? windowRope : rope, normed);
        const post = l.rmsNorm(`${block}.post_attention_norm`, attentionOutput);
        return [
          l.mixed(block, 'predicted'),
          { kind: 'sum', of: [l.laurel(block, normed), post] },
          { kind: 'rescaled', factor: Math.SQRT1_2, of: x },
          l.rmsNorm(`${block}.post_ffw_norm`, l.sparseMlp(block, index)),
          l.mixed(block, 'corrected'),
          { kind: 'other-streams', of: layer.gatedInput({ kind: 'corrected-stream', of: x }) },
        ];
      }),
      logits: l.logits(l.matrixOrEmbedding('output'), l.rmsNorm('output_norm')),
      logitsSoftcap: model.traits.logitsSoftcap,
    };
  },
};

/** Building blocks that Gemma 3n alone has. */
class Gemma3nLayers extends Layers {
  /** A product with each of the streams beside the residual stream, by matrices of their own. */
  streams(name: string): Linear {
    const { hiddenSize } = this.model;
    return this.linear([this.tensors.matrices(`${name}.weight`, ALTUP_STREAMS - 1, hiddenSize, hiddenSize)], x);
  }

  /** The streams before a layer, or behind it. */
  mixed(block: string, step: MixedStreams['step']): MixedStreams {
    const { hiddenSize } = this.model;
    const router = this.project(
      [[`${block}.altup_router`, ALTUP_STREAMS]],
      hiddenSize,
      this.rmsNorm(`${block}.altup_router_norm`),
    );
    const mix = { kind: 'mixed-streams', step, of: router, scale: 1 / hiddenSize } as const;
    const coefficients = (name: string, count: number) =>
      this.tensors.vectors(`${block}.${name}.weight`, count, ALTUP_STREAMS);
    if (step === 'predicted')
      return { ...mix, coefficients: coefficients('altup_predict_coef', ALTUP_STREAMS * ALTUP_STREAMS) };
    const weight = this.tensors.vector(`${block}.altup_correct_scale.weight`, hiddenSize);
    return { ...mix, coefficients: coefficients('altup_correct_coef', ALTUP_STREAMS), weight };
  }

  /** The normalized input, and beside it its product with a matrix of low rank, normalized. */
  laurel(block: string, normed: Norm): Value {
    const { hiddenSize } = this.model;
    const left = this.project([[`${block}.laurel_l`, LAUREL_RANK]], hiddenSize, normed);
    const right = this.project([[`${block}.laurel_r`, hiddenSize]], LAUREL_RANK, {
      kind: 'activated',
      activation: 'none',
      of: left,
    });
    return { kind: 'sum', of: [this.rmsNorm(`${block}.laurel_post_norm`, right), normed] };
  }

  /** The block's MLP, of whose gates only the largest count in some layers. */
  sparseMlp(block: string, layer: number): Linear {
    const mlp = this.mlp(block, this.rmsNorm(`${block}.ffn_norm`), 'gelu');
    const deviations = this.model.traits.gateDeviations?.[layer];
    return mlp.of.kind === 'gated' ? { ...mlp, of: { ...mlp.of, deviations } } : mlp;
  }
}
