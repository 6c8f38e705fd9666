import { bufferFrom, type Device, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchCondition, LaunchPlanRecorder, Rows } from '../kernels/launch-plan.js';
import type { Limits } from '../model/limits.js';
import type { Matrix } from '../model/matrix.js';
import type { StepTables } from '../model/step-tables.js';
import type { VectorRef } from '../model/tensors.js';
import { type Experts, expertMatrices, gateUpColumns } from '../model/values.js';
import type { Weights } from '../model/weights.js';
import { columnsOfExperts } from './expert-columns.js';
import { type ColumnTiles, type Fusion, GATED_FUSIONS } from './fusions.js';
import { HostExperts, streamedFrom } from './host-experts.js';
import { type Activation, asEncoding, Products, type SentRows, type Target } from './products.js';
import type { NormedRow, SingleToken } from './single-token.js';

/** Arguments with which expert layers are recorded. */
export interface ExpertSite {
  readonly device: Device;
  readonly memory: DeviceScope;
  readonly plan: LaunchPlanRecorder;
  readonly tables: StepTables;
  readonly limits: Limits;
  readonly fusions: ReadonlySet<Fusion>;
  readonly weights: Weights;
}

const SCORINGS = {
  softmax: kernels.ROUTE_SOFTMAX,
  sigmoid: kernels.ROUTE_SIGMOID,
  chosen: kernels.ROUTE_CHOSEN,
} as const;

/**
 * Layers of experts. Rows are copied to places sorted by the expert that they are sent to, so that each expert multiplies one
 * run of them; a row has the same bits in a run of one and of all. What the experts make of a row is added by their ids.
 */
export class ExpertLayers {
  /** `[rows, experts]` */
  private readonly scores: DeviceBuffer;
  /** `[rows, used]` */
  private readonly ids: DeviceBuffer;
  private readonly shares: DeviceBuffer;
  private readonly placeOf: DeviceBuffer;
  /** `[experts, 3]` and, of the places, `[places]` */
  private readonly runs: DeviceBuffer;
  private readonly rowOf: DeviceBuffer;
  /** Activations of the places, as columns; undefined if they are not stored so. */
  private readonly columnTiledRows: DeviceBuffer | undefined;
  /** Activations of the places: `[places, hidden]`, `[places, 2, ffn]`, `[places, ffn]` and `[places, hidden]`. */
  private readonly sent: DeviceBuffer;
  private readonly gateUp: DeviceBuffer;
  private readonly gated: Record<'f32' | 'other', DeviceBuffer>;
  private readonly made: DeviceBuffer;
  /** `[experts]` of zeros, where the choice has no bias. */
  private readonly unbiased: DeviceBuffer;
  private readonly placed: Products;
  private readonly places: number;
  /** Undefined where no experts stay in the host's memory. */
  private readonly onHost: HostExperts | undefined;

  /**
   * @param values all of the model; at least one
   * @param products of the step's rows
   * @param tokens the step's rows
   */
  constructor(
    private readonly site: ExpertSite,
    values: readonly Experts[],
    private readonly products: Products,
    private readonly tokens: Rows,
  ) {
    const { device, memory, plan, tables, limits } = site;
    const rows = limits.maxStepTokens;
    const most = (size: (value: Experts) => number) => Math.max(...values.map(size));
    const experts = most(({ router }) => router.weight.rows);
    const used = most(({ router }) => router.used);
    const hidden = most(({ down }) => down.rows);
    const ffn = most((value) => value.ffn);
    this.places = rows * used + (device.deviceClass === 'hopper' ? experts * (COLUMNS_ALIGN - 1) : 0);
    const f32 = (elements: number) => memory.allocate('f32', elements);
    const zeros = (elements: number) => memory.upload(new Int32Array(elements));
    this.scores = f32(rows * experts);
    this.ids = zeros(rows * used);
    this.shares = f32(rows * used);
    this.placeOf = zeros(rows * used);
    this.runs = zeros(runsOf(experts, used) * kernels.RUN_WORDS);
    this.rowOf = zeros(this.places);
    this.sent = f32(this.places * hidden);
    this.gateUp = f32(this.places * 2 * ffn);
    this.made = f32(this.places * hidden);
    this.unbiased = memory.upload(new Float32Array(experts));
    // A run's last columns are read with as many behind them as a block takes.
    const room = this.places + (device.deviceClass === 'hopper' ? kernels.COLUMNS_MULTIPLE : 0);
    this.placed = new Products(device, memory, plan, room, Math.max(hidden, ffn), tables.saturated);
    this.gated = this.placed.roomInBoth(memory, room, ffn);
    this.columnTiledRows = this.placed.roomForColumnTiles(memory, room, hidden);
    const onHost = values.filter((value) => site.weights.isOnHost(value));
    if (onHost.length > 0) {
      const sizes = { places: this.places, runs: runsOf(experts, used), stepRows: rows };
      const widest = { inputs: Math.max(hidden, ffn), outputs: Math.max(hidden, 2 * ffn) };
      const streamed = onHost.filter(({ router }) => streamedFrom(router.weight.rows, router.used) <= rows);
      this.onHost = new HostExperts(memory, plan, { ...sizes, ...widest }, streamed.flatMap(expertMatrices));
    }
  }

