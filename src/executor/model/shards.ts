import type { GgufTensor } from '../../lib/gguf/reader.js';
import { RocmForgeError } from '../../shared/errors.js';
import { blockFormat, isBlockType, Q8_BLOCK, type RankCount } from '../kernels/index.js';
import type { BiasRef, ColumnPart, MatrixRef, VectorRef } from './tensors.js';
import {
  type Attention,
  columnsOf,
  type DecoderGraph,
  type Gated,
  type Linear,
  type RankSum,
  type StageGraph,
  type Value,
} from './values.js';

/** Which of the devices of a tensor split it is, and of how many. */
export interface Rank {
  readonly rank: number;
  readonly ranks: RankCount;
}

/** From an element on, so many. */
type Range = readonly [first: number, count: number];

/** Rows of the vocabulary go to ranks by so many: rows of logits begin where 16 bytes may be stored at once. */
const VOCABULARY_TILE = 4;

/**
 * Shard of a model that one rank computes: of each attention some heads, of each MLP some columns, and of the output projection
 * some rows of the vocabulary. What heads and columns add to the residual stream is a {@link RankSum}.
 *
 * @throws RocmForgeError `INVALID_OPTION` naming what does not divide, or what is not split
 */
export function shardGraph(graph: DecoderGraph, place: Rank): StageGraph {
  const { rows } = vocabularyPart(columnsOf(graph.logits, 0), place);
  return {
    ...graph,
    isShard: true,
    residualBranches: graph.residualBranches.map((value) => shardOf(value, place)),
    logits: rowsOf(graph.logits, [rows]),
  };
}

/** Heads of keys and values that a rank has: where ranks outnumber them, several have the same one. */
export const kvHeadsOf = (kvHeads: number, { ranks }: Pick<Rank, 'ranks'>): number =>
  Math.max(1, Math.floor(kvHeads / ranks));

/** Rows of the vocabulary that a rank has, and how many all but the last have. */
export function vocabularyPart(
  vocabulary: number,
  { rank, ranks }: Rank,
): { readonly rows: Range; readonly part: number } {
  const part = Math.ceil(vocabulary / ranks / VOCABULARY_TILE) * VOCABULARY_TILE;
  if (part * (ranks - 1) >= vocabulary) refuse(`a vocabulary of ${vocabulary} is not split over ${ranks} devices`);
  return { rows: [part * rank, Math.min(part, vocabulary - part * rank)], part };
}

/** Shard of a residual branch. */
function shardOf(value: Value, place: Rank): Value {
  switch (value.kind) {
    case 'linear':
      return rankSum(value, place);
    case 'norm':
      if (value.of.kind === 'residual') break;
      return { ...value, of: shardOf(value.of, place) };
    case 'rescaled':
      return value;
    case 'scaled':
      return { ...value, of: shardOf(value.of, place) };
    case 'sum': {
      const [first, second] = value.of;
      return { ...value, of: [shardOf(first, place), shardOf(second, place)] };
    }
  }
  return refuse(`${NAMES[value.kind]} is not split into shards`);
}

const NAMES: Readonly<Record<Value['kind'], string>> = {
  norm: 'a norm',
  linear: 'a product',
  attention: 'attention',
  'latent-attention': 'latent attention',
  'delta-net': 'a gated delta net',
  'short-conv': 'a short convolution',
  mamba: 'a state-space layer',
  gated: 'an MLP',
  activated: 'an MLP without a gate',
  'layer-gated': 'a layer’s input',
  rescaled: 'a factor of the residual stream',
  'mixed-streams': 'a mixture of streams',
  'other-streams': 'a stream beside the residual stream',
  'corrected-stream': 'a corrected stream',
  renormed: 'a norm of the residual stream',
  scaled: 'a multiple',
  sum: 'a sum',
  experts: 'a layer of experts',
  'row-gated': 'a layer of experts with a shared one',
  'rank-sum': 'a sum over ranks',
};

/** The product of a rank's columns with what it has of their input. */
function rankSum(value: Linear, place: Rank): RankSum {
  const [weight] = value.weights;
  const { of: source, biases } = value;
  if (weight === undefined || value.weights.length > 1) return refuse('a product of several matrices is not split');
  if (source.kind !== 'attention' && source.kind !== 'gated')
    return refuse(`${source.kind === 'residual' ? NAMES.linear : NAMES[source.kind]} is not split into shards`);
  if (source.kind === 'attention') checkHeads(source, place);
  const each = part(weight.columns, place, weight);
  const of = source.kind === 'attention' ? attention(source, place) : gated(source, place);
  // One rank alone adds it.
  const own = place.rank === 0 ? biases : undefined;
  const weights = [columnsOfMatrix(weight, [place.rank * each, each])];
  return { kind: 'rank-sum', of: { kind: 'linear', weights, biases: own, of } };
}

