import type { DeviceClass } from '../device/contract.js';
import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, LaunchPlanRecorder, Rows } from '../kernels/launch-plan.js';
import type { Rope } from '../model/values.js';
import type { ActivationEncoding } from './products.js';

/**
 * Which operations share a launch. Every rule says what it takes the place of: without it the plain launches are recorded,
 * and compute the same bits (`test/executor/fusions.test.ts`). Only what stands side by side is matched: a norm between a
 * product and the residual stream, say, leaves both as they are.
 */
export interface Fusion {
  /** The launches that it takes the place of. */
  readonly replaces: string;
  /**
   * Devices on which the fusion pays: `gpu` has matrix units, and launches that cost more than the memory traffic they save; `hopper`
   * takes activations as columns.
   */
  readonly on: 'gpu' | 'hopper' | 'anywhere';
}

/** Activations as columns: rows that there is room for, and where it is counted that one is beyond f16's range. */
export interface ColumnTiles {
  readonly rows: number;
  readonly saturated: DeviceBuffer;
}

/** Arguments with which a fused launch is recorded. */
export interface FusionSite {
  readonly plan: LaunchPlanRecorder;
  readonly rows: Rows;
  /** Column tiles for 16-bit floats. */
  readonly columns: ColumnTiles | undefined;
}

/** The rules that are worth it on a device, but for those that are to be left out. */
export function fusionsOn(device: DeviceClass, without: readonly Fusion[]): ReadonlySet<Fusion> {
  const isWorthIt = { anywhere: true, gpu: device !== 'host', hopper: device === 'hopper' };
  return new Set(FUSIONS.filter((rule) => isWorthIt[rule.on] && !without.includes(rule)));
}

/** A value written in the form that its consumer takes, rather than in f32 for another launch to convert. */
interface FormFusion<Input> extends Fusion {
  readonly into: readonly ActivationEncoding[];
  /** @param when in which steps; default: in all */
  launch(site: FusionSite, input: Input, form: ActivationEncoding, y: DeviceBuffer, when?: LaunchCondition): void;
}

/** Rows to be normalized, `columns` wide. */
export interface NormInput {
  readonly x: DeviceBuffer;
  readonly weight: DeviceBuffer;
  readonly columns: number;
  readonly epsilon: number;
}

/** Gate and up of each row, `[rows, 2, ffn]`. */
export interface GatedInput {
  readonly gateUp: DeviceBuffer;
  readonly ffn: number;
}

export const NORM_FUSIONS: readonly FormFusion<NormInput>[] = [
  {
    replaces: 'rms_norm, quantize_q8',
    on: 'gpu',
    into: ['q8'],
    launch: ({ plan, rows }, { x, weight, columns, epsilon }, _form, y, when) =>
      plan.launch(
        kernels.rmsNormQuantize,
        { x, weight, y, hidden: columns, eps: epsilon },
        { rows: rows.count, blocks: columns / kernels.Q8_BLOCK },
        when,
      ),
  },
  {
    replaces: 'rms_norm, convert',
    on: 'gpu',
    into: ['f16', 'bf16'],
    launch: ({ plan, rows, columns: site }, { x, weight, columns, epsilon }, form, y, when) => {
      const type = form as kernels.TileType;
      const values = { x, weight, y, hidden: columns, eps: epsilon };
      if (site === undefined) plan.launch(kernels.rmsNormConvert(type), values, { rows: rows.count }, when);
      else {
        const sizes = { rows: rows.count, chunks: kernels.chunksOf(columns) };
        const { saturated, rows: y_rows } = site;
        plan.launch(kernels.rmsNormColumns(type), { ...values, saturated, y_rows }, sizes, when);
      }
    },
  },
];

