import { type Constraint, GenerateStreamRequest } from '../../../shared/generated/rocmforge/v1/inference.js';
import { GenerateRequest, SamplingParams } from '../../../shared/generated/vllm/grpc/engine/vllm_engine.js';
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

/** Data that a response of `vllm.grpc.engine.VllmEngine` depends on. */
export interface EngineOptions {
  /** Completions. */
  readonly n: number;
  /** True if tokens are sent in chunks; false if all are sent at the end. */
  readonly isStreamed: boolean;
  /** Those that the request named; others that end it are the model's own. */
  readonly stopTokenIds: readonly number[];
}

type Field = ProtocolField<GenerateRequest>;

/** A field of `sampling_params`. */
const sampling = (
  name: string,
  more: Omit<Field, 'field' | 'refusedIf'> & { refusedIf?: (params: SamplingParams) => boolean },
): Field => {
  const { refusedIf, ...rest } = more;
  return {
    field: `sampling_params.${name}`,
    ...rest,
    ...(refusedIf && { refusedIf: ({ samplingParams }: GenerateRequest) => refusedIf(paramsOf(samplingParams)) }),
  };
};

const constraint = (kind: string): Field =>
  sampling(kind, {
    // `json_object` can be false.
    refusedIf: ({ constraint }) =>
      constraint !== undefined && constraint.value !== false && snakeCase(constraint.$case) === kind,
  });

const FIELDS: readonly Field[] = [
  { field: 'request_id', ours: 'request_id' },
  { field: 'tokenized.original_text', note: 'for readers only: nothing depends on it' },
  { field: 'tokenized.input_ids', ours: 'tokens.ids' },
  { field: 'text', ours: 'text', note: 'literals of special tokens in it are those tokens, as in vLLM' },
  sampling('temperature', { ours: 'sampling.temperature' }),
  sampling('top_p', { ours: 'sampling.top_p', note: '0: 1' }),
  sampling('top_k', { ours: 'sampling.top_k' }),
  sampling('min_p', { ours: 'sampling.min_p' }),
  sampling('frequency_penalty', { ours: 'sampling.frequency_penalty' }),
  sampling('presence_penalty', { ours: 'sampling.presence_penalty' }),
  sampling('repetition_penalty', { ours: 'sampling.repetition_penalty', note: '0: 1' }),
  sampling('max_tokens', { ours: 'stop.max_tokens', note: 'at least 1' }),
  sampling('min_tokens', { ours: 'stop.min_tokens' }),
  sampling('stop', { ours: 'stop.strings' }),
  sampling('stop_token_ids', { ours: 'stop.token_ids' }),
  sampling('skip_special_tokens', {
    ours: 'output.include_special_tokens',
    note: 'negated; answers have no text, but stop strings are looked for in one',
  }),
  sampling('spaces_between_special_tokens', { note: 'answers have no text' }),
  sampling('ignore_eos', { ours: 'stop.ignore_eos' }),
  sampling('n', { ours: 'n', note: '0: 1' }),
  sampling('json_schema', { ours: 'constraint.json_schema' }),
  sampling('regex', { ours: 'constraint.regex' }),
  sampling('grammar', { ours: 'constraint.grammar', note: 'as llama.cpp writes grammars (GBNF)' }),
  sampling('json_object', { note: 'any JSON object' }),
  sampling('choice.choices', { ours: 'constraint.choice' }),
  constraint('structural_tag'),
  sampling('logprobs', {
    ours: 'output.logprobs',
    note: 'but -1, which is all',
    refusedIf: ({ logprobs }) => (logprobs ?? 0) < 0,
  }),
  sampling('prompt_logprobs', {
    ours: 'output.prompt_logprobs',
    note: 'but -1, which is all',
    refusedIf: ({ promptLogprobs }) => (promptLogprobs ?? 0) < 0,
  }),
  sampling('seed', { ours: 'sampling.seed', note: 'at least 0' }),
  sampling('include_stop_str_in_output', {
    ours: 'stop.include_stop_string',
    note: 'answers have no text',
  }),
  sampling('logit_bias', { ours: 'sampling.logit_bias' }),
  sampling('truncate_prompt_tokens', { refusedIf: ({ truncatePromptTokens }) => truncatePromptTokens !== undefined }),
  { field: 'stream', note: 'whether tokens come in chunks' },
  { field: 'kv_transfer_params', refusedIf: ({ kvTransferParams }) => kvTransferParams !== undefined },
  { field: 'mm_inputs', refusedIf: ({ mmInputs }) => mmInputs !== undefined },
  { field: 'kv_transfer_params_json', refusedIf: ({ kvTransferParamsJson }) => kvTransferParamsJson !== undefined },
  {
    field: 'data_parallel_rank',
    note: 'but 0: there is one',
    refusedIf: ({ dataParallelRank }) => (dataParallelRank ?? 0) !== 0,
  },
];

