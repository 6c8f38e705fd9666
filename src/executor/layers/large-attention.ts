import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import { COUNT_SPLIT_ROWS, COUNT_SPLITS, COUNT_TOKENS } from '../model/step-counts.js';
import type { AttentionSite, AttentionSplits } from './paged-attention.js';

type Values = Omit<Parameters<typeof kernels.launchAttentionLarge>[4], 'sinks'>;
type Dims = Parameters<typeof kernels.launchAttentionLarge>[5];

/** Attention on matrix units with heads of more than 256 elements: global layers of Gemma 4, and latent attention. */
export class LargeAttention {
  /** `[split_rows, heads, splits, 2 + head_dim]` */
  private readonly parts: kernels.ContextParts & { readonly buffer: DeviceBuffer };
  /** `[heads]` f32: no model with such heads has sinks. */
  private readonly sinks: DeviceBuffer;

  private constructor(
    private readonly site: Omit<AttentionSite, 'shape'>,
    private readonly shape: kernels.AttentionShape,
  ) {
    const { memory, limits } = site;
    const parts = kernels.contextParts(shape, limits.maxContext, limits.maxStepTokens);
    this.parts = { ...parts, buffer: memory.allocate('f32', parts.elements) };
    this.sinks = memory.upload(new Float32Array(shape.heads).fill(kernels.NO_SINK));
  }

  /** Undefined on the host, and for heads and caches that it is not built for. */
  static of(site: Omit<AttentionSite, 'shape'>, shape: kernels.AttentionShape): LargeAttention | undefined {
    const isBuilt = kernels.LARGE_HEAD_DIMS.includes(shape.headDim) && site.cache.type === 'f16';
    return isBuilt && !site.device.isHost ? new LargeAttention(site, shape) : undefined;
  }

  /** Rows share no keys: their tiles may be of any size. */
  get splits(): AttentionSplits {
    const promptRows = kernels.PROMPT_SPLIT_ROWS;
    return { rows: this.parts.rows, promptRows, most: this.parts.splits, tileRows: this.site.limits.maxStepTokens };
  }

  record(values: Values, dims: Dims): void {
    const { plan, limits } = this.site;
    const counts = {
      tokens: { index: COUNT_TOKENS, max: limits.maxStepTokens },
      splitRows: { index: COUNT_SPLIT_ROWS, max: this.parts.rows },
      splits: { index: COUNT_SPLITS, max: this.parts.splits },
    };
    const launch: Parameters<typeof kernels.launchAttentionLarge>[0] = (...launched) => plan.launch(...launched);
    kernels.launchAttentionLarge(launch, this.shape, this.parts, counts, { ...values, sinks: this.sinks }, dims);
  }
}

/** Splits that all of several kinds of attention can take; undefined where none splits contexts. */
export function commonSplits(all: readonly (AttentionSplits | undefined)[]): AttentionSplits | undefined {
  const splits = all.filter((each) => each !== undefined);
  if (splits.length === 0) return undefined;
  return {
    rows: Math.min(...splits.map(({ rows }) => rows)),
    promptRows: Math.min(...splits.map(({ promptRows }) => promptRows)),
    most: Math.max(...splits.map(({ most }) => most)),
    tileRows: Math.min(...splits.map(({ tileRows }) => tileRows)),
  };
}