function checkHeads({ heads, kvHeads, qkNorm, qkv, isGated }: Attention, { ranks }: Rank): void {
  if (isGated) refuse('attention with gates is not split into shards');
  if (qkNorm !== undefined && qkNorm.over !== 'head') {
    const how = qkNorm.over === 'row' ? 'over all heads' : 'by weights of each head';
    refuse(`${qkv.weights[0]?.tensor.name}: queries that are normalized ${how} are not split into shards`);
  }
  const divides = kvHeads % ranks === 0 || ranks % kvHeads === 0;
  if (heads % ranks === 0 && divides) return;
  refuse(`${qkv.weights[0]?.tensor.name}: ${heads} heads and ${kvHeads} of keys do not divide over ${ranks} devices`);
}

/** Columns of each rank: whole blocks of the matrix's type. */
function part(columns: number, { ranks }: Rank, { tensor, type }: MatrixRef): number {
  const unit = isBlockType(type) ? Math.max(blockFormat(type).blockElements, Q8_BLOCK) : Q8_BLOCK;
  if (columns % (unit * ranks) !== 0) {
    refuse(`${tensor.name}: ${columns} columns are not ${ranks} parts of whole blocks of ${unit}`);
  }
  return columns / ranks;
}

function attention(value: Attention, place: Rank): Attention {
  const { heads, kvHeads, headDim, qkv, sinks } = value;
  const ownHeads = heads / place.ranks;
  const ownKvHeads = kvHeadsOf(kvHeads, place);
  const firstHead = place.rank * ownHeads;
  const firstKvHead = Math.floor((firstHead * kvHeads) / heads);
  const rows = (from: number, first: number, count: number): Range => [(from + first) * headDim, count * headDim];
  return {
    ...value,
    heads: ownHeads,
    kvHeads: ownKvHeads,
    qkv: rowsOf(qkv, [
      rows(0, firstHead, ownHeads),
      rows(heads, firstKvHead, ownKvHeads),
      rows(heads + kvHeads, firstKvHead, ownKvHeads),
    ]),
    sinks: sinks && vectorPart(sinks, [firstHead, ownHeads]),
  };
}

function gated(value: Gated, { rank, ranks }: Rank): Gated {
  const ffn = columnsOf(value.of, 0) / 2;
  const each = ffn / ranks;
  return {
    ...value,
    of: rowsOf(value.of, [
      [rank * each, each],
      [ffn + rank * each, each],
    ]),
  };
}

/** Some rows of products side by side, with their biases. */
function rowsOf(value: Linear, ranges: readonly Range[]): Linear {
  const sizes = value.weights.map(({ rows }) => rows);
  const weights = within(sizes, ranges).map(([i, own]) => rowsOfMatrix(value.weights[i] as MatrixRef, own));
  const all = value.biases;
  const biases =
    all &&
    within(
      all.map(({ length }) => length),
      ranges,
    ).map(([i, own]) => biasPart(all[i] as BiasRef, own));
  return { ...value, weights, biases };
}

/** Which of parts side by side the ranges are in, and with which of their own rows. */
function within(sizes: readonly number[], ranges: readonly Range[]): (readonly [part: number, own: Range])[] {
  const found: (readonly [number, Range])[] = [];
  for (const [first, count] of ranges) {
    let before = 0;
    for (const [i, size] of sizes.entries()) {
      const from = Math.max(first, before) - before;
      const rows = Math.min(first + count, before + size) - before - from;
      before += size;
      if (rows > 0) found.push([i, [from, rows]]);
    }
  }
  return found;
}

const biasPart = (bias: BiasRef, range: Range): BiasRef =>
  bias.tensor === undefined ? { length: range[1] } : vectorPart(bias, range);

/** Bytes from the start of a row to that of the next one. */
const rowBytes = ({ tensor }: MatrixRef): number => tensor.bytes / (tensor.dims[1] as number);

function rowsOfMatrix(matrix: MatrixRef, [first, rows]: Range): MatrixRef {
  const { tensor, columns } = matrix;
  const bytes = rowBytes(matrix);
  const own: GgufTensor = {
    ...tensor,
    name: `${tensor.name} rows ${first} to ${first + rows - 1}`,
    dims: [columns, rows],
    offset: tensor.offset + first * bytes,
    bytes: rows * bytes,
  };
  return { ...matrix, tensor: own, rows };
}

function columnsOfMatrix(matrix: MatrixRef, [first, columns]: Range): MatrixRef {
  const { tensor, rows } = matrix;
  const pitch = rowBytes(matrix);
  const bytes = (elements: number): number => (elements * pitch) / matrix.columns;
  const own: ColumnPart = {
    ...tensor,
    name: `${tensor.name} columns ${first} to ${first + columns - 1}`,
    dims: [columns, rows],
    offset: tensor.offset + bytes(first),
    bytes: rows * bytes(columns),
    pitch,
  };
  return { ...matrix, tensor: own, columns };
}

function vectorPart({ tensor }: VectorRef, [first, length]: Range): VectorRef {
  const own: GgufTensor = {
    ...tensor,
    name: `${tensor.name} ${first} to ${first + length - 1}`,
    dims: [length],
    offset: tensor.offset + first * Float32Array.BYTES_PER_ELEMENT,
    bytes: length * Float32Array.BYTES_PER_ELEMENT,
  };
  return { tensor: own, length };
}

function refuse(what: string): never {
  throw new RocmForgeError('INVALID_OPTION', `${what} by --split tensor; use --split layer`, { option: 'split' });
}