  /** Launches of a layer in single-token steps; undefined: the same as in all others. @param by records launches of single-token steps */
  singleToken(value: Experts, by: SingleToken | undefined): SingleToken | undefined {
    if (by === undefined || columnsOfExperts(value, this.site.weights, this.placed.columns) === undefined)
      return undefined;
    const { gateUp, down } = this.site.weights.experts(value);
    if (this.site.weights.isOnHost(value)) return undefined;
    return by.canRoute(value, gateUp, down) ? by : undefined;
  }

  /**
   * y = the value, `[rows, hidden]` f32, or it is added to it.
   *
   * @param input of the router, in f32
   * @param expertsInput that of the experts, in f32; it may be written where the router's is
   * @param alone launches a step of one row; y is its residual stream then
   */
  record(
    value: Experts,
    input: Activation,
    expertsInput: () => Activation,
    y: DeviceBuffer,
    accumulate = false,
    singleToken?: { readonly by: SingleToken; readonly row: NormedRow },
  ): void {
    const { plan, weights } = this.site;
    const { router } = value;
    const { used, choiceBias } = router;
    const experts = router.weight.rows;
    const { count, present: tokens } = this.tokens;
    const columns = columnsOfExperts(value, this.site.weights, this.placed.columns);
    const multiToken = singleToken?.by.multiToken;

    const weight = weights.matrix(router.weight);
    if (this.site.device.isHost) this.products.multiply(weight, input, { y: this.scores, stride: experts });
    else {
      const scored = { weight: weight.buffer, x: input.forms.f32 as DeviceBuffer, y: this.scores };
      plan.launch(kernels.routerScores, { ...scored, experts, in: input.columns }, { rows: count }, multiToken);
    }
    if (router.bias !== undefined) {
      const bias = weights.vector(router.bias);
      plan.launch(kernels.biasAdd, { y: this.scores, bias, out: experts }, { rows: count });
    }
    if (router.scoreScale !== undefined) {
      const values = { x: this.scores, columns: experts, factor: router.scoreScale };
      plan.launch(kernels.scale('f32'), values, { rows: count });
    }
    const routing = {
      bias: choiceBias === undefined ? this.unbiased : weights.vector(choiceBias),
      ...{ used, scoring: SCORINGS[router.scoring] },
      ...{ normalizes: Number(router.isNormalized), scale: router.scale },
    };
    const chosen = { ids: this.ids, weights: this.shares };
    const { count: groups, used: used_groups } = router.groups ?? { count: 1, used: 1 };
    plan.launch(
      kernels.routeExperts,
      { scores: this.scores, ...chosen, ...routing, experts, groups, used_groups },
      { rows: count },
      multiToken,
    );
    if (value.outputScales !== undefined) {
      const values = { weights: this.shares, ids: this.ids, scale: weights.vector(value.outputScales), used };
      plan.launch(kernels.scaleExperts, values, { rows: count, experts });
    }
    if (singleToken !== undefined) {
      const { gateUp, down } = weights.experts(value);
      const room = { scores: this.scores, gated: asEncoding(this.gated.other, this.placed.encodingOf(down)) };
      singleToken.by.addExperts(weight, gateUp[0] as Matrix, down, routing, singleToken.row, room);
    }
    const places = { row_of: this.rowOf, place_of: this.placeOf };
    plan.launch(
      kernels.groupByExpert,
      {
        ...{ ids: this.ids, tokens, runs: this.runs, ...places, experts, used },
        align: columns === undefined ? 1 : COLUMNS_ALIGN,
      },
      { rows: count, places: this.places },
      multiToken,
    );
    const sent = {
      experts,
      rows: count,
      runs: { ...count, max: runsOf(experts, used), times: used },
      places: this.places,
      table: this.runs,
    };
    const x = expertsInput().forms.f32 as DeviceBuffer;
    if (columns === undefined) this.multiplyRows(value, x, sent);
    else this.multiplyColumns(value, x, sent, columns, multiToken);
    const hidden = value.down.rows;
    if (value.biases !== undefined) this.addBias(value, value.biases.down, hidden, { y: this.made, stride: hidden });
    plan.launch(
      kernels.combineExperts,
      {
        y: this.made,
        place_of: this.placeOf,
        weights: this.shares,
        x: y,
        tokens,
        hidden,
        used,
        accumulate: Number(accumulate),
      },
      { rows: count, places: this.places },
      multiToken,
    );
  }

