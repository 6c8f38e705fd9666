import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { credentials, type ServiceError } from '@grpc/grpc-js';
import { type Gateway, startGateway } from '../../src/gateway/main.js';
import type { GatewayOptions } from '../../src/gateway/options.js';
import {
  type GenerateComplete,
  GenerateStreamRequest,
  type GenerateStreamResponse,
  InferenceServiceClient,
  SamplingParameters,
  StopConditions,
  type TokenLogprobs,
} from '../../src/shared/generated/rocmforge/v1/inference.js';

process.env.ROCMFORGE_LOG_LEVEL ??= 'silent';

export interface TestGateway {
  readonly gateway: Gateway;
  readonly address: string;
  readonly client: InferenceServiceClient;
  stop(): Promise<void>;
}

/** A gateway in this process, its executor in a real one, on a private socket. */
export async function startTestGateway(
  model: string,
  options: Partial<GatewayOptions> & { stepDelayMs?: number } = {},
): Promise<TestGateway> {
  const address = `unix:${path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'gateway.sock')}`;
  const { stepDelayMs, ...rest } = options;
  const gateway = await startGateway({
    model,
    listen: address,
    executor: { spawn: { device: 'host', stepDelayMs } },
    maxSequences: 16,
    maxStepTokens: 512,
    kvMemoryBytes: 0,
    kvCacheType: 'f32',
    pipelineDepth: 2,
    prefixCache: true,
    stepTimeoutMs: 60_000,
    maxQueuedRequests: 1024,
    maxQueuedTokens: 1 << 20,
    maxRestarts: 5,
    checkEveryStep: true,
    // One client stands for many.
    maxStreamsPerConnection: 1024,
    maxQueuedRequestsPerPeer: rest.maxQueuedRequests ?? 1024,
    ...rest,
  });
  const client = new InferenceServiceClient(address, credentials.createInsecure());
  return {
    gateway,
    address,
    client,
    stop: async () => {
      client.close();
      await gateway.stop();
    },
  };
}

/** One of a generation's completions. */
export interface GeneratedCompletion {
  readonly tokenIds: number[];
  text: string;
  readonly logprobs: TokenLogprobs[];
  end: GenerateComplete | undefined;
}

/** A generation as a test sees it; what stands beside `completions` is of all of them, as it came. */
export interface Generated {
  readonly completions: GeneratedCompletion[];
  readonly tokenIds: number[];
  text: string;
  readonly logprobs: TokenLogprobs[];
  readonly promptLogprobs: TokenLogprobs[];
  /** The end of the last completion that ended. */
  complete: GenerateComplete | undefined;
  /** Number of chunks. */
  chunks: number;
}

/** A request from its parts; what is left out has the proto's defaults. */
export function request(
  parts: Partial<Omit<GenerateStreamRequest, 'sampling' | 'stop' | 'input'>> & {
    text?: string;
    tokens?: number[];
    input?: GenerateStreamRequest['input'];
    sampling?: Partial<SamplingParameters>;
    stop?: Partial<StopConditions>;
  },
): GenerateStreamRequest {
  const { text, tokens, input, sampling, stop, ...rest } = parts;
  return {
    ...GenerateStreamRequest.create(),
    input:
      input ??
      (tokens !== undefined
        ? { $case: 'tokens', value: { ids: tokens } }
        : { $case: 'text', value: { text: text ?? '', parseSpecial: false, addSpecial: undefined } }),
    sampling: { ...SamplingParameters.create(), ...sampling },
    stop: { ...StopConditions.create(), ...stop },
    ...rest,
  };
}

/** Runs a generation to its end. Rejects with the gRPC error. */
export function generate(client: InferenceServiceClient, message: GenerateStreamRequest): Promise<Generated> {
  const lists = { tokenIds: [], logprobs: [], promptLogprobs: [], completions: [] };
  const generated: Generated = { ...lists, text: '', complete: undefined, chunks: 0 };
  return new Promise((resolve, reject) => {
    const call = client.generateStream(message);
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event === undefined) return;
      const { index } = event.value;
      const completion = generated.completions[index] ?? { tokenIds: [], text: '', logprobs: [], end: undefined };
      generated.completions[index] = completion;
      if (event.$case === 'complete') {
        generated.complete = event.value;
        completion.end = event.value;
        return;
      }
      completion.tokenIds.push(...event.value.tokenIds);
      completion.text += event.value.text;
      completion.logprobs.push(...event.value.logprobs);
      generated.chunks += 1;
      generated.tokenIds.push(...event.value.tokenIds);
      generated.text += event.value.text;
      generated.logprobs.push(...event.value.logprobs);
      generated.promptLogprobs.push(...event.value.promptLogprobs);
    });
    call.on('error', (error: ServiceError) => reject(error));
    call.on('end', () => resolve(generated));
  });
}
