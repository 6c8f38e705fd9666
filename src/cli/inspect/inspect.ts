import path from 'node:path';
import type { VectorRef } from '../../executor/model/tensors.js';
import { readGraph } from '../../executor/models/index.js';
import type { ReasoningParser, ToolParser } from '../../gateway/chat/answer/answer-format.js';
import { answersOf } from '../../gateway/request/served-model.js';
import { unusedTensors } from '../../lib/gguf/harmless.js';
import { ModelFiles, type ModelHeaders } from '../../lib/gguf/model-files.js';
import { type ModelParameters, readModelParameters } from '../../lib/gguf/model-parameters.js';
import type { GgufModel, GgufTensor } from '../../lib/gguf/reader.js';
import { readServableModel } from '../../lib/gguf/servable-model.js';
import { type TensorTypeName, tensorElements } from '../../lib/gguf/tensor-types.js';
import { createTokenizer } from '../../lib/tokenizer/tokenizer.js';
import { typedError } from '../../shared/errors.js';
import { printableLine } from '../../shared/printable.js';
import { formatBytes } from '../common/bytes.js';
import { describeRecurrent, type RecurrentSummary, summariseRecurrent } from './recurrent-summary.js';
import { describeRopes, type RopeReport, ropeReports } from './rope-report.js';

/** Result of `rocmforge inspect` for a model file; plain data that survives JSON. */
export interface InspectReport {
  readonly path: string;
  /** Size of all its files. */
  readonly sizeBytes: number;
  /** Version of its first file. */
  readonly ggufVersion: number;
  /** Its files: one, or the parts of a split model in their order. */
  readonly parts: readonly ModelPartSummary[];
  readonly fingerprint: string;
  /** `null` when the file is a sound GGUF but no model whose shape can be read; `problem` says why. */
  readonly model: ModelParameters | null;
  /** Why a gateway or an executor would refuse the file; `null` when its header gives no reason. */
  readonly problem: string | null;
  /** Tensors that nothing here computes with, and why; they stand among `tensors`, too. */
  readonly unused: readonly { readonly why: string; readonly tensors: readonly string[]; readonly bytes: number }[];
  /** Rotation of queries and keys for each kind of layers, as far as the model can run. */
  readonly ropes: readonly RopeReport[];
  /** Layers with states; `null` where there are none, or the model cannot run. */
  readonly recurrent: RecurrentSummary | null;
  /** Elements in all tensors together: the "parameters" of a model's name. */
  readonly parameterCount: number;
  /** By bytes, largest first. */
  readonly tensorTypes: readonly TensorTypeShare[];
  readonly tokenizer: TokenizerSummary | null;
  readonly hasChatTemplate: boolean;
  /** Its chat template's format of calls and reasoning; `null` if that does not follow from it. */
  readonly toolParser: ToolParser | null;
  readonly reasoningParser: ReasoningParser | null;
  /** Why it is offered no tools; `null`: it is. */
  readonly toolsRefusal: string | null;
  readonly tensors: readonly GgufTensor[];
}

export interface ModelPartSummary {
  readonly path: string;
  readonly sizeBytes: number;
  readonly tensors: number;
}

export interface TensorTypeShare {
  readonly type: TensorTypeName;
  readonly tensors: number;
  readonly elements: number;
  readonly bytes: number;
}

export interface TokenizerSummary {
  /** `tokenizer.ggml.model`: gpt2 (byte-level BPE), llama (SPM), ... */
  readonly model: string;
  /** `tokenizer.ggml.pre`: which pre-tokenizer splits the text. */
  readonly preTokenizer: string | null;
  readonly tokens: number;
  readonly merges: number;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number | null;
}

/**
 * Reads the headers of a model's file or of its parts; of tensors only the tables by which RoPE's frequencies are divided.
 *
 * @throws RocmForgeError `MODEL_FILE_UNREADABLE`, `GGUF_INVALID` when a file itself is damaged, or `INVALID_OPTION` for
 *   a part of a split model that is not its first
 */
export function inspectModel(file: string): InspectReport {
  const files = new ModelFiles(file);
  try {
    return inspectHeaders(file, files);
  } finally {
    files.close();
  }
}