  /** Gates and ups with their biases. */
  private addGateBiases(value: Experts): void {
    if (value.biases === undefined) return;
    const { gate, up } = value.biases;
    const { ffn } = value;
    for (const [i, bias] of [gate, up].entries())
      this.addBias(value, bias, ffn, { y: bufferFrom(this.gateUp, i * ffn), stride: 2 * ffn });
  }

  private addBias({ router }: Experts, bias: VectorRef, out: number, target: Target): void {
    const { used, weight } = router;
    const { count, present: tokens } = this.tokens;
    const values = { ids: this.ids, place_of: this.placeOf, tokens, out, used };
    this.site.plan.launch(
      kernels.biasAddExperts,
      { y: target.y, bias: this.site.weights.vector(bias), y_stride: target.stride, ...values },
      {
        ...{ rows: count, experts: weight.rows, places: this.places },
        pairs: { ...count, max: count.max * used, times: used },
      },
    );
  }

  /** Outputs of the experts for rows that are copied to their places. */
  private multiplyRows(value: Experts, x: DeviceBuffer, sent: SentRows): void {
    const { plan, weights } = this.site;
    const { ffn, router } = value;
    const { gateUp, down } = weights.experts(value);
    const hidden = down.rows;
    const { count, present } = this.tokens;
    const placedRows = { ...count, max: count.max * router.used, times: router.used };
    plan.launch(
      kernels.gatherRows,
      { x, y: this.sent, index: this.rowOf, hidden },
      { tokens: count, samples: placedRows },
    );
    const rows = { count: placedRows, present };
    const sentRows: Activation = { columns: hidden, rows, forms: { f32: this.sent } };
    const stride = gateUpColumns(value);
    const onHost = weights.isOnHost(value) ? (this.onHost as HostExperts) : undefined;
    if (onHost !== undefined) {
      const input = this.placed.encoded(sentRows, onHost.encodingOf(gateUp[0] as Matrix));
      onHost.multiply(gateUp, input, placedRows, sent, { y: this.gateUp, stride });
    } else {
      for (const [i, weight] of gateUp.entries()) {
        this.placed.multiplyExperts(weight, sentRows, sent, { y: this.gateUp, stride, column: i * ffn });
      }
    }
    this.addGateBiases(value);
    const form = onHost?.encodingOf(down) ?? this.placed.encodingOf(down);
    // Hopper's kernels quantize no rows as they gate them.
    const isFused = value.activation === 'silu' && !(onHost !== undefined && this.site.device.deviceClass === 'hopper');
    const rule = isFused
      ? GATED_FUSIONS.find((candidate) => this.site.fusions.has(candidate) && candidate.into.includes(form))
      : undefined;
    const plain = value.activation === 'relu-squared' ? this.gateUp : this.gated.f32;
    const gated = rule === undefined ? plain : asEncoding(this.gated.other, form);
    if (value.activation === 'relu-squared') {
      plan.launch(kernels.reluSquared, { y: this.gateUp, columns: ffn }, { rows: placedRows });
    } else if (value.activation === 'clamped') {
      plan.launch(
        kernels.swigluClamped,
        { gate_up: this.gateUp, y: gated, ffn, ...kernels.CLAMP },
        { rows: placedRows },
      );
    } else if (rule === undefined) {
      const kernel = value.activation === 'silu' ? kernels.swiglu : kernels.geglu;
      plan.launch(kernel, { gate_up: this.gateUp, y: gated, ffn }, { rows: placedRows });
    } else {
      rule.launch({ plan, rows, columns: this.placed.columns }, { gateUp: this.gateUp, ffn }, form, gated);
    }
    const gatedRows = { columns: ffn, rows, forms: { [rule === undefined ? 'f32' : form]: gated } };
    if (onHost === undefined) this.placed.multiplyExperts(down, gatedRows, sent, { y: this.made, stride: hidden });
    else {
      const input = this.placed.encoded(gatedRows, form);
      onHost.multiply([down], input, placedRows, sent, { y: this.made, stride: hidden });
    }
  }