/** `vllm.grpc.engine.VllmEngine`, by which routers send tokens to vLLM. */
export const VLLM_ENGINE: Protocol<GenerateRequest, EngineOptions> = {
  service: 'vllm.grpc.engine.VllmEngine',
  fields: FIELDS,
  decode: (bytes) => GenerateRequest.decode(bytes),
  translate: (request) => {
    check(request.input !== undefined, 'input', 'is missing: give tokenized or text');
    const { seed, logitBias, n, stopTokenIds, maxTokens } = paramsOf(request.samplingParams);
    check((seed ?? 0) >= 0, 'sampling_params.seed', `is ${seed}; it must be at least 0`);
    check(maxTokens !== 0, 'sampling_params.max_tokens', 'is 0; it must be at least 1');
    const negative = Object.keys(logitBias).find((id) => Number(id) < 0);
    check(negative === undefined, 'sampling_params.logit_bias', `has token id ${negative}; ids are at least 0`);
    return { request: generation(request), options: { n: n || 1, isStreamed: request.stream, stopTokenIds } };
  },
};

const paramsOf = (params: SamplingParams | undefined): SamplingParams => params ?? SamplingParams.create();
const unlessZero = (value: number): number | undefined => (value === 0 ? undefined : value);

function generation({ requestId, input, samplingParams }: GenerateRequest): GenerateStreamRequest {
  const params = paramsOf(samplingParams);
  return GenerateStreamRequest.fromPartial({
    requestId,
    input: input?.$case === 'text' ? textInput(input.value) : tokenInput(input?.value.inputIds ?? []),
    sampling: {
      temperature: params.temperature,
      topP: unlessZero(params.topP),
      topK: params.topK,
      minP: params.minP,
      frequencyPenalty: params.frequencyPenalty,
      presencePenalty: params.presencePenalty,
      repetitionPenalty: unlessZero(params.repetitionPenalty),
      logitBias: params.logitBias,
      seed: params.seed === undefined ? undefined : BigInt(params.seed),
    },
    stop: {
      strings: params.stop,
      tokenIds: params.stopTokenIds,
      includeStopString: params.includeStopStrInOutput,
      ignoreEos: params.ignoreEos,
      maxTokens: params.maxTokens,
      minTokens: params.minTokens,
    },
    output: {
      logprobs: params.logprobs,
      promptLogprobs: params.promptLogprobs,
      includeSpecialTokens: !params.skipSpecialTokens,
    },
    constraint: constraintOf(params),
    n: params.n || 1,
  });
}

function constraintOf({ constraint }: SamplingParams): Constraint | undefined {
  if (constraint === undefined || constraint.$case === 'structuralTag') return undefined;
  if (constraint.$case === 'choice') return choiceConstraint(constraint.value.choices);
  if (constraint.$case === 'jsonObject') return constraint.value ? anyObject() : undefined;
  return { kind: { $case: constraint.$case, value: constraint.value } };
}