/** The report on headers that were read. @param name of the model in the report */
export function inspectHeaders(name: string, headers: ModelHeaders): InspectReport {
  const { model, parts } = headers;
  const tensors = [...model.tensors.values()];
  const understood = understandModel(headers);
  return {
    path: name,
    sizeBytes: model.size,
    ggufVersion: parts[0]!.file.version,
    parts: parts.map(({ file: { name: path, size, tensors: own } }) => ({ path, sizeBytes: size, tensors: own.size })),
    fingerprint: model.fingerprint,
    ...understood,
    problem: understood.problem ?? tokenizerProblem(model),
    unused: summariseUnused(model),
    parameterCount: tensors.reduce((sum, { dims }) => sum + tensorElements(dims), 0),
    tensorTypes: shareByType(tensors),
    tokenizer: summariseTokenizer(model),
    hasChatTemplate: model.metadata.has('tokenizer.chat_template'),
    ...summariseAnswers(model),
    tensors,
  };
}

/** The report as text for a terminal: a summary, the tensor types, then one line a tensor. Ends with a newline. */
export function formatInspectReport(report: InspectReport): string {
  const { model, tokenizer } = report;
  const isSplit = report.parts.length > 1;
  const rows: [string, string][] = [
    ['file', `${report.path} (${formatBytes(report.sizeBytes)}, GGUF v${report.ggufVersion})`],
    ...(isSplit ? report.parts.map(describePart) : []),
    ['fingerprint', report.fingerprint],
    ...(model === null ? [] : describeModel(model, report.ropes)),
    ...(report.recurrent === null ? [] : [describeRecurrent(report.recurrent)]),
    ['loads', report.problem === null ? 'yes' : `no: ${report.problem}`],
    ['parameters', `${formatCount(report.parameterCount)} in ${report.tensors.length} tensors`],
    ...report.unused.map(({ why, tensors, bytes }): [string, string] => [
      'not used',
      `${tensors.length} tensors (${formatBytes(bytes)}): ${why}`,
    ]),
    ['tokenizer', tokenizer === null ? 'none' : describeTokenizer(tokenizer)],
    ['chat template', report.hasChatTemplate ? describeAnswers(report) : 'no'],
  ];
  const types = report.tensorTypes.map(({ type, tensors, elements, bytes }) => [
    type,
    String(tensors),
    formatCount(elements),
    formatBytes(bytes),
  ]);
  const unused = new Set(report.unused.flatMap(({ tensors }) => tensors));
  const tensors = report.tensors.map(({ name, type, dims, part, offset, bytes }) => [
    name,
    type,
    dims.join(' × '),
    ...(isSplit ? [String(part + 1)] : []),
    String(offset),
    formatBytes(bytes),
    ...(unused.has(name) ? ['not used'] : []),
  ]);
  const head = ['tensor', 'type', 'dims', ...(isSplit ? ['part'] : []), 'offset', 'size'];
  return [
    ...alignColumns(rows),
    ...(types.length === 0 ? [] : ['', ...alignColumns([['type', 'tensors', 'elements', 'size'], ...types])]),
    ...(tensors.length === 0 ? [] : ['', ...alignColumns([head, ...tensors])]),
    '',
  ].join('\n');
}

function understandModel({
  model: file,
  parts,
}: ModelHeaders): Pick<InspectReport, 'model' | 'problem' | 'ropes' | 'recurrent'> {
  let model: ModelParameters | null = null;
  try {
    model = readModelParameters(file);
    const servable = readServableModel(file);
    const graph = readGraph(file, servable);
    const read = ({ tensor: { part, offset, bytes } }: VectorRef) =>
      Array.from(new Float32Array(Uint8Array.from(parts[part]!.source.read(offset, bytes)).buffer));
    return { model, problem: null, ropes: ropeReports(graph, servable, read), recurrent: summariseRecurrent(graph) };
  } catch (error) {
    if (typedError(error) !== undefined)
      return { model, problem: (error as Error).message, ropes: [], recurrent: null };
    throw error;
  }
}

/** Why a gateway would refuse the file's tokenizer. */
function tokenizerProblem({ metadata }: GgufModel): string | null {
  try {
    createTokenizer(metadata);
    return null;
  } catch (error) {
    if (typedError(error) !== undefined) return (error as Error).message;
    throw error;
  }
}

/** None where the file's keys cannot even tell; then it is refused for that. */
function summariseUnused(file: GgufModel): InspectReport['unused'] {
  try {
    return unusedTensors(file).map(({ why, tensors }) => ({
      why,
      tensors: tensors.map(({ name }) => name),
      bytes: tensors.reduce((sum, { bytes }) => sum + bytes, 0),
    }));
  } catch (error) {
    if (typedError(error) !== undefined) return [];
    throw error;
  }
}