export const GATED_FUSIONS: readonly FormFusion<GatedInput>[] = [
  {
    replaces: 'swiglu, quantize_q8',
    on: 'gpu',
    into: ['q8'],
    launch: ({ plan, rows }, { gateUp: gate_up, ffn }, _form, y, when) =>
      plan.launch(
        kernels.swigluQuantize,
        { gate_up, y, ffn },
        { rows: rows.count, blocks: ffn / kernels.Q8_BLOCK },
        when,
      ),
  },
  {
    replaces: 'swiglu, convert',
    on: 'gpu',
    into: ['f16', 'bf16'],
    launch: ({ plan, rows, columns: site }, { gateUp: gate_up, ffn }, form, y, when) => {
      const type = form as kernels.TileType;
      const values = { gate_up, y, ffn };
      if (site === undefined) plan.launch(kernels.swigluConvert(type), values, { rows: rows.count }, when);
      else {
        const sizes = { rows: rows.count, chunks: kernels.chunksOf(ffn) };
        const { saturated, rows: y_rows } = site;
        plan.launch(kernels.swigluColumns(type), { ...values, saturated, y_rows }, sizes, when);
      }
    },
  },
];

/** Gate, up and SwiGLU of float weights on matrix units: see {@link GatedProduct}. */
export const GATED_PRODUCT: Fusion & { readonly into: readonly kernels.TileType[] } = {
  replaces: 'matmul_tile, swiglu, convert',
  on: 'gpu',
  into: ['f16', 'bf16'],
};

/** A product that is added to the residual stream where it is computed, if its layout {@link WeightLayout.accumulates}. */
export const ADDED_PRODUCT: Fusion = { replaces: 'matmul, residual_add', on: 'gpu' };

/** A norm behind a product, as in gemma2 and glm4, that is added to the residual stream; the next norm of one row begins with its sums. */
export const ADDED_NORM: Fusion & { when(columns: number): boolean } = {
  replaces: 'rms_norm, residual_add',
  on: 'gpu',
  when: (columns) => columns % 4 === 0 && columns <= kernels.NORM_PARTS * kernels.NORM_PART,
};

/** Steps of one row: norms in the products of packed weights that are computed of them, SwiGLU where gate and up are. */
export const SINGLE_TOKEN: Fusion = { replaces: 'rms_norm, quantize_q8, matmul_packed, swiglu of one row', on: 'gpu' };

/** Keys are turned on their way into the cache. */
export const ROTATED_APPEND: Fusion & { when(headDim: number): boolean } = {
  replaces: 'rope, kv_append',
  on: 'anywhere',
  when: (headDim) => headDim % kernels.NORMED_ROTARY_MULTIPLE === 0,
};

/** Heads of q and k are normalized where they are rotated. */
export const NORMED_APPEND: Fusion & { when(rope: Rope): boolean } = {
  replaces: 'head_norm, rope_kv_append',
  on: 'anywhere',
  when: ({ dimensions }) => dimensions % kernels.NORMED_ROTARY_MULTIPLE === 0,
};

/**
 * Steps of one row: pairs of q and k are rotated where they are computed, if they are neighbours, and keys and values stored. Heads
 * that are normalized are not: the wave that ended a head's last outputs rotated it, and an 8B took 7 % longer.
 */
export const ROTATED_PRODUCT: Fusion = { replaces: 'linear_normed, rope_kv_append of one row', on: 'hopper' };

/** Attention output of few rows is written in the encoding that products take. */
export const COMBINED_FORM: Fusion = { replaces: 'attention_combine, quantize_q8 or convert', on: 'gpu' };

/** The splits of one row's context are combined by the last block of each of its groups of heads. */
export const COMBINED_SPLIT: Fusion = { replaces: 'attention_tile_split, attention_combine', on: 'gpu' };

/** All rules. */
export const FUSIONS: readonly Fusion[] = [
  ...NORM_FUSIONS,
  ...GATED_FUSIONS,
  GATED_PRODUCT,
  ADDED_PRODUCT,
  ADDED_NORM,
  SINGLE_TOKEN,
  ROTATED_APPEND,
  NORMED_APPEND,
  ROTATED_PRODUCT,
  COMBINED_FORM,
  COMBINED_SPLIT,
];
