import { divisorsFor } from '../../executor/layers/rope.js';
import type { VectorRef } from '../../executor/model/tensors.js';
import {
  type Attention,
  isAttention,
  type LatentAttention,
  type ModelGraph,
  type Rope,
  valuesOf,
} from '../../executor/model/values.js';
import type { ModelParameters } from '../../lib/gguf/model-parameters.js';
import { DEFAULT_CONTEXT } from '../../shared/step-limits.js';

/** Rotation of queries and keys in layers of one kind; plain data that survives JSON. */
export interface RopeReport {
  /** Which layers, from 0. */
  readonly layers: readonly number[];
  /** Positions that they see; `null`: all. */
  readonly window: number | null;
  /** `unrotated`: these layers leave positions out; `factors`: frequencies are divided by a table, as Llama 3.1's are. */
  readonly scaling: 'none' | 'unrotated' | 'linear' | 'yarn' | 'longrope' | 'factors';
  /** Elements of a head that are rotated. */
  readonly dimensions: number;
  /** Elements that are rotated together: neighbors (interleaved RoPE), or those of both halves (NeoX-style). */
  readonly pairing: 'adjacent' | 'halves';
  readonly base: number;
  /** Positions are divided by it; 1 where `scaling` is neither linear nor yarn. */
  readonly factor: number;
  /** Cosines and sines are multiplied by it: yarn's and longrope's attention factor. */
  readonly magnitude: number;
  readonly yarn: Rope['yarn'] | null;
  /** Tables that divide frequencies; of longrope's two the one that is served by default comes first. */
  readonly tables: readonly RopeFactors[];
  /** Queries at position p are multiplied by 1 + scale · ln(1 + ⌊p / length⌋). */
  readonly temperature: Rope['temperature'] | null;
}

export interface RopeFactors {
  readonly tensor: string;
  /** Divisors of the frequencies, the fastest first. */
  readonly values: readonly number[];
  /** For which contexts it is taken, in tokens; `null`: no bound. */
  readonly contextAbove: number | null;
  readonly contextUpTo: number | null;
}

/** @param read the elements of a tensor of the file */
export function ropeReports(
  graph: ModelGraph,
  model: ModelParameters,
  read: (vector: VectorRef) => readonly number[],
): RopeReport[] {
  const kinds: { readonly attention: Attention | LatentAttention; readonly layers: number[] }[] = [];
  for (const value of valuesOf(graph)) {
    if (!isAttention(value)) continue;
    const kind = kinds.find(
      ({ attention }) => attention.rope === value.rope && windowOf(attention) === windowOf(value),
    );
    if (kind === undefined) kinds.push({ attention: value, layers: [value.layer] });
    // Layers that share keys and values have the number of the layer whose they are.
    else if (!kind.layers.includes(value.layer)) kind.layers.push(value.layer);
  }
  return kinds.map(({ attention, layers }) => {
    const { rope } = attention;
    const { dimensions, pairing, base, magnitude, yarn, temperature } = rope;
    return {
      layers,
      window: windowOf(attention) ?? null,
      scaling: scalingOf(rope),
      dimensions,
      pairing: pairing === 'neox' ? 'halves' : 'adjacent',
      base,
      // A rotation by nothing has an infinite one, which JSON lacks.
      factor: Number.isFinite(rope.factor) ? rope.factor : 1,
      magnitude,
      yarn: yarn ?? null,
      tables: tablesOf(rope.divisors, model, read),
      temperature: temperature ?? null,
    };
  });
}

const windowOf = (value: Attention | LatentAttention): number | undefined =>
  value.kind === 'attention' ? value.window : undefined;

function scalingOf({ factor, yarn, divisors }: Rope): RopeReport['scaling'] {
  if (factor === Number.POSITIVE_INFINITY) return 'unrotated';
  if (divisors !== undefined) return 'short' in divisors ? 'longrope' : 'factors';
  if (yarn !== undefined) return 'yarn';
  return factor === 1 ? 'none' : 'linear';
}

function tablesOf(
  divisors: Rope['divisors'],
  { contextLength }: ModelParameters,
  read: (vector: VectorRef) => readonly number[],
): RopeFactors[] {
  if (divisors === undefined) return [];
  const table = (vector: VectorRef, contextAbove: number | null, contextUpTo: number | null): RopeFactors => ({
    tensor: vector.tensor.name,
    values: read(vector),
    contextAbove,
    contextUpTo,
  });
  if (!('short' in divisors)) return [table(divisors, null, null)];
  const { short, long, originalContextLength } = divisors;
  const tables = [table(short, null, originalContextLength), table(long, originalContextLength, null)];
  const served = divisorsFor(divisors, Math.min(contextLength, DEFAULT_CONTEXT));
  return served === long ? tables.reverse() : tables;
}

/** One line or more a kind of layer, for a terminal. */
export function describeRopes(reports: readonly RopeReport[]): [string, string][] {
  return reports.flatMap((report) => {
    const layers = `${report.layers.length === 1 ? 'layer' : 'layers'} ${rangesOf(report.layers)}: `;
    const lines = [`${reports.length === 1 ? '' : layers}${describeRope(report)}`, ...report.tables.map(describeTable)];
    return lines.map((line, i): [string, string] => [i === 0 ? 'rope' : '', line]);
  });
}

function describeRope(report: RopeReport): string {
  const { scaling, dimensions, pairing, base, factor, magnitude, yarn, temperature, window } = report;
  const pairs = pairing === 'halves' ? 'pairs of halves' : 'adjacent pairs';
  const parts = scaling === 'unrotated' ? ['no RoPE'] : [`${dimensions} dims in ${pairs}`, `base ${base}`];
  if (scaling === 'linear' || scaling === 'yarn') parts.push(`${scaling} × ${factor}`);
  if (scaling === 'longrope') parts.push('longrope');
  if (yarn) {
    const { betaFast, betaSlow, extrapolation, originalContextLength } = yarn;
    parts.push(`beta_fast ${betaFast}`, `beta_slow ${betaSlow}`, `ext_factor ${extrapolation}`);
    parts.push(`log_mul ${rounded(yarn.logMultiplier)}`, `original context ${originalContextLength}`);
  }
  if (scaling !== 'unrotated' && magnitude !== 1) parts.push(`attention factor ${rounded(magnitude)}`);
  if (temperature) parts.push(`queries × 1 + ${rounded(temperature.scale)} ln(1 + ⌊position / ${temperature.length}⌋)`);
  if (window !== null) parts.push(`window ${window}`);
  return parts.join(', ');
}

function describeTable({ tensor, values, contextAbove, contextUpTo }: RopeFactors, index: number): string {
  const [least, most] = [Math.min(...values), Math.max(...values)].map(rounded);
  const table = `${tensor}: ${values.length} factors from ${least} to ${most}`;
  if (contextAbove === null && contextUpTo === null) return table;
  const context = contextUpTo === null ? `over ${contextAbove}` : `up to ${contextUpTo}`;
  return `${table}, for contexts ${context} tokens${index === 0 ? ', served by default' : ''}`;
}

/** Six digits, which is what f32 has of a decimal number. */
const rounded = (value: number): string => String(Number(value.toPrecision(6)));

/** 0-4, 6-10, 12 */
function rangesOf(numbers: readonly number[]): string {
  const ranges: [first: number, last: number][] = [];
  for (const number of numbers) {
    const range = ranges.at(-1);
    if (range !== undefined && range[1] === number - 1) range[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(', ');
}
