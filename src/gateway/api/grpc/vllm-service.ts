import { randomUUID } from 'node:crypto';
import type { Metadata, ServerUnaryCall, ServerWritableStream, sendUnaryData } from '@grpc/grpc-js';
import { type ControlServer, ControlService } from '../../../shared/generated/vllm/control.js';
import {
  type GenerateRequest,
  type GenerateResponse,
  type InferenceServer,
  InferenceService,
} from '../../../shared/generated/vllm/inference.js';
import { packageVersion } from '../../../shared/package.js';
import { check } from '../protocols/protocol.js';
import { VLLM_INFERENCE } from '../protocols/vllm-inference.js';
import { VllmGathered, VllmResponse } from '../protocols/vllm-response.js';
import type { ResponseStream } from '../response-stream.js';
import { type GrpcService, grpcService, withRefused } from './grpc-service.js';
import type { LoadReport } from './load-report.js';
import { serveTranslated, type TranslatedApi } from './translated-generation.js';
import { answerKnown, responseStreamOf } from './unary-responses.js';

/** Which of several replicas runs a request; vLLM's front end reads it from a call's metadata. */
const RANK_KEY = 'x-data-parallel-rank';

/** Texts of vLLM itself. */
const API_VERSION = 'vllm';

/** Methods of vLLM's proto that are not built: LoRA, KV events, the life of the process, weights of reinforcement learning. */
export const REFUSED_CONTROL_METHODS = [
  'Shutdown',
  'LoadLora',
  'UnloadLora',
  'ListLoras',
  'GetKvEventSources',
  'PauseGeneration',
  'ResumeGeneration',
  'IsPaused',
  'Sleep',
  'WakeUp',
  'IsSleeping',
  'InitWeightTransferEngine',
  'StartWeightUpdate',
  'StartDraftWeightUpdate',
  'UpdateWeights',
  'FinishWeightUpdate',
  'UpdateWeightVersion',
  'GetWeightVersion',
] as const;

/** `vllm.Inference`, of vLLM's Rust front end. */
export function vllmInferenceService(api: TranslatedApi, load: LoadReport): GrpcService {
  const handlers: InferenceServer = {
    generateStream: (call) => void generateStream(api, load, call),
    generate: (call, callback) => void generate(api, load, call, callback),
  };
  const { generate: size } = api.models.requestBytes;
  return grpcService(VLLM_INFERENCE.service, InferenceService, handlers, { generate: size, generateStream: size });
}

async function generateStream(
  api: TranslatedApi,
  load: LoadReport,
  call: ServerWritableStream<GenerateRequest, GenerateResponse>,
): Promise<void> {
  const reader = responseStreamOf(call, load);
  await serveTranslated(api, VLLM_INFERENCE, call, reader, (options) => {
    checkRank(call.metadata);
    return new VllmResponse(options, (message) => reader.write(message));
  });
}

/** @throws RocmForgeError `INVALID_FIELD` of a rank that there is not */
function checkRank(metadata: Metadata): void {
  for (const rank of metadata.get(RANK_KEY)) check(rank === '0', RANK_KEY, `is "${rank}"; there is only rank 0`);
}

async function generate(
  api: TranslatedApi,
  load: LoadReport,
  call: ServerUnaryCall<GenerateRequest, GenerateResponse>,
  callback: sendUnaryData<GenerateResponse>,
): Promise<void> {
  const gathered = new VllmGathered();
  const reader: ResponseStream<GenerateResponse> = {
    writableNeedDrain: false,
    onceDrained: () => undefined,
    write: (message) => gathered.take(message),
    end: () => callback(null, gathered.response, load.trailers()),
    fail: (error) => callback(load.statusOf(error), null),
  };
  await serveTranslated(api, VLLM_INFERENCE, call, reader, (options) => {
    checkRank(call.metadata);
    const { n } = options;
    check(n === 1, 'sampling.num_sequences', `is ${n}; one answer has one sequence: use GenerateStream`);
    return new VllmResponse(options, (message) => reader.write(message));
  });
}

/** `vllm.Control`, as far as it is about this server. Its answers are of one model: of several, the first. */
export function vllmControlService({ models, running }: TranslatedApi): GrpcService {
  const { inference, load, parallelism } = models.first;
  const instanceId = randomUUID();
  const handlers: ControlServer = {
    getServerInfo: (call, callback) =>
      answerKnown(call, callback, () => {
        const { slots, stepTokens, blockTokens, kvBlocks } = load();
        const { tensor, pipeline } = parallelism();
        return {
          engineVersion: packageVersion,
          apiVersion: API_VERSION,
          instanceId,
          parallelism: {
            tensorParallelSize: tensor,
            pipelineParallelSize: pipeline,
            // Replicas have no ranks that a request could name: which one runs it is the gateway's choice.
            dataParallelSize: 1,
            decodeContextParallelSize: 1,
            worldSize: BigInt(tensor * pipeline),
            dataParallelSizeLocal: 1,
          },
          maxModelLen: inference.describe().contextLength,
          kvBlockSize: blockTokens,
          totalKvBlocks: BigInt(kvBlocks),
          maxRunningRequests: BigInt(slots),
          maxBatchedTokens: BigInt(stepTokens),
          effectiveAttentionBlockSize: BigInt(blockTokens),
        };
      }),
    getModelInfo: (call, callback) =>
      answerKnown(call, callback, () => {
        const { name } = inference.describe();
        return { modelId: name, servedModelName: name, supportsTextInput: true, supportsTokenIdsInput: true };
      }),
    abort: (call, callback) =>
      answerKnown(call, callback, ({ requestIds }, { principal }) => {
        running.abort(principal, requestIds);
        return {};
      }),
  };
  const size = models.controlBytes;
  const sizes = { getServerInfo: size, getModelInfo: size, abort: size };
  return withRefused(grpcService('vllm.Control', ControlService, handlers, sizes), REFUSED_CONTROL_METHODS);
}
