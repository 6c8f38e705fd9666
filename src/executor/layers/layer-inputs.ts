import { bufferFrom, type DeviceBuffer, type DeviceScope } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchPlanRecorder, Rows } from '../kernels/launch-plan.js';
import type { LayerGated, LayerInputs, Linear } from '../model/values.js';
import type { Weights } from '../model/weights.js';

/** Inputs that each layer gets beside the residual stream, computed once at the start of a step. */
export class LayerInputLayers {
  /** `[rows, layers, width]` */
  private readonly inputs: DeviceBuffer;
  /** `[rows, layers, width]`: the table's rows. */
  private readonly embedded: DeviceBuffer;
  /** `[rows, width]`: gates of the latest layer. */
  private readonly gates: DeviceBuffer;

  constructor(
    memory: DeviceScope,
    private readonly plan: LaunchPlanRecorder,
    private readonly weights: Weights,
    private readonly value: LayerInputs,
    private readonly tokens: Rows,
  ) {
    const { layers, width } = value;
    const rows = tokens.count.max;
    this.inputs = memory.allocate('f32', rows * layers * width);
    this.embedded = memory.allocate('f32', rows * layers * width);
    this.gates = memory.allocate('f32', rows * width);
  }

  /**
   * @param embed writes the rows' tokens of the table
   * @param product writes products of the residual stream
   */
  record(
    embed: (table: LayerInputs['table'], y: DeviceBuffer) => void,
    product: (value: Linear, y: DeviceBuffer) => void,
  ): void {
    const { plan, inputs, embedded, value } = this;
    const { layers: heads, width: head_dim } = value;
    const columns = heads * head_dim;
    const dims = { rows: this.tokens.count };
    embed(value.table, embedded);
    plan.launch(kernels.scale('f32'), { x: embedded, columns, factor: value.tableScale }, dims);
    product(value.projection, inputs);
    plan.launch(kernels.scale('f32'), { x: inputs, columns, factor: value.projectionScale }, dims);
    const weight = this.weights.vector(value.norm);
    plan.launch(kernels.headsNorm, { x: inputs, weight, heads, head_dim, x_stride: columns, eps: value.epsilon }, dims);
    plan.launch(kernels.residualAdd, { x: inputs, y: embedded, hidden: columns }, dims);
    plan.launch(kernels.scale('f32'), { x: inputs, columns, factor: value.scale }, dims);
  }

  /** gelu(gate) · the layer's inputs, `[rows, width]` f32. */
  gate({ layer, of }: LayerGated, product: (value: Linear, y: DeviceBuffer) => void): DeviceBuffer {
    const { layers, width: columns } = this.value;
    product(of, this.gates);
    const x = bufferFrom(this.inputs, layer * columns);
    const values = { y: this.gates, x, columns, x_stride: layers * columns };
    this.plan.launch(kernels.geluGate, values, { rows: this.tokens.count });
    return this.gates;
  }
}
