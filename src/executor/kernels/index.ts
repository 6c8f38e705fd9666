import type { KernelContract } from '../device/contract.js';
import { argmaxContracts } from './argmax.js';
import { attentionContracts } from './attention.js';
import { attentionCombineContracts } from './attention-combine.js';
import { attentionEncoderContracts } from './attention-encoder.js';
import { attentionLargeContracts } from './attention-large.js';
import { attentionRowsContracts } from './attention-rows.js';
import { attentionSinksContracts } from './attention-sinks.js';
import { attentionTileCombineContracts } from './attention-tile-combine.js';
import { biasAddContracts } from './bias-add.js';
import { blockCopyContracts } from './block-copy.js';
import { blockSumsContracts } from './block-sums.js';
import { convertContracts } from './convert.js';
import { copyWordsContracts } from './copy-words.js';
import { deltaNetContracts } from './delta-net.js';
import { embeddingGatherContracts } from './embedding-gather.js';
import { expertProductContracts } from './expert-products.js';
import { expertsContracts } from './experts.js';
import { flashAttentionContracts } from './flash-attention.js';
import { gateUpSwigluContracts } from './gate-up-swiglu.js';
import { gatherRowsContracts } from './gather-rows.js';
import { gemmContracts } from './gemm.js';
import { headNormContracts } from './head-norm.js';
import { columnsContracts } from './hopper/columns.js';
import { expertsOneContracts } from './hopper/experts-decode.js';
import { fragmentsContracts } from './hopper/fragments.js';
import { linearContracts } from './hopper/linear.js';
import { linearOneContracts } from './hopper/linear-decode.js';
import { linearRotatedContracts } from './hopper/linear-rotated.js';
import { sentColumnsContracts } from './hopper/sent-columns.js';
import { joinRowsContracts } from './join-rows.js';
import { kvAppendContracts } from './kv-append.js';
import { latentAttentionContracts } from './latent-attention.js';
import { layerNormContracts } from './layer-norm.js';
import { logSoftmaxOperations } from './log-softmax.js';
import { mambaContracts } from './mamba.js';
import { matmulContracts } from './matmul.js';
import { matmulPackedContracts } from './matmul-packed.js';
import { matmulQuantizedContracts } from './matmul-quantized.js';
import { matmulTileContracts } from './matmul-tile.js';
import { matmulTileOneContracts } from './matmul-tile-one.js';
import { poolRowsContracts } from './pool-rows.js';
import { quantizeQ8Contracts } from './quantize-q8.js';
import { rankContracts } from './ranks.js';
import { readWordsContracts } from './read-words.js';
import { repackContracts } from './repack.js';
import { residualAddContracts } from './residual-add.js';
import { rmsNormContracts } from './rms-norm.js';
import { ropeContracts } from './rope.js';
import { ropeKvAppendContracts } from './rope-kv-append.js';
import { samplingOperations } from './sampling.js';
import { scaleQueriesContracts } from './scale-queries.js';
import { shortConvContracts } from './short-conv.js';
import { slotWriteContracts } from './slot-write.js';
import { smallGemmContracts } from './small-gemm.js';
import { softcapContracts } from './softcap.js';
import { streamsContracts } from './streams.js';
import { swigluContracts } from './swiglu.js';
import { unfusedAttentionOperations } from './unfused-attention.js';

