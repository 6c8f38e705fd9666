import type { Models } from '../models.js';
import { RunningRequests } from '../running-requests.js';
import { vllmEngineService } from './engine-service.js';
import type { GrpcService } from './grpc-service.js';
import { inferenceService } from './inference-service.js';
import { LoadReport } from './load-report.js';
import { vllmControlService, vllmInferenceService } from './vllm-service.js';

/** All that the public server serves beside health: the public API, and the protocols that routers and other clients speak. */
export function publicServices(models: Models): readonly GrpcService[] {
  const report = new LoadReport(() => models.load);
  // One for all: vLLM's Abort is of another service than what it ends.
  const api = { models, running: new RunningRequests() };
  return [
    inferenceService(models, report),
    vllmInferenceService(api, report),
    vllmControlService(api),
    vllmEngineService(api, report),
  ];
}
