import {
  GenerateStreamRequest,
  SamplingParameters,
  StopConditions,
} from '../../shared/generated/rocmforge/v1/inference.js';
import { type Connection, stream } from '../common/client.js';

/** One measured generation as a client sees it. */
export interface ClientRun {
  readonly firstTokenMs: number;
  /** Tokens a second behind the first message; undefined where one message brought all of them. */
  readonly tokensPerSecond: number | undefined;
}

/** Streams `count + 1` tokens for a prompt of token ids through a gateway. */
export async function runClient(connection: Connection, prompt: readonly number[], count: number): Promise<ClientRun> {
  const started = performance.now();
  let [first, last, tokens, firstTokens] = [0, 0, 0, 0];
  await stream(
    connection.client,
    {
      ...GenerateStreamRequest.create(),
      input: { $case: 'tokens', value: { ids: [...prompt] } },
      sampling: { ...SamplingParameters.create(), temperature: 0 },
      stop: { ...StopConditions.create(), maxTokens: count + 1, ignoreEos: true },
    },
    ({ tokenIds }) => {
      if (tokenIds.length === 0) return;
      last = performance.now();
      tokens += tokenIds.length;
      if (first === 0) [first, firstTokens] = [last, tokens];
    },
  );
  return {
    firstTokenMs: first - started,
    tokensPerSecond: tokens > firstTokens ? ((tokens - firstTokens) / (last - first)) * 1000 : undefined,
  };
}
