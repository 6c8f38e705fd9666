import { randomUUID } from 'node:crypto';
import { RocmForgeError } from '../../../../shared/errors.js';
import type { Constraint, GenerateStreamRequest } from '../../../../shared/generated/rocmforge/v1/inference.js';
import { encodeInput, type PromptEncoder } from '../../../request/encoding/prompt.js';
import type { LimitFacts } from '../../../request/limits.js';
import { forcesToolCalls } from '../../../request/required-tool-calls.js';
import { checkGeneration, generationParameters } from '../../../request/validate.js';
import { JsonText } from '../json-slices.js';
import type { JsonGeneration } from '../request.js';

type Json = Readonly<Record<string, unknown>>;

/** Dependencies of rendering. */
export interface RenderTools {
  readonly facts: LimitFacts;
  readonly encoder: PromptEncoder;
}

/**
 * A request as vLLM's engines take it, tokens in and tokens out (`GenerateRequest` of vLLM's `/v1/chat/completions/render`): for each
 * message one, with its parameters resolved.
 *
 * @param idPrefix of ids that the server makes
 * @throws RocmForgeError as {@link generationParameters}; `NOT_IMPLEMENTED` for what such a request cannot say
 */
export function rendered({ messages, form }: JsonGeneration, idPrefix: string, tools: RenderTools): readonly Json[] {
  return messages.map((message) => {
    const { facts, encoder } = tools;
    checkGeneration(message, facts);
    const { input, requestId, priority } = message;
    if (input?.$case === 'chat' && forcesToolCalls(input.value))
      throw unsupported('tool_choice', 'which the engine would have to constrain');
    if (form.echo) throw unsupported('echo', 'which is text');
    const promptIds = encodeInput(input, encoder);
    const { tokenizer } = encoder;
    const inputField = input?.$case ?? 'input';
    const parameters = generationParameters(message, {
      ...{ facts, tokenizer, promptIds, inputField, promptText: undefined, isUnary: false },
    });
    return {
      request_id: requestId || `${idPrefix}${randomUUID()}`,
      token_ids: Array.from(promptIds),
      ...{ token_offsets: null, features: null },
      sampling_params: samplingParams(message, parameters),
      model: message.model || facts.modelName,
      stream: form.isStream,
      stream_options: form.isStream && form.includeUsage ? { include_usage: true } : null,
      cache_salt: null,
      // There, lower runs first.
      priority: -priority,
    };
  });
}

/** Sampling parameters by vLLM's names (its `SamplingParams`). */
function samplingParams(
  { sampling: given, stop, output, constraint }: GenerateStreamRequest,
  { sampling, stop: { maxTokens, minTokens }, n }: ReturnType<typeof generationParameters>,
): Json {
  if (sampling.typicalP !== 1) throw unsupported('typical_p', 'which vLLM has not');
  return {
    n,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    presence_penalty: sampling.presencePenalty,
    frequency_penalty: sampling.frequencyPenalty,
    seed: given?.seed === undefined ? null : new JsonText(String(BigInt.asIntN(64, given.seed))),
    logit_bias: sampling.logitBias.length === 0 ? null : Object.fromEntries(sampling.logitBias),
    stop: stop?.strings ?? [],
    stop_token_ids: stop?.tokenIds ?? [],
    include_stop_str_in_output: stop?.includeStopString ?? false,
    ignore_eos: stop?.ignoreEos ?? false,
    max_tokens: maxTokens,
    min_tokens: minTokens,
    logprobs: output?.logprobs ?? null,
    prompt_logprobs: output?.promptLogprobs ?? null,
    skip_special_tokens: !output?.includeSpecialTokens,
    structured_outputs: structuredOutputs(constraint),
  };
}

function structuredOutputs(constraint: Constraint | undefined): Json | null {
  const { kind } = constraint ?? {};
  if (kind === undefined) return null;
  switch (kind.$case) {
    case 'jsonSchema':
      // As text: numbers keep their digits.
      return { json: kind.value };
    case 'choice':
      return { choice: kind.value.options };
    default:
      return { [kind.$case]: kind.value };
  }
}

function unsupported(field: string, why: string): RocmForgeError {
  return new RocmForgeError('NOT_IMPLEMENTED', `${field} cannot be rendered to a request of tokens, ${why}`, { field });
}