export * from './argmax.js';
export * from './attention.js';
export * from './attention-combine.js';
export * from './attention-encoder.js';
export * from './attention-large.js';
export * from './attention-rotated.js';
export * from './attention-rows.js';
export * from './attention-sinks.js';
export * from './attention-splits.js';
export * from './attention-tile-combine.js';
export * from './bias-add.js';
export * from './block-copy.js';
export * from './block-sums.js';
export * from './convert.js';
export * from './copy-words.js';
export * from './delta-net.js';
export * from './embedding-gather.js';
export * from './expert-products.js';
export * from './experts.js';
export * from './flash-attention.js';
export * from './formats.js';
export * from './gate-up-swiglu.js';
export * from './gather-rows.js';
export * from './gemm.js';
export * from './head-norm.js';
export * from './hopper/columns.js';
export * from './hopper/experts-decode.js';
export * from './hopper/fragments.js';
export * from './hopper/linear.js';
export * from './hopper/linear-decode.js';
export * from './hopper/linear-rotated.js';
export * from './hopper/sent-columns.js';
export * from './join-rows.js';
export * from './kv-append.js';
export * from './latent-attention.js';
export * from './layer-norm.js';
export * from './log-softmax.js';
export * from './mamba.js';
export * from './matmul.js';
export * from './matmul-packed.js';
export * from './matmul-quantized.js';
export * from './matmul-tile.js';
export * from './matmul-tile-one.js';
export * from './paged-cache.js';
export * from './pool-rows.js';
export * from './quantize-q8.js';
export * from './ranks.js';
export * from './read-words.js';
export * from './repack.js';
export * from './residual-add.js';
export * from './rms-norm.js';
export * from './rope.js';
export * from './rope-kv-append.js';
export * from './sampling.js';
export * from './scale-queries.js';
export * from './short-conv.js';
export * from './slot-write.js';
export * from './small-gemm.js';
export * from './softcap.js';
export * from './streams.js';
export * from './swiglu.js';
export * from './unfused-attention.js';

/** Every operation with the kernels that compute it, launched ones first. */
export const operations: Readonly<Record<string, readonly KernelContract[]>> = {
  'short-conv': shortConvContracts,
  'slot-write': slotWriteContracts,
  'embedding-gather': embeddingGatherContracts,
  'gather-rows': gatherRowsContracts,
  'join-rows': joinRowsContracts,
  'pool-rows': poolRowsContracts,
  'rms-norm': rmsNormContracts,
  'layer-norm': layerNormContracts,
  'head-norm': headNormContracts,
  matmul: matmulContracts,
  gemm: gemmContracts,
  'small-gemm': smallGemmContracts,
  'matmul-quantized': matmulQuantizedContracts,
  repack: repackContracts,
  'matmul-packed': matmulPackedContracts,
  'matmul-tile': [...matmulTileContracts, ...matmulTileOneContracts],
  fragments: fragmentsContracts,
  columns: columnsContracts,
  linear: linearContracts,
  linearOne: linearOneContracts,
  linearRotated: linearRotatedContracts,
  experts: [...expertsContracts, ...sentColumnsContracts, ...expertProductContracts, ...expertsOneContracts],
  'delta-net': deltaNetContracts,
  mamba: mambaContracts,
  'quantize-q8': quantizeQ8Contracts,
  convert: convertContracts,
  'residual-add': residualAddContracts,
  ranks: rankContracts,
  'bias-add': biasAddContracts,
  swiglu: swigluContracts,
  streams: streamsContracts,
  'gate-up-swiglu': gateUpSwigluContracts,
  softcap: softcapContracts,
  'scale-queries': scaleQueriesContracts,
  'rope-kv-append': ropeKvAppendContracts,
  rope: ropeContracts,
  'kv-append': kvAppendContracts,
  attention: [
    ...attentionContracts,
    ...attentionCombineContracts,
    ...attentionEncoderContracts,
    ...attentionLargeContracts,
    ...attentionTileCombineContracts,
    ...attentionSinksContracts,
    ...attentionRowsContracts,
  ],
  'latent-attention': latentAttentionContracts,
  'flash-attention': flashAttentionContracts,
  ...unfusedAttentionOperations,
  argmax: argmaxContracts,
  ...logSoftmaxOperations,
  'read-words': readWordsContracts,
  'block-sums': blockSumsContracts,
  'block-copy': blockCopyContracts,
  'copy-words': copyWordsContracts,
  ...samplingOperations,
};

/** Every contract. */
export const allContracts: readonly KernelContract[] = Object.values(operations).flat();
