import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Rows } from '../kernels/launch-plan.js';
import type { Attention, HeadNorms } from '../model/values.js';
import type { Weights } from '../model/weights.js';
import {
  type AttentionForm,
  type AttentionSite,
  type AttentionSplits,
  PagedAttention,
  type RopeTables,
} from './paged-attention.js';
import { UnfusedAttention } from './unfused-attention.js';

/** Attention of a model's layers, from q, k and v on: norms, what queries are multiplied by, RoPE, cache, scores. */
export class AttentionLayers {
  /** One for each shape that layers have. */
  private readonly forms = new Map<string, AttentionForm>();

  /** @param tokens the rows that attend: those of the step */
  constructor(
    private readonly site: Omit<AttentionSite, 'shape'>,
    private readonly weights: Weights,
    private readonly ropes: ReadonlyMap<Attention['rope'], RopeTables>,
    private readonly tokens: Rows,
  ) {}

  /** How attention is split among blocks, for graphs: {@link AttentionForm.splits}. */
  get splits(): AttentionSplits | undefined {
    return [...this.forms.values()].find(({ splits }) => splits !== undefined)?.splits;
  }

  /** out = what the rows attend to; changes qkv. */
  record(value: Attention, qkv: DeviceBuffer, out: DeviceBuffer): void {
    if (value.headNorms !== undefined) this.normalize(value, value.headNorms, qkv);
    const tables = this.ropes.get(value.rope) as RopeTables;
    if (tables.queryFactors !== undefined) this.scaleQueries(value, tables.queryFactors, qkv);
    this.formFor(value).record(this.site.cache.layer(value.layer), value.rope, tables, qkv, out);
  }

  private normalize({ heads, kvHeads, headDim }: Attention, norms: HeadNorms, qkv: DeviceBuffer): void {
    const [query_weight, key_weight] = [this.weights.vector(norms.query), this.weights.vector(norms.key)];
    const sizes = { heads, kv_heads: kvHeads, head_dim: headDim, eps: norms.epsilon };
    const kernel = norms.over === 'head' ? kernels.headNorm : kernels.qkNorm;
    this.site.plan.launch(kernel, { qkv, query_weight, key_weight, ...sizes }, { tokens: this.tokens.count });
  }

  private scaleQueries({ heads, kvHeads, headDim }: Attention, factors: DeviceBuffer, qkv: DeviceBuffer): void {
    const { plan, tables, limits } = this.site;
    plan.launch(
      kernels.scaleQueries,
      { qkv, factors, row_position: tables.at('rowPosition'), heads, kv_heads: kvHeads, head_dim: headDim },
      { tokens: this.tokens.count, max_position: limits.maxContext },
    );
  }

  /** How layers of this shape attend. */
  private formFor({ heads, kvHeads, headDim, scale, window, softcap }: Attention): AttentionForm {
    const shape = { heads, kvHeads, headDim, scale, window, softcap };
    const key = Object.values(shape).join();
    let form = this.forms.get(key);
    if (form === undefined) {
      const Form = this.site.limits.attention === 'unfused' ? UnfusedAttention : PagedAttention;
      form = new Form({ ...this.site, shape });
      this.forms.set(key, form);
    }
    return form;
  }
}
