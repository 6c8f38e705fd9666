import { type ClientReadableStream, credentials, type ServiceError } from '@grpc/grpc-js';
import { ControlClient } from '../../src/shared/generated/vllm/control.js';
import {
  type GenerateRequest as EngineRequest,
  type GenerateResponse as EngineResponse,
  type GenerateComplete,
  type GenerateStreamChunk,
  VllmEngineClient,
} from '../../src/shared/generated/vllm/grpc/engine/vllm_engine.js';
import {
  type GenerateRequest,
  type GenerateResponse,
  InferenceClient,
} from '../../src/shared/generated/vllm/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';

/** Clients of the other protocols, of one connection: over a socket file that is who they are. */
export interface ProtocolClients {
  readonly inference: InferenceClient;
  readonly control: ControlClient;
  readonly engine: VllmEngineClient;
  close(): void;
}

export function protocolClients(address: string, options: Record<string, number> = {}): ProtocolClients {
  const inference = new InferenceClient(address, credentials.createInsecure(), options);
  const channelOverride = inference.getChannel();
  const shared = { ...options, channelOverride };
  return {
    inference,
    control: new ControlClient(address, credentials.createInsecure(), shared),
    engine: new VllmEngineClient(address, credentials.createInsecure(), shared),
    close: () => inference.close(),
  };
}

/** All messages of a stream. Rejects with the gRPC error. */
export function messagesOf<Message>(
  call: ClientReadableStream<Message>,
  each: (message: Message) => void = () => undefined,
): Promise<Message[]> {
  const messages: Message[] = [];
  return new Promise((resolve, reject) => {
    call.on('data', (message: Message) => {
      messages.push(message);
      each(message);
    });
    call.on('error', reject);
    call.on('end', () => resolve(messages));
  });
}

/** The answer of a unary call. */
export function unary<Request, Response>(
  method: (request: Request, callback: (error: ServiceError | null, response: Response) => void) => unknown,
  request: Request,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    method(request, (error, response) => (error ? reject(error) : resolve(response)));
  });
}

/** Refusal of a call. */
export async function refusalOf(
  attempt: Promise<unknown>,
): Promise<{ readonly code: number; readonly reason: string | undefined; readonly field: string | undefined }> {
  const error = await attempt.then(
    () => {
      throw new Error('it was served');
    },
    (error: ServiceError) => error,
  );
  if (!('code' in error)) throw error;
  const info = errorInfo(error);
  return { code: error.code, reason: info?.reason, field: info?.metadata.field ?? info?.metadata.method };
}

/** A stream of `vllm.Inference`, put together. */
export function vllmGenerated(messages: readonly GenerateResponse[]) {
  const outputs = messages.flatMap(({ outputs }) => (outputs === undefined ? [] : [outputs]));
  return {
    prompts: messages.flatMap(({ promptInfo }) => (promptInfo === undefined ? [] : [promptInfo])),
    outputs,
    tokenIds: outputs.flatMap(({ tokenIds }) => tokenIds),
    numTokens: outputs.reduce((sum, { numTokens }) => sum + numTokens, 0),
    text: outputs.map(({ text }) => text).join(''),
    finishes: outputs.flatMap(({ index, finishInfo }) => (finishInfo === undefined ? [] : [{ index, ...finishInfo }])),
  };
}

/** A stream of `VllmEngine.Generate`, by kind. */
export function engineGenerated(messages: readonly EngineResponse[]) {
  const chunks: GenerateStreamChunk[] = [];
  const completes: GenerateComplete[] = [];
  for (const { response } of messages) {
    if (response?.$case === 'chunk') chunks.push(response.value);
    else if (response?.$case === 'complete') completes.push(response.value);
  }
  return { chunks, completes, tokenIds: chunks.flatMap(({ tokenIds }) => tokenIds) };
}

export type { EngineRequest, GenerateRequest };
