import { type Device, DeviceScope } from '../../executor/device/device.js';
import * as kernels from '../../executor/kernels/index.js';
import type { LaunchPlanRecorder } from '../../executor/kernels/launch-plan.js';
import { FUSIONS } from '../../executor/layers/fusions.js';
import {
  type AttentionSite,
  type AttentionVariant,
  PagedAttention,
  type RopeTables,
} from '../../executor/layers/paged-attention.js';
import { UnfusedAttention } from '../../executor/layers/unfused-attention.js';
import { KvCache } from '../../executor/model/kv-cache.js';
import { blocksFor, SlotWord, slotArena } from '../../executor/model/slot-layout.js';
import {
  COUNT_SPLIT_ROWS,
  COUNT_SPLITS,
  COUNT_TILES,
  COUNT_TOKENS,
  STEP_COUNTS,
  settle,
} from '../../executor/model/step-counts.js';
import { StepTables } from '../../executor/model/step-tables.js';
import type { Rope } from '../../executor/model/values.js';
import { timePlan } from './plan-time.js';

/** One fused form and what it replaces, in the shapes of an 8B llama. */
export interface KernelPair {
  readonly operation: string;
  readonly rows: number;
  readonly fused: string;
  readonly twin: string;
  readonly fusedUs: number;
  readonly twinUs: number;
  /** Bytes that the operation must read and write, whatever its variant: inputs, outputs, weights; not what lies between. */
  readonly bytes: number;
}

const SHAPE = { hidden: 4096, ffn: 14_336, heads: 32, kvHeads: 8, headDim: 128, context: 1024 };
const EPS = 1e-5;
const PACKED_ROWS = 63;

type Record = (plan: LaunchPlanRecorder) => void;

/**
 * Times fused kernels and their twins on a device, those that were built for it: `--kernels build/all-kernels` has all.
 *
 * @param rows of a step, at most 512
 */
export async function benchKernels(device: Device, rows: number): Promise<KernelPair[]> {
  const memory = new DeviceScope(device);
  const bench = new KernelBench(device, memory, rows);
  try {
    const pairs: KernelPair[] = [];
    if (device.hasKernel(kernels.rmsNormResidual)) pairs.push(await bench.residualAndNorm());
    if (device.hasKernel(kernels.rmsNormQuantize)) pairs.push(await bench.normAndQuantize());
    // Packed weights are for GPUs, and for no more rows.
    if (!device.isHost && rows <= PACKED_ROWS && device.hasKernel(kernels.gateUpSwigluPacked('q8_0'))) {
      pairs.push(await bench.gateUpSwiglu());
    }
    pairs.push(await bench.ropeAndAppend(), await bench.attention());
    return pairs;
  } finally {
    bench.release();
    memory.release();
  }
}

class KernelBench {
  private readonly counts = new Int32Array(STEP_COUNTS);
  private readonly site: Omit<AttentionSite, 'plan'>;
  private readonly rope: Rope = {
    dimensions: SHAPE.headDim,
    pairing: 'interleaved',
    base: 10_000,
    factor: 1,
    magnitude: 1,
    divisors: undefined,
  };
  private readonly ropes: RopeTables;

  constructor(
    private readonly device: Device,
    private readonly memory: DeviceScope,
    private readonly rows: number,
  ) {
    const { heads, kvHeads, headDim, context } = SHAPE;
    const shape = { heads, kvHeads, headDim, scale: 1 / Math.sqrt(headDim) };
    const blocks = 1 + blocksFor(context);
    const cache = new KvCache(this.memory, new Map([[0, shape]]), 'f16', blocks);
    const limits = {
      maxContext: context,
      maxSequences: 1,
      maxStepTokens: rows,
      kvBlocks: blocks,
      kvCacheType: 'f16',
      attention: 'fused',
    } as const;
    const tables = new StepTables(memory, limits);
    const arena = slotArena(limits);
    const words = new Int32Array(arena.words);
    for (let block = 0; block < blocksFor(context); block++) words[SlotWord.blockTable + block] = 1 + block;
    const slots = { buffer: memory.upload(words), arena };
    this.site = { device, memory, tables, slots, shape, limits, cache, fusions: new Set(FUSIONS) };
    this.ropes = {
      cosine: memory.allocate('f32', (context * headDim) / 2),
      sine: memory.allocate('f32', (context * headDim) / 2),
      queryFactors: undefined,
    };
    // The last positions of a full context.
    const step = new Int32Array(tables.words);
    step[tables.offsets.tokens] = rows;
    for (let row = 0; row < rows; row++) step[tables.offsets.rowPosition + row] = context - rows + row;
    const tileRows = device.isHost ? kernels.hostTileRows : kernels.tileRows;
    const perTile = tileRows(shape, cache.type) ?? 1;
    const tiles = Math.ceil(rows / perTile);
    for (let tile = 0; tile < tiles; tile++) {
      const first = tile * perTile;
      step.set([first, Math.min(perTile, rows - first)], tables.offsets.tiles + 2 * tile);
    }
    device.native.write(tables.device.address, new Uint8Array(step.buffer));
    this.counts[COUNT_TOKENS] = rows;
    this.counts[COUNT_SPLITS] = Math.ceil(context / kernels.ATTENTION_SPLIT);
    const parts = device.isHost ? kernels.NO_SPLITS : kernels.contextParts(shape, context, rows);
    const promptRows = kernels.promptSplitRows(shape.kvHeads);
    const isSplit = kernels.splitsContexts(rows, tiles, { rows: parts.rows, promptRows });
    this.counts[COUNT_SPLIT_ROWS] = isSplit ? rows : 0;
    this.counts[COUNT_TILES] = isSplit ? 0 : tiles;
    settle(this.counts);
  }

