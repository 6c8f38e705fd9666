import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Launch } from '../kernels/launch-plan.js';
import { COUNT_TILES, COUNT_TOKENS } from '../model/step-counts.js';
import type { AttentionSite, AttentionSplits } from './paged-attention.js';

type Values = Omit<Parameters<typeof kernels.launchAttentionRows>[4], 'sinks' | 'tiles'>;
type Dims = Parameters<typeof kernels.launchAttentionRows>[5];

/** Attention on the CPU by tiles of rows that share keys and values. */
export class HostAttention {
  /** `[heads]` f32, of layers without sinks. */
  private readonly noSinks: DeviceBuffer;

  private constructor(
    private readonly site: AttentionSite,
    private readonly cacheType: kernels.RowsCacheType,
    private readonly tileRows: number,
  ) {
    this.noSinks = site.memory.upload(new Float32Array(site.shape.heads).fill(kernels.NO_SINK));
  }

  /** Undefined on GPUs, and for heads and caches that it is not built for: those are row by row. */
  static of(site: AttentionSite): HostAttention | undefined {
    const { device, shape, cache } = site;
    if (!device.isHost || !kernels.hasAttentionRows(shape.headDim, cache.type)) return undefined;
    return new HostAttention(site, cache.type, kernels.hostTileRows(shape));
  }

  /** No context is split. */
  get splits(): AttentionSplits {
    return { rows: 0, promptRows: 0, most: 1, tileRows: this.tileRows };
  }

  /** @param sinks of layers that have them */
  record(values: Values, sinks: DeviceBuffer | undefined, dims: Dims): void {
    const { plan, limits, tables, device, shape } = this.site;
    const counts = {
      tokens: { index: COUNT_TOKENS, max: limits.maxStepTokens },
      tiles: { index: COUNT_TILES, max: limits.maxStepTokens },
    };
    const launch: Launch = (...launched) => plan.launch(...launched);
    const all = { ...values, sinks: sinks ?? this.noSinks, tiles: tables.at('tiles') };
    const attended = { ...shape, cacheType: this.cacheType };
    kernels.launchAttentionRows({ launch, threads: device.threads }, attended, sinks !== undefined, counts, all, dims);
  }
}
