import { readFileSync } from 'node:fs';
import { RocmForgeError } from '../../shared/errors.js';
import {
  ChatInput,
  ChatMessage,
  FinishReason,
  finishReasonToJSON,
  type GenerateChunk,
  type GenerateComplete,
  GenerateStreamRequest,
  OutputOptions,
  SamplingParameters,
  StopConditions,
  TextInput,
  TokenLogprobs,
} from '../../shared/generated/rocmforge/v1/inference.js';
import type { GivenValues, OptionValues } from '../../shared/option-table.js';
import { connect, servedModel, stream } from '../common/client.js';
import { EXIT_OUTPUT_CLOSED, outputClosed } from '../common/closed-output.js';
import { writeJson, writeModelText, writeNotice } from '../common/output.js';
import { unreachable } from '../common/unreachable.js';
import type { GENERATE_OPTIONS } from './text-commands.js';

/** Options of `generate`. Those of the gateway that it starts may be missing. */
export type GenerateOptions = GivenValues<Omit<typeof GENERATE_OPTIONS, 'prompt'>> &
  Pick<OptionValues<typeof GENERATE_OPTIONS>, 'chat' | 'maxTokens' | 'n' | 'json' | 'stats'> & {
    /** `-`: what stdin has. */
    readonly prompt: string;
  };

const STDIN = 0;

/**
 * `rocmforge generate`: the text alone on stdout, of several completions one after the other, or JSON lines. Whoever closes
 * stdout ends it.
 *
 * @throws RocmForgeError `INVALID_OPTION` for options that need others, or the gateway's error
 */
export async function generate(options: GenerateOptions): Promise<void> {
  if (options.system !== undefined && !options.chat) {
    throw new RocmForgeError('INVALID_OPTION', '--system requires --chat');
  }
  if (options.logprobs !== undefined && !options.json) {
    throw new RocmForgeError('INVALID_OPTION', '--logprobs requires --json');
  }
  const prompt = options.prompt === '-' ? readFileSync(STDIN, 'utf8') : options.prompt;
  const connection = await connect(options);
  try {
    const started = performance.now();
    let firstTokenMs = 0;
    const texts = Array.from({ length: options.n }, () => '');
    const completes = await stream(
      connection.client,
      requestOf(prompt, options),
      (chunk) => {
        if (firstTokenMs === 0) firstTokenMs = performance.now() - started;
        if (options.json) writeJson(chunkLine(chunk, options));
        // Several come at once; a terminal has one place to write.
        else if (options.n === 1) writeModelText(chunk.text);
        else texts[chunk.index] += chunk.text;
      },
      outputClosed,
    );
    const totalMs = performance.now() - started;
    const tokens = completes.reduce((sum, { usage }) => sum + (usage?.completionTokens ?? 0), 0);
    // The first token waits for the prompt: the rate is that of those after it.
    const tokensPerSecond = tokens > 1 ? ((tokens - 1) / (totalMs - firstTokenMs)) * 1000 : 0;
    const rates = { first_token_ms: Math.round(firstTokenMs), tokens_per_second: Number(tokensPerSecond.toFixed(1)) };
    if (options.json) {
      for (const complete of completes) {
        const end = { ...(options.n > 1 && { index: complete.index }), ...endLine(complete), ...rates };
        writeJson(end);
      }
    } else if (options.n === 1) {
      writeModelText('\n');
      if (process.stderr.isTTY) writeNotice(cutNotice(completes[0] as GenerateComplete, options.maxTokens));
    } else {
      for (const [i, text] of texts.entries()) writeModelText(`[${i + 1} of ${options.n}]\n${text}\n`);
    }
    if (options.stats) {
      writeNotice(
        `\n${tokens} tokens, ${tokensPerSecond.toFixed(1)} tokens/s, first token after ${firstTokenMs.toFixed(0)} ms\n`,
      );
    }
  } catch (error) {
    if (!outputClosed.aborted) throw options.address === undefined ? error : unreachable(error, options.address);
    process.exitCode ??= EXIT_OUTPUT_CLOSED;
  } finally {
    await connection.close();
  }
}

/** A line on why a text ends in the middle; empty for one that is complete. */
function cutNotice({ finishReason, usage }: GenerateComplete, maxTokens: number): string {
  if (finishReason !== FinishReason.LENGTH) return '';
  const isLimit = (usage?.completionTokens ?? 0) >= maxTokens;
  return isLimit
    ? `(stopped after --max-tokens ${maxTokens}; raise it for a longer text)\n`
    : '(stopped because the context is full)\n';
}

function requestOf(prompt: string, options: GenerateOptions): GenerateStreamRequest {
  const opening = options.system === undefined ? [] : [{ role: 'system', content: options.system }];
  const messages = [...opening, { role: 'user', content: prompt }].map((turn) => ChatMessage.fromPartial(turn));
  return {
    ...GenerateStreamRequest.create(),
    model: servedModel(options),
    input: options.chat
      ? { $case: 'chat', value: ChatInput.fromPartial({ messages }) }
      : { $case: 'text', value: TextInput.fromPartial({ text: prompt }) },
    sampling: {
      ...SamplingParameters.create(),
      temperature: options.temperature,
      topK: options.topK ?? 0,
      topP: options.topP,
      minP: options.minP ?? 0,
      seed: options.seed,
      repetitionPenalty: options.repetitionPenalty,
      frequencyPenalty: options.frequencyPenalty ?? 0,
      presencePenalty: options.presencePenalty ?? 0,
    },
    stop: { ...StopConditions.create(), maxTokens: options.maxTokens, strings: [...(options.stop ?? [])] },
    output: { ...OutputOptions.create(), logprobs: options.logprobs },
    n: options.n,
  };
}

function chunkLine({ index, text, tokenIds, reasoning, logprobs }: GenerateChunk, { n }: GenerateOptions): object {
  return {
    ...(n > 1 && { index }),
    token_ids: tokenIds,
    text,
    ...(reasoning !== '' && { reasoning }),
    ...(logprobs.length > 0 && { logprobs: logprobs.map((one) => TokenLogprobs.toJSON(one)) }),
  };
}

function endLine({ finishReason, usage, seed }: GenerateComplete): object {
  return {
    finish_reason: finishReasonToJSON(finishReason),
    prompt_tokens: usage?.promptTokens,
    cached_tokens: usage?.cachedTokens,
    completion_tokens: usage?.completionTokens ?? 0,
    proposed_tokens: usage?.proposedTokens,
    accepted_tokens: usage?.acceptedTokens,
    seed: seed.toString(),
  };
}