  release(): void {
    this.site.cache.release();
  }

  residualAndNorm(): Promise<KernelPair> {
    const { rows } = this;
    const { hidden } = SHAPE;
    const [x, delta, y] = [this.floats(rows * hidden), this.floats(rows * hidden), this.floats(rows * hidden)];
    const weight = this.floats(hidden);
    return this.compare(
      'residual add, RMSNorm',
      (plan) => plan.launch(kernels.rmsNormResidual, { x, delta, weight, y, hidden, eps: EPS }, { rows }),
      (plan) => {
        plan.launch(kernels.residualAdd, { x, y: delta, hidden }, { rows });
        plan.launch(kernels.rmsNorm, { x, weight, y, hidden, eps: EPS }, { rows });
      },
      4 * (4 * rows * hidden + hidden),
    );
  }

  normAndQuantize(): Promise<KernelPair> {
    const { rows } = this;
    const { hidden } = SHAPE;
    const blocks = hidden / kernels.Q8_BLOCK;
    const [x, between, weight] = [this.floats(rows * hidden), this.floats(rows * hidden), this.floats(hidden)];
    const y = this.memory.allocate('u8', rows * blocks * kernels.Q8_BLOCK_BYTES);
    return this.compare(
      'RMSNorm, quantize',
      (plan) => plan.launch(kernels.rmsNormQuantize, { x, weight, y, hidden, eps: EPS }, { rows, blocks }),
      (plan) => {
        plan.launch(kernels.rmsNorm, { x, weight, y: between, hidden, eps: EPS }, { rows });
        plan.launch(kernels.quantizeQ8, { x: between, y, in: hidden }, { rows, blocks });
      },
      4 * (rows * hidden + hidden) + rows * blocks * kernels.Q8_BLOCK_BYTES,
    );
  }

  gateUpSwiglu(): Promise<KernelPair> {
    const { rows } = this;
    const { hidden, ffn } = SHAPE;
    const form = rows === 1 ? 'one' : 'several';
    const [blocks, ffnBlocks] = [hidden / kernels.Q8_BLOCK, ffn / kernels.Q8_BLOCK];
    const row_bytes = kernels.packedRowBytes('q8_0', hidden);
    const weights = this.memory.allocate('u8', 2 * ffn * row_bytes);
    const gate = { ...weights, elements: ffn * row_bytes };
    const up = { ...gate, address: weights.address + ffn * row_bytes };
    const x = this.memory.allocate('u8', rows * blocks * kernels.Q8_BLOCK_BYTES);
    const y = this.memory.allocate('u8', rows * ffnBlocks * kernels.Q8_BLOCK_BYTES);
    const gateUp = this.floats(rows * 2 * ffn);
    const tokens = this.site.tables.at('tokens');
    const dims = { rows, row_bytes };
    return this.compare(
      'gate, up, SwiGLU, quantize (Q8_0)',
      (plan) =>
        plan.launch(
          kernels.gateUpSwigluPacked('q8_0', form),
          { gate, up, x, y, tokens, ffn, blocks },
          { ...dims, ffn_blocks: ffnBlocks },
        ),
      (plan) => {
        const out = 2 * ffn;
        const values = { weight: weights, x, y: gateUp, tokens, out, blocks, y_stride: out, accumulate: 0 };
        plan.launch(kernels.matmulPacked('q8_0', form), values, dims);
        plan.launch(kernels.swigluQuantize, { gate_up: gateUp, y, ffn }, { rows, blocks: ffnBlocks });
      },
      2 * ffn * row_bytes + rows * (blocks + ffnBlocks) * kernels.Q8_BLOCK_BYTES,
    );
  }

