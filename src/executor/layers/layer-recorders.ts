import type {
  Attention,
  DeltaNet,
  Experts,
  LatentAttention,
  Mamba,
  ShortConv,
  StageGraph,
  Value,
} from '../model/values.js';
import { AttentionLayers } from './attention-layers.js';
import { ExpertLayers } from './expert-layers.js';
import { commonSplits } from './large-attention.js';
import { LatentAttentionLayers } from './latent-attention.js';
import { LayerInputLayers } from './layer-inputs.js';
import { MambaLayers } from './mamba-layers.js';
import type { AttentionSplits } from './paged-attention.js';
import { QueryGates, RecurrentLayers } from './recurrent-layers.js';
import { ShortConvLayers } from './short-conv-layers.js';
import type { StepSite } from './step-site.js';
import { Streams } from './streams.js';

/** Recorders of each kind of layers, with their memory; undefined for kinds that the model does not have. */
export class LayerRecorders {
  readonly attentions: AttentionLayers;
  readonly experts: ExpertLayers | undefined;
  readonly recurrent: RecurrentLayers | undefined;
  readonly shortConvs: ShortConvLayers | undefined;
  readonly mambas: MambaLayers | undefined;
  readonly latents: LatentAttentionLayers | undefined;
  readonly queryGates: QueryGates | undefined;
  readonly layerInputs: LayerInputLayers | undefined;
  readonly streams: Streams | undefined;

  /**
   * @param values   all of the graph
   * @param attended columns of the widest attention
   */
  constructor(site: StepSite, { layerInputs, altup }: StageGraph, values: readonly Value[], attended: number) {
    const { plan, memory, recorded, weights, products, tokens } = site;
    this.attentions = new AttentionLayers(site, recorded, products, tokens, attended);
    const isOf = <Kind extends Value['kind']>(kind: Kind) => {
      return (value: Value): value is Extract<Value, { kind: Kind }> => value.kind === kind;
    };
    this.experts = ofSome<Experts, ExpertLayers>(
      values.filter(isOf('experts')),
      (experts) => new ExpertLayers(site, experts, products, tokens),
    );
    this.recurrent = ofSome<DeltaNet, RecurrentLayers>(
      values.filter(isOf('delta-net')),
      (nets) => new RecurrentLayers(site, nets, tokens),
    );
    this.shortConvs = ofSome<ShortConv, ShortConvLayers>(
      values.filter(isOf('short-conv')),
      (convolutions) => new ShortConvLayers(site, convolutions, tokens),
    );
    this.mambas = ofSome<Mamba, MambaLayers>(
      values.filter(isOf('mamba')),
      (mambas) => new MambaLayers(site, mambas, tokens),
    );
    this.latents = ofSome<LatentAttention, LatentAttentionLayers>(
      values.filter(isOf('latent-attention')),
      (latents) => new LatentAttentionLayers(site, recorded, latents, tokens),
    );
    this.queryGates = ofSome<Attention, QueryGates>(
      values.filter(isOf('attention')).filter(({ isGated }) => isGated === true),
      (attentions) => new QueryGates(plan, memory, attentions, tokens),
    );
    if (layerInputs !== undefined) this.layerInputs = new LayerInputLayers(memory, plan, weights, layerInputs, tokens);
    if (altup !== undefined) this.streams = new Streams(site, altup);
  }

  /** Split of attention among blocks. */
  get splits(): AttentionSplits | undefined {
    return commonSplits([this.attentions.splits, this.latents?.splits]);
  }
}

/** Result of `make` for the values; undefined where there are none. */
function ofSome<V, T>(values: readonly V[], make: (values: readonly V[]) => T): T | undefined {
  return values.length === 0 ? undefined : make(values);
}
