import type { GgufModel, GgufTensor } from '../../lib/gguf/reader.js';
import { RocmForgeError } from '../../shared/errors.js';
import { wantedTensors } from './tensors.js';
import { type DecoderGraph, type StageGraph, type Value, valuesOf } from './values.js';

/**
 * A model cut between layers, that is between what is added to the residual stream, so that the stages' weights are to each
 * other as the shares are, as far as layers allow. The first has the embedding, the last the output projection.
 *
 * @param shares one a stage, above 0
 * @throws RocmForgeError `INVALID_OPTION` for more stages than layers
 */
export function cutGraph(graph: DecoderGraph, shares: readonly number[]): readonly StageGraph[] {
  const { residualBranches, embedding, embeddingScale, logits, head, logitsScale, logitsSoftcap } = graph;
  const isShared = [...valuesOf(graph)].some((value) => value.kind === 'attention' && value.isShared);
  if (graph.layerInputs !== undefined || isShared) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      'a model whose layers share keys and values, or get inputs of their own for each token, is not split over several devices',
      { option: 'gpus' },
    );
  }
  if (residualBranches.length < shares.length) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      `a model of ${residualBranches.length} layers, attention and MLPs each counted, is not to be split over ${shares.length} devices`,
      { option: 'gpus' },
    );
  }
  const bytes = residualBranches.map((value) => bytesOf([value]));
  const all = embedding.tensor.bytes + bytes.reduce((sum, one) => sum + one, 0) + bytesOf([logits]);
  const parts = shares.reduce((sum, share) => sum + share, 0);
  const cuts = [0];
  let [done, wanted] = [embedding.tensor.bytes, 0];
  for (const [stage, share] of shares.slice(0, -1).entries()) {
    wanted += (all * share) / parts;
    let cut = cuts[stage] as number;
    // At least one layer here, and one for each stage behind it.
    const last = residualBranches.length - (shares.length - 1 - stage);
    do done += bytes[cut++] as number;
    while (cut < last && done + (bytes[cut] as number) / 2 <= wanted);
    cuts.push(cut);
  }
  return cuts.map((first, stage) => {
    const isLast = stage === shares.length - 1;
    return {
      residualBranches: residualBranches.slice(first, cuts[stage + 1]),
      ...(stage === 0 && { embedding, embeddingScale }),
      ...(isLast && { logits, head, logitsScale, logitsSoftcap }),
    };
  });
}

/** The tensors of a stage, in the file's order; of a whole model all that are wanted, of a shard its parts of them. */
export function stageTensors(file: GgufModel, graph: StageGraph): readonly GgufTensor[] {
  const wanted = wantedTensors(file, graph.prediction !== undefined);
  const isWhole = graph.embedding !== undefined && (graph.logits ?? graph.states) !== undefined;
  if (isWhole && !graph.isShard) return wanted;
  const used = tensorsOf([
    ...graph.residualBranches,
    ...[graph.logits, graph.head].filter((value) => value !== undefined),
  ]);
  if (graph.embedding !== undefined) used.add(graph.embedding.tensor);
  if (graph.isShard) return [...used].sort((a, b) => a.part - b.part || a.offset - b.offset);
  return wanted.filter((tensor) => used.has(tensor));
}

const bytesOf = (values: readonly Value[]): number => {
  let sum = 0;
  for (const { bytes } of tensorsOf(values)) sum += bytes;
  return sum;
};

/** Inputs of values: every reference to a tensor has it under that name. */
function tensorsOf(values: readonly Value[]): Set<GgufTensor> {
  const found = new Set<GgufTensor>();
  const visit = (node: object): void => {
    for (const [name, part] of Object.entries(node)) {
      if (name === 'tensor') found.add(part as GgufTensor);
      else if (typeof part === 'object' && part !== null) visit(part);
    }
  };
  for (const value of values) visit(value);
  return found;
}
