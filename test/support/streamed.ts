import type { ServiceError } from '@grpc/grpc-js';
import type {
  GenerateStreamRequest,
  GenerateStreamResponse,
  InferenceServiceClient,
} from '../../src/shared/generated/rocmforge/v1/inference.js';
import { errorInfo } from '../../src/shared/grpc/status.js';

/** A stream as far as it came, and its end. */
export interface Streamed {
  readonly tokenIds: number[];
  reason: string | undefined;
}

/** Starts a stream; `at` is called once it has so many tokens. */
export function stream(
  client: InferenceServiceClient,
  message: GenerateStreamRequest,
  at: { readonly tokens: number; call(): void },
): Promise<Streamed> {
  const streamed: Streamed = { tokenIds: [], reason: undefined };
  return new Promise((resolve) => {
    let isCalled = false;
    const call = client.generateStream(message);
    call.on('data', ({ event }: GenerateStreamResponse) => {
      if (event?.$case !== 'chunk') return;
      streamed.tokenIds.push(...event.value.tokenIds);
      if (isCalled || streamed.tokenIds.length < at.tokens) return;
      isCalled = true;
      at.call();
    });
    call.on('error', (error: ServiceError) => {
      streamed.reason = errorInfo(error)?.reason ?? error.details;
      resolve(streamed);
    });
    call.on('end', () => resolve(streamed));
  });
}

/** The reason for which a call fails. */
export const reasonOf = (attempt: Promise<unknown>): Promise<string> =>
  attempt.then(
    () => 'served',
    (error: ServiceError) => errorInfo(error)?.reason ?? error.details,
  );
