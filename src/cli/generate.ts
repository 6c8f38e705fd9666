import {
  ChatInput,
  finishReasonToJSON,
  GenerateStreamRequest,
  SamplingParameters,
  StopConditions,
  TextInput,
} from '../shared/generated/rocmforge/v1/inference.js';
import { connect, stream } from './client.js';
import type { ModelOptionValues } from './options.js';

export interface GenerateOptions extends ModelOptionValues {
  readonly model?: string;
  readonly address?: string;
  readonly prompt: string;
  readonly chat: boolean;
  readonly maxTokens: number;
  readonly temperature?: number;
  readonly topK?: number;
  readonly topP?: number;
  readonly minP?: number;
  readonly seed?: bigint;
  readonly json: boolean;
  readonly stats: boolean;
}

/** `rocmforge generate`: the text alone on stdout, or JSON lines. */
export async function generate(options: GenerateOptions): Promise<void> {
  const connection = await connect(options);
  try {
    const request: GenerateStreamRequest = {
      ...GenerateStreamRequest.create(),
      input: options.chat
        ? { $case: 'chat', value: ChatInput.fromPartial({ messages: [{ role: 'user', content: options.prompt }] }) }
        : { $case: 'text', value: TextInput.fromPartial({ text: options.prompt }) },
      sampling: {
        ...SamplingParameters.create(),
        temperature: options.temperature,
        topK: options.topK ?? 0,
        topP: options.topP,
        minP: options.minP ?? 0,
        seed: options.seed,
      },
      stop: { ...StopConditions.create(), maxTokens: options.maxTokens },
    };
    const started = performance.now();
    let firstTokenMs = 0;
    const complete = await stream(connection.client, request, ({ text, tokenIds, reasoning }) => {
      if (firstTokenMs === 0) firstTokenMs = performance.now() - started;
      if (!options.json) process.stdout.write(text);
      else {
        const line = { token_ids: tokenIds, text, ...(reasoning !== '' && { reasoning }) };
        process.stdout.write(`${JSON.stringify(line)}\n`);
      }
    });
    const totalMs = performance.now() - started;
    const tokens = complete.usage?.completionTokens ?? 0;
    // The first token waits for the prompt: the rate is that of those after it.
    const tokensPerSecond = tokens > 1 ? ((tokens - 1) / (totalMs - firstTokenMs)) * 1000 : 0;
    if (options.json) {
      const end = {
        finish_reason: finishReasonToJSON(complete.finishReason),
        prompt_tokens: complete.usage?.promptTokens,
        cached_tokens: complete.usage?.cachedTokens,
        completion_tokens: tokens,
        proposed_tokens: complete.usage?.proposedTokens,
        accepted_tokens: complete.usage?.acceptedTokens,
        seed: complete.seed.toString(),
        first_token_ms: Math.round(firstTokenMs),
        tokens_per_second: Number(tokensPerSecond.toFixed(1)),
      };
      process.stdout.write(`${JSON.stringify(end)}\n`);
    } else {
      process.stdout.write('\n');
    }
    if (options.stats) {
      process.stderr.write(
        `\n${tokens} tokens, ${tokensPerSecond.toFixed(1)} tokens/s, first token after ${firstTokenMs.toFixed(0)} ms\n`,
      );
    }
  } finally {
    await connection.close();
  }
}
