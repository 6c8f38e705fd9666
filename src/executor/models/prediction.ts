import type { MatrixRef, VectorRef } from '../model/tensors.js';
import { type PredictionGraph, type Value, x } from '../model/values.js';
import { Layers } from './family.js';

/** Building blocks of families whose files may have a block that predicts further tokens. */
export class PredictingLayers extends Layers {
  /**
   * The block behind the layers that predicts further tokens; undefined where the file has none, or several. Its embedding and
   * output projection are the model's own if it has none.
   *
   * @param adds values of the block, as of any other
   */
  prediction(adds: (block: string, index: number) => readonly Value[]): PredictionGraph | undefined {
    const { layers, predictionLayers, vocabularyRows, hiddenSize, rmsNormEpsilon: epsilon } = this.model;
    if (predictionLayers !== 1) return undefined;
    const block = `blk.${layers}`;
    const own = (name: string): MatrixRef | undefined =>
      this.tensors.has(`${block}.nextn.${name}.weight`)
        ? this.matrix(`${block}.nextn.${name}`, vocabularyRows, hiddenSize)
        : undefined;
    const norm = (name: string): VectorRef => this.tensors.vector(`${block}.nextn.${name}.weight`, hiddenSize);
    const hasNorm = this.tensors.has(`${block}.nextn.shared_head_norm.weight`);
    return {
      embedding: own('embed_tokens') ?? this.embedding(),
      entry: {
        ...{ tokenNorm: norm('enorm'), hiddenNorm: norm('hnorm'), epsilon },
        projection: this.project([[`${block}.nextn.eh_proj`, hiddenSize]], 2 * hiddenSize, x),
      },
      residualBranches: adds(block, layers),
      logits: this.logits(
        own('shared_head_head') ?? this.matrixOrEmbedding('output'),
        this.rmsNorm(hasNorm ? `${block}.nextn.shared_head_norm` : 'output_norm'),
      ),
    };
  }
}