  ropeAndAppend(): Promise<KernelPair> {
    const { rows } = this;
    const { heads, kvHeads, headDim, context } = SHAPE;
    const { tables, slots, cache } = this.site;
    const { k, v, blocks } = cache.layer(0);
    const qkv = this.floats(rows * (heads + 2 * kvHeads) * headDim);
    const row_position = tables.at('rowPosition');
    const place = {
      row_position,
      row_slot: tables.at('rowSlot'),
      slots: slots.buffer,
      slot_words: slots.arena.slotWords,
    };
    const shape = { head_dim: headDim, rotary: headDim, adjacent: 1 };
    const { cosine, sine } = this.ropes;
    const tableDims = { tokens: rows, max_position: context, half_rotary: headDim / 2 };
    const cacheDims = { tokens: rows, slot_count: slots.arena.slots, blocks };
    const both = { qkv, k_cache: k, v_cache: v, ...place, heads, kv_heads: kvHeads };
    return this.compare(
      'RoPE, KV append',
      (plan) =>
        plan.launch(kernels.ropeKvAppend('f16'), { ...both, cosine, sine, ...shape }, { ...tableDims, ...cacheDims }),
      (plan) => {
        const values = { x: qkv, cosine, sine, row_position, row_heads: heads + 2 * kvHeads, ...shape };
        plan.launch(kernels.rope, values, { ...tableDims, heads: heads + kvHeads });
        plan.launch(kernels.kvAppend('f16'), { ...both, head_dim: headDim }, cacheDims);
      },
      rows * headDim * (4 * (2 * heads + 2 * kvHeads + 1) + 2 * 2 * kvHeads),
    );
  }

  /** With what feeds it: RoPE and KV append, fused and not. */
  attention(): Promise<KernelPair> {
    const { rows } = this;
    const { heads, kvHeads, headDim, context } = SHAPE;
    const qkv = this.floats(rows * (heads + 2 * kvHeads) * headDim);
    const out = this.floats(rows * heads * headDim);
    const layer = this.site.cache.layer(0);
    const record =
      (Form: new (site: AttentionSite) => AttentionVariant): Record =>
      (plan) =>
        new Form({ ...this.site, plan }).record(layer, this.rope, this.ropes, qkv, out);
    return this.compare(
      `attention over ${context} tokens, with RoPE and KV append`,
      record(PagedAttention),
      record(UnfusedAttention),
      4 * rows * headDim * (2 * heads + 2 * kvHeads) + 2 * 2 * context * kvHeads * headDim,
    );
  }

  private async compare(operation: string, fused: Record, twin: Record, bytes: number): Promise<KernelPair> {
    const [a, b] = [await this.time(fused), await this.time(twin)];
    const { rows } = this;
    return { operation, rows, fused: a.kernels, twin: b.kernels, fusedUs: a.us, twinUs: b.us, bytes };
  }

  private time(record: Record): Promise<{ us: number; kernels: string }> {
    return timePlan(this.device, this.memory, this.counts, record);
  }

  private floats(elements: number) {
    const buffer = this.memory.allocate('f32', elements);
    const values = Float32Array.from({ length: elements }, (_, i) => ((i * 37) % 101) / 50 - 1);
    this.device.native.write(buffer.address, new Uint8Array(values.buffer));
    return buffer;
  }
}

/** The pairs as a table. */
export function formatKernelPairs(pairs: readonly KernelPair[]): string {
  const rate = (bytes: number, us: number): string => (bytes / us / 1e3).toFixed(1);
  const head = ['operation', 'rows', 'fused µs', 'twin µs', 'twin/fused', 'MB', 'fused GB/s', 'twin GB/s'];
  const cells = pairs.map(({ operation, rows, fusedUs, twinUs, bytes }) => [
    operation,
    String(rows),
    fusedUs.toFixed(1),
    twinUs.toFixed(1),
    (twinUs / fusedUs).toFixed(2),
    (bytes / 1e6).toFixed(2),
    rate(bytes, fusedUs),
    rate(bytes, twinUs),
  ]);
  const widths = head.map((name, i) => Math.max(name.length, ...cells.map((row) => row[i]!.length)));
  const line = (row: readonly string[]): string =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join('  ');
  const names = pairs.map(({ operation, rows, fused, twin }) => `${operation}, ${rows} rows: ${fused}; twin: ${twin}`);
  return `${[line(head), ...cells.map(line), '', ...names].join('\n')}\n`;
}
