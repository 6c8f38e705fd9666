import { type Constraint, GenerateStreamRequest } from '../../../shared/generated/rocmforge/v1/inference.js';
import { GenerateRequest } from '../../../shared/generated/vllm/inference.js';
import {
  anyObject,
  check,
  choiceConstraint,
  type Protocol,
  type ProtocolField,
  snakeCase,
  textInput,
  tokenInput,
} from './protocol.js';

/** Data that a response of `vllm.Inference` depends on. */
export interface VllmOptions {
  /** Completions. */
  readonly n: number;
  readonly promptTokenIds: boolean;
  readonly outputText: boolean;
  readonly outputTokenIds: boolean;
  readonly outputLogprobs: boolean;
  /** Those that the request named; others that end it are the model's own. */
  readonly stopTokenIds: readonly number[];
}

/** Meaning of `max_new_tokens` of 0, by the comment of the field. */
const DEFAULT_NEW_TOKENS = 20;
const MOST_PRIORITY = 2 ** 31 - 1;

type Field = ProtocolField<GenerateRequest>;

const structuredOutput = (kind: string): Field => ({
  field: `decoding.${kind}`,
  refusedIf: ({ decoding }) => kindOf(decoding?.structuredOutput) === kind,
});

/** A kind that is on: `json_object` can be false. */
function kindOf(output: NonNullable<GenerateRequest['decoding']>['structuredOutput']): string | undefined {
  if (output === undefined || output.value === false) return undefined;
  return snakeCase(output.$case);
}

const FIELDS: readonly Field[] = [
  { field: 'request_id', ours: 'request_id' },
  { field: 'model', ours: 'model' },
  { field: 'text', ours: 'text', note: 'literals of special tokens in it are those tokens, as in vLLM' },
  { field: 'token_ids.ids', ours: 'tokens.ids' },
  { field: 'temperature', ours: 'sampling.temperature', note: 'absent: 0' },
  { field: 'sampling.num_sequences', ours: 'n', note: '0: 1; of `Generate` at most 1' },
  { field: 'sampling.top_k', ours: 'sampling.top_k', note: '0: all' },
  { field: 'sampling.top_p', ours: 'sampling.top_p', note: '0: 1' },
  { field: 'sampling.min_p', ours: 'sampling.min_p' },
  { field: 'sampling.seed', ours: 'sampling.seed', note: 'at least 0' },
  { field: 'decoding.presence_penalty', ours: 'sampling.presence_penalty' },
  { field: 'decoding.frequency_penalty', ours: 'sampling.frequency_penalty' },
  { field: 'decoding.repetition_penalty', ours: 'sampling.repetition_penalty', note: '0: 1' },
  { field: 'decoding.logit_bias', ours: 'sampling.logit_bias' },
  {
    field: 'decoding.allowed_token_ids',
    refusedIf: ({ decoding }) => (decoding?.allowedTokenIds.length ?? 0) > 0,
  },
  { field: 'decoding.json', ours: 'constraint.json_schema' },
  { field: 'decoding.regex', ours: 'constraint.regex' },
  { field: 'decoding.choice.choices', ours: 'constraint.choice' },
  { field: 'decoding.grammar', ours: 'constraint.grammar', note: 'as llama.cpp writes grammars (GBNF)' },
  { field: 'decoding.json_object', note: 'any JSON object' },
  structuredOutput('structural_tag'),
  {
    field: 'decoding.bad_words_token_ids',
    refusedIf: ({ decoding }) => (decoding?.badWordsTokenIds.length ?? 0) > 0,
  },
  { field: 'stopping.max_new_tokens', ours: 'stop.max_tokens', note: `0: ${DEFAULT_NEW_TOKENS}` },
  { field: 'stopping.min_new_tokens', ours: 'stop.min_tokens' },
  { field: 'stopping.stop_token_ids', ours: 'stop.token_ids' },
  { field: 'stopping.stop_strings', ours: 'stop.strings' },
  { field: 'stopping.include_stop_strings', ours: 'stop.include_stop_string' },
  { field: 'stopping.ignore_eos', ours: 'stop.ignore_eos' },
  {
    field: 'stopping.thinking_token_budget',
    note: 'but -1, which is none',
    refusedIf: ({ stopping }) => (stopping?.thinkingTokenBudget ?? -1n) !== -1n,
  },
  { field: 'response.prompt_token_ids', note: 'answered from the encoded prompt' },
  {
    field: 'response.prompt_logprobs',
    ours: 'output.prompt_logprobs',
    note: 'the first token’s, which comes behind nothing, is 0, of rank 0',
  },
  { field: 'response.prompt_candidates', refusedIf: ({ response }) => response?.promptCandidates !== undefined },
  { field: 'response.output_text', note: 'absent: true' },
  { field: 'response.output_token_ids', note: 'answered from the chunk’s ids' },
  { field: 'response.output_logprobs', ours: 'output.logprobs' },
  { field: 'response.output_candidates.token_ids.ids', ours: 'output.logprob_tokens.ids' },
  { field: 'response.output_candidates.top_n', ours: 'output.logprobs', note: 'the sampled token is left out of them' },
  {
    field: 'response.output_candidates.all',
    note: 'but false',
    refusedIf: ({ response }) => {
      const select = response?.outputCandidates?.select;
      return select?.$case === 'all' && select.value;
    },
  },
  { field: 'response.skip_special_tokens', ours: 'output.include_special_tokens', note: 'negated; absent: true' },
  {
    field: 'response.routed_experts_prompt_start',
    refusedIf: ({ response }) => response?.routedExpertsPromptStart !== undefined,
  },
  { field: 'kv.bypass_prefix_cache', refusedIf: ({ kv }) => kv?.bypassPrefixCache === true },
  { field: 'kv.cache_salt', refusedIf: ({ kv }) => (kv?.cacheSalt ?? '') !== '' },
  { field: 'kv.kv_transfer_params', refusedIf: ({ kv }) => kv?.kvTransferParams !== undefined },
  { field: 'kv.ec_transfer_params', refusedIf: ({ kv }) => kv?.ecTransferParams !== undefined },
  { field: 'truncate_prompt_tokens', refusedIf: ({ truncatePromptTokens }) => truncatePromptTokens > 0 },
  { field: 'priority', ours: 'priority', note: 'negated: there, lower runs first' },
  { field: 'session_id', refusedIf: ({ sessionId }) => (sessionId ?? '') !== '' },
  { field: 'media', refusedIf: ({ media }) => media.length > 0 },
  { field: 'lora_name', refusedIf: ({ loraName }) => loraName !== '' },
  { field: 'watermarking', note: 'but false: there is none', refusedIf: ({ watermarking }) => watermarking === true },
  { field: 'kv_hints', refusedIf: ({ kvHints }) => kvHints !== undefined },
  { field: 'engine_reasoning_gate', refusedIf: ({ engineReasoningGate }) => engineReasoningGate !== undefined },
];