function shareByType(tensors: readonly GgufTensor[]): TensorTypeShare[] {
  const shares = new Map<TensorTypeName, TensorTypeShare>();
  for (const { type, dims, bytes } of tensors) {
    const share = shares.get(type) ?? { type, tensors: 0, elements: 0, bytes: 0 };
    shares.set(type, {
      type,
      tensors: share.tensors + 1,
      elements: share.elements + tensorElements(dims),
      bytes: share.bytes + bytes,
    });
  }
  return [...shares.values()].sort((a, b) => b.bytes - a.bytes);
}

function summariseAnswers({
  metadata,
}: GgufModel): Pick<InspectReport, 'toolParser' | 'reasoningParser' | 'toolsRefusal'> {
  const { answerFormat, toolsRefusal } = answersOf(metadata, {});
  return {
    toolParser: answerFormat?.tools ?? null,
    reasoningParser: answerFormat?.reasoning ?? null,
    toolsRefusal: toolsRefusal ?? null,
  };
}

function describeAnswers({ toolParser, reasoningParser, toolsRefusal }: InspectReport): string {
  const tools = toolsRefusal === null ? `tool parser ${toolParser}` : `tools are refused: they ${toolsRefusal}`;
  return `yes; reasoning parser ${reasoningParser ?? 'none'}; ${tools}`;
}

function summariseTokenizer({ metadata }: GgufModel): TokenizerSummary | null {
  const model = metadata.string('tokenizer.ggml.model');
  if (model === undefined) return null;
  return {
    model,
    preTokenizer: metadata.string('tokenizer.ggml.pre') ?? null,
    tokens: metadata.strings('tokenizer.ggml.tokens')?.length ?? 0,
    merges: metadata.strings('tokenizer.ggml.merges')?.length ?? 0,
    bosTokenId: metadata.number('tokenizer.ggml.bos_token_id') ?? null,
    eosTokenId: metadata.number('tokenizer.ggml.eos_token_id') ?? null,
  };
}

function describeModel(model: ModelParameters, ropes: readonly RopeReport[]): [string, string][] {
  const { heads, kvHeads, headDim, ropeScaling, experts, vocabularySize, vocabularyRows } = model;
  const padded = vocabularyRows === vocabularySize ? '' : ` of ${vocabularyRows} rows`;
  const scaling = ropeScaling ? `, ${ropeScaling.type} × ${ropeScaling.factor}` : '';
  const predicting = model.predictionLayers ? ` and ${model.predictionLayers} that only predict` : '';
  const moe = experts ? `, ${experts.usedPerToken} of ${experts.count} experts` : '';
  return [
    ['name', model.name],
    ['architecture', model.architecture],
    ['context', `${model.contextLength} tokens`],
    ['layers', `${model.layers}${predicting}, hidden ${model.hiddenSize}, ffn ${model.ffnSize}${moe}`],
    ['attention', `${heads} heads, ${kvHeads} kv heads, head_dim ${headDim}`],
    ...(ropes.length > 0
      ? describeRopes(ropes)
      : ([['rope', `${model.ropeDimensions} dims, base ${model.ropeFreqBase}${scaling}`]] satisfies [
          string,
          string,
        ][])),
    ['vocabulary', `${vocabularySize}${padded} (${model.vocabularySource})`],
  ];
}

function describePart({ path: file, sizeBytes, tensors }: ModelPartSummary, index: number): [string, string] {
  return [`part ${index + 1}`, `${path.basename(file)} (${formatBytes(sizeBytes)}, ${tensors} tensors)`];
}

function describeTokenizer({ model, preTokenizer, tokens, merges, bosTokenId, eosTokenId }: TokenizerSummary): string {
  const pre = preTokenizer === null ? '' : `/${preTokenizer}`;
  return `${model}${pre}, ${tokens} tokens, ${merges} merges, bos ${bosTokenId ?? '-'}, eos ${eosTokenId ?? '-'}`;
}

/** Rows as lines, each column as wide as its widest cell; a file's names must not be able to steer the terminal. */
export function alignColumns(cells: readonly (readonly string[])[]): string[] {
  const rows = cells.map((row) => row.map(printableLine));
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('  ')
      .trimEnd(),
  );
}

function formatCount(count: number): string {
  if (count >= 1e9) return `${(count / 1e9).toFixed(2)} B`;
  if (count >= 1e6) return `${(count / 1e6).toFixed(2)} M`;
  return count >= 1e3 ? `${(count / 1e3).toFixed(1)} K` : String(count);
}
