import type { Load } from '../../replica/load.js';
import type { Inference } from '../inference.js';
import { RunningRequests } from '../running-requests.js';
import { vllmEngineService } from './engine-service.js';
import type { GrpcService } from './grpc-service.js';
import { inferenceService } from './inference-service.js';
import { LoadReport } from './load-report.js';
import { vllmControlService, vllmInferenceService } from './vllm-service.js';

/** All that the public server serves beside health: the public API, and the protocols that routers and other clients speak. */
export function publicServices(inference: Inference, load: () => Load): readonly GrpcService[] {
  const report = new LoadReport(load);
  // One for all: vLLM's Abort is of another service than what it ends.
  const door = { inference, running: new RunningRequests() };
  return [
    inferenceService(inference, report),
    vllmInferenceService(door, report),
    vllmControlService(door, load),
    vllmEngineService(door, load, report),
  ];
}