/** `vllm.Inference`, the gRPC API of vLLM's Rust front end. */
export const VLLM_INFERENCE: Protocol<GenerateRequest, VllmOptions> = {
  service: 'vllm.Inference',
  fields: FIELDS,
  decode: (bytes) => GenerateRequest.decode(bytes),
  translate: (request) => {
    check(request.prompt !== undefined, 'prompt', 'is missing: give text or token_ids');
    const seed = request.sampling?.seed;
    check(seed === undefined || seed >= 0n, 'sampling.seed', `is ${seed}; it must be at least 0`);
    return { request: generation(request), options: optionsOf(request) };
  },
};

/** The fields whose 0 is a value of its own are optional in the proto; of the others 0 is the default. */
const unlessZero = (value: number | undefined): number | undefined => (value === 0 ? undefined : value);

function generation(request: GenerateRequest): GenerateStreamRequest {
  const { prompt, sampling, decoding, stopping, response } = request;
  return GenerateStreamRequest.fromPartial({
    requestId: request.requestId,
    model: request.model,
    input: prompt?.$case === 'text' ? textInput(prompt.value) : tokenInput(prompt?.value.ids ?? []),
    sampling: {
      temperature: request.temperature ?? 0,
      topK: sampling?.topK ?? 0,
      topP: unlessZero(sampling?.topP),
      minP: sampling?.minP ?? 0,
      seed: sampling?.seed,
      presencePenalty: decoding?.presencePenalty ?? 0,
      frequencyPenalty: decoding?.frequencyPenalty ?? 0,
      repetitionPenalty: unlessZero(decoding?.repetitionPenalty),
      logitBias: decoding?.logitBias ?? {},
    },
    stop: {
      strings: stopping?.stopStrings ?? [],
      tokenIds: stopping?.stopTokenIds ?? [],
      includeStopString: stopping?.includeStopStrings ?? false,
      ignoreEos: stopping?.ignoreEos ?? false,
      maxTokens: stopping?.maxNewTokens || DEFAULT_NEW_TOKENS,
      minTokens: stopping?.minNewTokens ?? 0,
    },
    output: {
      includeSpecialTokens: !(response?.skipSpecialTokens ?? true),
      logprobs: topOf(response) || (response?.outputLogprobs ? 0 : undefined),
      logprobTokens: { ids: candidatesOf(response) },
      promptLogprobs: response?.promptLogprobs ? 0 : undefined,
    },
    constraint: constraintOf(decoding),
    n: sampling?.numSequences || 1,
    // The least one has no opposite.
    priority: Math.min(0 - request.priority, MOST_PRIORITY),
  });
}

/** Number of the likeliest tokens that come with each token. */
function topOf(response: GenerateRequest['response']): number {
  const select = response?.outputCandidates?.select;
  return select?.$case === 'topN' ? select.value : 0;
}

function constraintOf(decoding: GenerateRequest['decoding']): Constraint | undefined {
  const output = decoding?.structuredOutput;
  if (output === undefined || output.$case === 'structuralTag') return undefined;
  if (output.$case === 'choice') return choiceConstraint(output.value.choices);
  if (output.$case === 'jsonObject') return output.value ? anyObject() : undefined;
  return { kind: { $case: output.$case === 'json' ? 'jsonSchema' : output.$case, value: output.value } };
}

/** Tokens whose log probabilities come with each token. */
function candidatesOf(response: GenerateRequest['response']): number[] {
  const select = response?.outputCandidates?.select;
  return select?.$case === 'tokenIds' ? select.value.ids : [];
}

function optionsOf({ sampling, stopping, response }: GenerateRequest): VllmOptions {
  return {
    n: sampling?.numSequences || 1,
    promptTokenIds: response?.promptTokenIds ?? false,
    outputText: response?.outputText ?? true,
    outputTokenIds: response?.outputTokenIds ?? false,
    outputLogprobs: response?.outputLogprobs ?? false,
    stopTokenIds: stopping?.stopTokenIds ?? [],
  };
}
