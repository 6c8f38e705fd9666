import { RocmForgeError } from '../../shared/errors.js';
import { FinishReason, GenerateResponse, Usage } from '../../shared/generated/rocmforge/v1/inference.js';
import type { GenerationParameters, GenerationSink } from '../request/generation.js';
import { MAX_ANSWER_TEXT_BYTES } from '../request/limits.js';
import type { WaitingCall } from './inference.js';
import {
  addParts,
  bytesBeside,
  finishReason,
  promptLogprobs,
  stopMatch,
  together,
  tokenLogprobs,
  usageOf,
} from './messages.js';

/**
 * All that a generation answers, as one message.
 *
 * @param start starts it; `done` of what it returns is true when no completion is under way any more
 * @returns undefined where the client has gone meanwhile
 * @throws RocmForgeError why it did not end; `MESSAGE_TOO_LARGE`
 */
export function collectResponse(
  { n, promptIds }: Pick<GenerationParameters, 'n' | 'promptIds'>,
  start: (sink: GenerationSink) => { readonly done: boolean },
  {
    requestId,
    model,
    promptText,
    client,
    onToken,
  }: {
    readonly requestId: string;
    readonly model: string;
    /** The prompt's text, where it was asked for. */
    readonly promptText?: string | undefined;
    readonly client: WaitingCall;
    /** Told when tokens come. */
    readonly onToken: (() => void) | undefined;
  },
): Promise<GenerateResponse | undefined> {
  const response = GenerateResponse.fromPartial({ requestId, model, promptText: promptText ?? '' });
  response.completions = Array.from({ length: n }, (_, index) => ({
    index,
    text: '',
    tokenIds: [],
    logprobs: [],
    finishReason: FinishReason.UNSPECIFIED,
    stopMatch: undefined,
    seed: 0n,
    reasoning: '',
    toolCalls: [],
  }));
  let usage = Usage.fromPartial({ promptTokens: promptIds.length });
  let textBytes = Buffer.byteLength(response.promptText);
  return new Promise((resolve, reject) => {
    client.signal.addEventListener('abort', () => resolve(undefined), { once: true });
    const sink: GenerationSink = {
      chunk: (index, tokenIds, text, logprobs, beside) => {
        const completion = response.completions[index];
        if (completion === undefined || client.signal.aborted) return;
        onToken?.();
        textBytes += Buffer.byteLength(text) + bytesBeside(beside);
        if (textBytes > MAX_ANSWER_TEXT_BYTES) {
          const what = `the texts have more than the ${MAX_ANSWER_TEXT_BYTES} bytes of one answer; stream them`;
          reject(new RocmForgeError('MESSAGE_TOO_LARGE', what));
          client.cancel();
          return;
        }
        completion.text += text;
        if (beside !== undefined) addParts(completion, beside);
        completion.tokenIds.push(...tokenIds);
        completion.logprobs.push(...logprobs.map(tokenLogprobs));
      },
      progress: () => undefined,
      prompt: (logprobs) => {
        response.promptLogprobs = logprobs.map(promptLogprobs);
      },
      complete: (index, finish, counts) => {
        const completion = response.completions[index];
        if (completion === undefined) return;
        completion.finishReason = finishReason(finish);
        completion.stopMatch = stopMatch(finish);
        completion.seed = counts.seed;
        usage = together(usage, usageOf(counts));
        if (running.done) resolve({ ...response, usage });
      },
      error: reject,
    };
    const running = start(sink);
  });
}