  /** The same of columns: rows are written as such where they are sent, and so is what the gate leaves. */
  private multiplyColumns(
    value: Experts,
    x: DeviceBuffer,
    sent: SentRows,
    site: ColumnTiles,
    when: LaunchCondition | undefined,
  ): void {
    const { plan, weights } = this.site;
    const { ffn, router } = value;
    const { gateUp, down } = weights.experts(value);
    const [hidden, used] = [down.rows, router.used];
    const { count, present: tokens } = this.tokens;
    const { rows: y_rows, saturated } = site;
    const pairs = { ...count, max: count.max * used, times: used };
    const dims = { rows: count, pairs, places: this.places };
    const shared = { place_of: this.placeOf, tokens, saturated, y_rows, used };
    const rows = { count: pairs, present: tokens };
    for (const [i, weight] of gateUp.entries()) {
      const form = this.placed.encodingOf(weight) as kernels.TileType;
      const y = asEncoding(this.columnTiledRows as DeviceBuffer, form);
      // The second takes what the first did, in the same form.
      if (i === 0 || weight.type !== gateUp[0]?.type)
        plan.launch(
          kernels.sendColumns(form),
          { x, y, in: hidden, ...shared },
          { ...dims, chunks: kernels.chunksOf(hidden) },
          when,
        );
      const target = { y: this.gateUp, stride: gateUpColumns(value), column: i * ffn };
      this.placed.multiplyExperts(weight, { columns: hidden, rows, forms: { [form]: y } }, sent, target, when);
    }
    this.addGateBiases(value);
    const form = this.placed.encodingOf(down) as kernels.TileType;
    const y = asEncoding(this.gated.other, form);
    const gated = { gate_up: this.gateUp, y, ffn, ...shared };
    const gatedDims = { ...dims, chunks: kernels.chunksOf(ffn) };
    if (value.activation === 'relu-squared') {
      plan.launch(kernels.reluSquaredSentColumns(form), { up: this.gateUp, y, ffn, ...shared }, gatedDims, when);
    } else if (value.activation === 'clamped') {
      plan.launch(kernels.swigluClampedSentColumns(form), { ...gated, ...kernels.CLAMP }, gatedDims);
    } else {
      const kernel = value.activation === 'silu' ? kernels.swigluSentColumns : kernels.gegluSentColumns;
      plan.launch(kernel(form), gated, gatedDims, when);
    }
    const made = { y: this.made, stride: hidden };
    this.placed.multiplyExperts(down, { columns: ffn, rows, forms: { [form]: y } }, sent, made, when);
  }
}

/** Alignment of runs of columns: the pieces of eight rows are swapped together (`kernels/forge/hopper/columns.h`). */
const COLUMNS_ALIGN = 8;

/** Runs that a step can have, as a multiple of what each row adds: grids count whole rows. */
const runsOf = (experts: number, used: number): number => Math.ceil(experts / used) * used;
