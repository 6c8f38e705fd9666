import { stateBytes } from '../../executor/layers/recurrent-layers.js';
import { isRecurrent, kvLayers, type ModelGraph, type Recurrent, valuesOf } from '../../executor/model/values.js';
import { formatBytes } from '../common/bytes.js';

/** Layers with a recurrent state; plain data that survives JSON. */
export interface RecurrentSummary {
  readonly layers: number;
  /** Layers that attend. */
  readonly attentionLayers: number;
  /** Heads of a gated delta net or state-space layer; null: the layers are short convolutions. */
  readonly heads: number | null;
  /** Rows of a head's state, and columns. */
  readonly dim: number | null;
  readonly columns: number | null;
  /** Rows that a short convolution sees; null: the layers are none. */
  readonly taps: number | null;
  /** Bytes of one state over all layers: a sequence has two, a snapshot is one. */
  readonly stateBytes: number;
}

/** Null where the model has no such layers. */
export function summariseRecurrent(graph: ModelGraph): RecurrentSummary | null {
  const layers = [...valuesOf(graph)].filter(isRecurrent);
  const [first] = layers;
  if (first === undefined) return null;
  return {
    layers: layers.length,
    attentionLayers: kvLayers(graph).size,
    ...sizesOf(first),
    stateBytes: stateBytes(layers),
  };
}

function sizesOf(value: Recurrent): Pick<RecurrentSummary, 'heads' | 'dim' | 'columns' | 'taps'> {
  switch (value.kind) {
    case 'short-conv':
      return { heads: null, dim: null, columns: null, taps: value.taps };
    case 'mamba':
      return { heads: value.heads, dim: value.dim, columns: value.state, taps: null };
    case 'delta-net':
      return { heads: value.valueHeads, dim: value.dim, columns: value.dim, taps: null };
  }
}

/** A line of the report. */
export function describeRecurrent({
  layers,
  attentionLayers,
  heads,
  dim,
  columns,
  taps,
  stateBytes: bytes,
}: RecurrentSummary): [string, string] {
  const sizes = `${formatBytes(2 * bytes)} of states a sequence, ${formatBytes(bytes)} a snapshot`;
  const kind = taps === null ? `of ${heads} heads of ${dim} × ${columns}` : `of convolutions of ${taps} rows`;
  return ['recurrent', `${layers} layers ${kind}, ${attentionLayers} attend; ${sizes}`];
}
