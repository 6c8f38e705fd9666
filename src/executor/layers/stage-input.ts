import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { Matrix } from '../model/matrix.js';
import type { VectorRef } from '../model/tensors.js';
import { type Norm, type PredictionEntry, x as residual } from '../model/values.js';
import type { StepSite } from './step-site.js';
import type { ValueRecorder } from './value-recorder.js';

/** Entry of a step’s rows into the residual stream: by their tokens, or by those and hidden states. */
export class StageInput {
  /** @param lastTokens what each slot sampled last, where another device samples */
  constructor(
    private readonly site: StepSite,
    private readonly values: ValueRecorder,
    private readonly lastTokens: DeviceBuffer | undefined,
  ) {}

  /** y = table[token of each row] */
  embed(table: Matrix, y: DeviceBuffer): void {
    const { plan, tables, tokens } = this.site;
    const { buffer, arena } = this.site.slots;
    const values = {
      table: table.buffer,
      y,
      row_token: tables.at('rowToken'),
      row_slot: tables.at('rowSlot'),
      // If another device samples, this one knows only the data that it sent.
      slots: this.lastTokens ?? buffer,
      slot_words: this.lastTokens === undefined ? arena.slotWords : 1,
      hidden: table.columns,
    };
    const dims = { slot_count: arena.slots, vocabulary: table.rows, tokens: tokens.count };
    kernels.launchEmbeddingGather((...launched) => plan.launch(...launched), table.type, values, dims);
  }

  /** y[row] += table[position of the row] */
  addPositions(table: Matrix, y: DeviceBuffer): void {
    const { plan, tables, tokens } = this.site;
    const { buffer, arena } = this.site.slots;
    const { delta } = this.values;
    const values = {
      table: table.buffer,
      y: delta,
      row_token: tables.at('rowPosition'),
      row_slot: tables.at('rowSlot'),
      slots: buffer,
      slot_words: arena.slotWords,
      hidden: table.columns,
    };
    const dims = { slot_count: arena.slots, vocabulary: table.rows, tokens: tokens.count };
    kernels.launchEmbeddingGather((...launched) => plan.launch(...launched), table.type, values, dims);
    plan.launch(kernels.residualAdd, { x: y, y: delta, hidden: table.columns }, { rows: tokens.count });
  }

  /** y[row] += the first of the kinds of segments: every text is of that kind. */
  addSegment(segments: DeviceBuffer, y: DeviceBuffer): void {
    const { plan, model, tokens } = this.site;
    const bias = { ...segments, elements: model.hiddenSize };
    plan.launch(kernels.biasAdd, { y, bias, out: model.hiddenSize }, { rows: tokens.count });
  }

  /** x = projection · [norm(table[token of each row]), norm(hidden state of each row)] */
  enter({ tokenNorm, hiddenNorm, epsilon, projection }: PredictionEntry, table: Matrix): void {
    const { memory, plan, recorded, products, model, tokens, x } = this.site;
    const { hiddenSize } = model;
    const { delta } = this.values;
    const f32 = (elements: number) => memory.allocate('f32', tokens.count.max * elements);
    const [token, hidden, both] = [f32(hiddenSize), f32(hiddenSize), f32(2 * hiddenSize)];
    this.embed(table, delta);
    const norm = (weight: VectorRef): Norm => ({ kind: 'norm', weight, epsilon, of: residual });
    this.values.plainNorm(norm(tokenNorm), delta, token, tokens);
    this.values.plainNorm(norm(hiddenNorm), recorded.hiddenRows as DeviceBuffer, hidden, tokens);
    plan.launch(kernels.joinRows, { a: token, b: hidden, y: both, columns: hiddenSize }, { rows: tokens.count });
    const input = { columns: 2 * hiddenSize, rows: tokens, forms: { f32: both } };
    products.multiplyEach(this.values.matricesOf(projection), input, x, undefined, hiddenSize);
  }
}
