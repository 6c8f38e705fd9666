import type { Device, DeviceBuffer, DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchPlanRecorder, Rows } from '../kernels/launch-plan.js';
import type { Limits } from '../model/limits.js';
import type { StepTables } from '../model/step-tables.js';
import type { Experts } from '../model/values.js';
import type { Weights } from '../model/weights.js';
import { type Fusion, GATED_FUSIONS } from './fusions.js';
import { type Activation, asForm, Products } from './products.js';

/** What expert layers are recorded with. */
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
  /** Of the places: `[places, hidden]`, `[places, 2, ffn]`, `[places, ffn]` and `[places, hidden]`. */
  private readonly sent: DeviceBuffer;
  private readonly gateUp: DeviceBuffer;
  private readonly gated: Record<'f32' | 'other', DeviceBuffer>;
  private readonly made: DeviceBuffer;
  /** `[experts]` of zeros, where the choice has no bias. */
  private readonly unbiased: DeviceBuffer;
  private readonly placed: Products;
  private readonly places: number;

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
    const ffn = most(({ gate }) => gate.rows);
    this.places = rows * used;
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
    this.placed = new Products(device, memory, plan, this.places, Math.max(hidden, ffn), tables.saturated);
    this.gated = this.placed.roomInBoth(memory, this.places, ffn);
  }

  /** y = the value, `[rows, hidden]` f32. @param input of the router and the experts, in f32 */
  record(value: Experts, input: Activation, y: DeviceBuffer): void {
    const { plan, weights } = this.site;
    const { router, gate, up, down } = value;
    const { used, choiceBias } = router;
    const experts = router.weight.rows;
    const [hidden, ffn] = [down.rows, gate.rows];
    const { count, present: tokens } = this.tokens;
    const placedRows = { ...count, max: this.places, times: used };

    this.products.multiply(weights.matrix(router.weight), input, { y: this.scores, stride: experts });
    plan.launch(
      kernels.routeExperts,
      {
        scores: this.scores,
        bias: choiceBias === undefined ? this.unbiased : weights.vector(choiceBias),
        ids: this.ids,
        weights: this.shares,
        ...{ experts, used, scoring: SCORINGS[router.scoring] },
        ...{ normalizes: Number(router.isNormalized), scale: router.scale },
      },
      { rows: count },
    );
    const places = { row_of: this.rowOf, place_of: this.placeOf };
    plan.launch(
      kernels.groupByExpert,
      { ids: this.ids, tokens, runs: this.runs, ...places, experts, used, align: 1 },
      { rows: count, places: this.places },
    );
    plan.launch(
      kernels.gatherRows,
      { x: input.forms.f32 as DeviceBuffer, y: this.sent, index: this.rowOf, hidden },
      { tokens: count, samples: placedRows },
    );

    const rows = { count: placedRows, present: tokens };
    const sent = {
      experts,
      rows: count,
      runs: { ...count, max: runsOf(experts, used), times: used },
      places: this.places,
      table: this.runs,
    };
    const sentRows: Activation = { columns: hidden, rows, forms: { f32: this.sent } };
    const stride = 2 * ffn;
    this.placed.multiplyExperts(weights.matrix(gate), sentRows, sent, { y: this.gateUp, stride });
    this.placed.multiplyExperts(weights.matrix(up), sentRows, sent, { y: this.gateUp, stride, column: ffn });

    const downward = weights.matrix(down);
    const form = this.placed.formOf(downward);
    const rule =
      value.activation === 'silu'
        ? GATED_FUSIONS.find((candidate) => this.site.fusions.has(candidate) && candidate.into.includes(form))
        : undefined;
    const gated = rule === undefined ? this.gated.f32 : asForm(this.gated.other, form);
    if (rule === undefined) {
      const kernel = value.activation === 'silu' ? kernels.swiglu : kernels.geglu;
      plan.launch(kernel, { gate_up: this.gateUp, y: gated, ffn }, { rows: placedRows });
    } else {
      rule.launch({ plan, rows, columns: this.placed.columns }, { gateUp: this.gateUp, ffn }, form, gated);
    }
    const gatedRows = { columns: ffn, rows, forms: { [rule === undefined ? 'f32' : form]: gated } };
    this.placed.multiplyExperts(downward, gatedRows, sent, { y: this.made, stride: hidden });
    plan.launch(
      kernels.combineExperts,
      { y: this.made, place_of: this.placeOf, weights: this.shares, x: y, tokens, hidden, used },
      { rows: count, places: this.places },
    );
  }
}

/** Runs that a step can have, as a multiple of what each row adds: grids count whole rows. */
const runsOf = (experts: number, used: number): number => Math.ceil(experts / used) * used;
