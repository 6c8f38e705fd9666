import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Rows } from '../kernels/launch-plan.js';
import { COUNT_HIDDEN, COUNT_POOLED, COUNT_SCORED, COUNT_STATES } from '../model/step-counts.js';
import { columnsOf, type Linear, type Norm, type Residual, type StageGraph } from '../model/values.js';
import type { StepSite } from './step-site.js';
import type { ValueRecorder } from './value-recorder.js';

/** Hidden states as a step returns them: those of some rows, what slices are pooled to, and scores of that. */
export class ReturnedStates {
  constructor(
    private readonly site: StepSite,
    private readonly values: ValueRecorder,
    private readonly graph: StageGraph,
  ) {}

  /** @param states of each row */
  record(states: Residual | Norm | Linear): void {
    const { memory, plan, tables, model, limits, tokens } = this.site;
    const { hiddenSize: hidden } = model;
    const { maxSequences } = limits;
    const x = this.statesOf(states);
    const rows = { index: COUNT_HIDDEN, max: tables.maxHidden };
    plan.launch(
      kernels.gatherRows,
      { x, y: tables.hidden, index: tables.at('hiddenRow'), hidden },
      { tokens: tokens.count, samples: rows },
    );
    // f64
    const sums = memory.allocate('u8', 8 * maxSequences * hidden);
    plan.launch(
      kernels.poolRows,
      { x, pools: tables.at('pools'), sums, y: tables.pooled, hidden },
      { rows: tokens.count, pools: { index: COUNT_POOLED, max: maxSequences }, slots: maxSequences },
    );
    const { head } = this.graph;
    if (head === undefined) return;
    const scored: Rows = { count: { index: COUNT_SCORED, max: maxSequences }, present: tables.at('pooled') };
    this.values.inF32(head, tables.scores, { x: tables.pooled, rows: scored });
  }

  /** States of all rows of the step, `[max_step_tokens, hidden]`. An encoder's steps all return some. */
  private statesOf(states: Residual | Norm | Linear): DeviceBuffer {
    const { memory, model, limits, x, tokens } = this.site;
    const rows = limits.isEncoder ? tokens : { ...tokens, count: { ...tokens.count, index: COUNT_STATES } };
    if (states.kind === 'residual') return x;
    if (states.kind === 'norm') return this.values.norms.once(states, this.values.source(states.of, { x, rows }), rows);
    const y = memory.allocate('f32', limits.maxStepTokens * model.hiddenSize);
    this.values.product(states, y, { x, rows });
    return y;
  }
}

/** The hidden states that a stage returns; undefined: none. */
export function returnedStates({ logits, states, entry }: StageGraph): Residual | Norm | Linear | undefined {
  if (states !== undefined || entry !== undefined) return states;
  return logits?.of.kind === 'norm' && logits.of.of.kind === 'residual' ? logits.of : undefined;
}

/** Elements of the hidden states that a stage returns; 0: none. */
export const returnedHiddenSize = (graph: StageGraph, hiddenSize: number): number =>
  returnedStates(graph) === undefined ? 0 : hiddenSize;

/** Scores of a pooled state that a stage returns; 0: none. */
export function returnedLabels(graph: StageGraph): number {
  return graph.head === undefined || returnedStates(graph) === undefined ? 0 : columnsOf(graph.head, 0);
}
