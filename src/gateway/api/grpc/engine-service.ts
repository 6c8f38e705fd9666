import { type VllmEngineServer, VllmEngineService } from '../../../shared/generated/vllm/grpc/engine/vllm_engine.js';
import { LargeRequest } from '../../../shared/grpc/strict.js';
import { packageVersion } from '../../../shared/package.js';
import type { Load } from '../../replica/load.js';
import { EngineResponse } from '../protocols/engine-response.js';
import { check, refuseUnknown } from '../protocols/protocol.js';
import { VLLM_ENGINE } from '../protocols/vllm-engine.js';
import { type GrpcService, grpcService, withRefused } from './grpc-service.js';
import type { LoadReport } from './load-report.js';
import { serveTranslated, type TranslatedApi } from './translated-generation.js';
import { answer, answerKnown, responseStreamOf } from './unary-responses.js';

/** Name of SMG's servicer: routers distinguish protocols by it. */
const SERVER_TYPE = 'vllm-grpc';
/** The one section of a load report. */
const CORE = 'core';

/** Methods of SMG's proto that are not built. Routers take UNIMPLEMENTED for "has none". */
export const REFUSED_ENGINE_METHODS = ['GetTokenizer', 'SubscribeKvEvents'] as const;

/** `vllm.grpc.engine.VllmEngine`, by which routers send tokens to vLLM. It knows one model: of several, the first. */
export function vllmEngineService(server: TranslatedApi, report: LoadReport): GrpcService {
  const { models, running } = server;
  const { inference, embeddings, load } = models.first;
  const handlers: VllmEngineServer = {
    generate: (call) => {
      const reader = responseStreamOf(call, report);
      void serveTranslated(
        server,
        VLLM_ENGINE,
        call,
        reader,
        (options) => new EngineResponse(options, (message) => reader.write(message)),
      );
    },
    embed: (call, callback) =>
      answer(call, callback, async (request, client) => {
        if (!(request instanceof LargeRequest)) refuseUnknown(request);
        return embeddings.embedEngine(request, client);
      }),
    healthCheck: (call, callback) =>
      answerKnown(call, callback, () => {
        const { ready } = inference.describe();
        return { healthy: ready, message: ready ? 'requests are served' : 'no executor serves at the moment' };
      }),
    abort: (call, callback) =>
      answerKnown(call, callback, ({ requestIds }, { principal }) => {
        running.abort(principal, requestIds);
        return {};
      }),
    getModelInfo: (call, callback) =>
      answerKnown(call, callback, () => {
        const { name, architecture, contextLength, vocabularySize } = inference.describe();
        const { bosId, eogIds } = inference.specialTokens;
        return {
          modelPath: name,
          isGeneration: true,
          maxContextLength: contextLength,
          vocabSize: vocabularySize,
          servedModelName: name,
          modelType: architecture,
          eosTokenIds: [...eogIds],
          bosTokenId: bosId ?? 0,
          maxReqInputLen: contextLength - 1,
        };
      }),
    getServerInfo: (call, callback) =>
      answerKnown(call, callback, () => {
        const { running, waiting } = load();
        return {
          activeRequests: running + waiting,
          uptimeSeconds: process.uptime(),
          serverType: SERVER_TYPE,
          dataParallelSize: 1,
        };
      }),
    getLoads: (call, callback) =>
      answerKnown(call, callback, ({ dpRank = 0, include }) => {
        check(dpRank === 0, 'dp_rank', `is ${dpRank}; there is only rank 0`);
        check(
          include.every((section) => section === CORE),
          'include',
          `has what is not reported; there is only "${CORE}"`,
        );
        return { timestamp: new Date().toISOString(), version: packageVersion, dpRankCount: 1, loads: [loads(load())] };
      }),
  };
  const { generate, embed } = models.requestBytes;
  const size = models.controlBytes;
  const service = grpcService(VLLM_ENGINE.service, VllmEngineService, handlers, {
    generate,
    embed,
    healthCheck: size,
    abort: size,
    getModelInfo: size,
    getServerInfo: size,
    getLoads: size,
  });
  return withRefused(service, REFUSED_ENGINE_METHODS);
}

function loads({ running, waiting, slots, blockTokens, kvBlocks, usedKvBlocks, kvUsage }: Load) {
  return {
    dpRank: 0,
    numRunningReqs: running,
    numWaitingReqs: waiting,
    numTotalReqs: running + waiting,
    numUsedTokens: usedKvBlocks * blockTokens,
    maxTotalNumTokens: kvBlocks * blockTokens,
    tokenUsage: kvUsage,
    maxRunningRequests: slots,
  };
}
