import { LoadedModel as LoadedModelMessage } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import type { Device } from '../device/device.js';
import { KV_BLOCK_TOKENS } from '../kernels/index.js';
import type { LoadedModel } from '../load/loaded-model.js';
import { blockBytes } from '../parallel/block-parts.js';
import { Ranks } from '../parallel/tensor-parallel.js';
import { maskIdsFor } from '../steps/mask-table.js';
import { numericsOf } from './numerics-fingerprint.js';

/** Description of a loaded model for gateways. It has no epoch: a caller that knows the epoch may send steps. */
export function describeModel(model: LoadedModel, device: Device): LoadedModelMessage {
  const { limits, model: parameters } = model.forward;
  const { stages } = model.pipeline;
  const bytes = blockBytes(stages);
  const isTensorSplit = model.pipeline instanceof Ranks;
  return LoadedModelMessage.fromPartial({
    architecture: model.architecture,
    vocabularySize: parameters.vocabularySize,
    maxContext: limits.maxContext,
    maxSequences: limits.maxSequences,
    maskIds: maskIdsFor(limits.maxSequences),
    recurrent: limits.isRecurrent ?? false,
    encoder: limits.isEncoder ?? false,
    stateSnapshots: limits.stateSnapshots ?? 0,
    draftTokens: limits.draftTokens ?? 0,
    predicts: model.prediction !== undefined,
    stateBytes: BigInt(model.stateBytes),
    maxStepTokens: limits.maxStepTokens,
    kvBlocks: limits.kvBlocks,
    kvBlockTokens: KV_BLOCK_TOKENS,
    window: limits.windowed?.window ?? 0,
    windowBlocks: limits.windowed?.blocks ?? 0,
    hiddenSize: model.forward.returnedHiddenSize,
    labels: model.forward.labels,
    weightBytes: BigInt(model.weightBytes),
    kvBytes: BigInt(model.kvBytes),
    parameters: BigInt(model.parameters),
    fingerprint: model.fingerprint,
    contentChecksum: model.contentChecksum,
    restoredWeights: model.restoredWeights,
    kvOutlives: device.kept !== undefined,
    sumsRows: model.checksums.sumsRows,
    blockBytes: BigInt(bytes.blocks),
    windowBlockBytes: BigInt(bytes.windowBlocks),
    snapshotBytes: BigInt(bytes.states),
    savesBlocks: model.copies !== undefined,
    hasRoomForSpare: model.hasRoomForSpare,
    tensorShards: isTensorSplit ? stages.length : 1,
    pipelineStages: isTensorSplit ? 1 : stages.length,
    arithmetic: numericsOf(device, model),
  });
}
