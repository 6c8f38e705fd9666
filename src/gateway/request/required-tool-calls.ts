import type { GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import { CALL_FORMATS, REASONING_FORMATS } from '../chat/answer/answer-format.js';
import type { ResponseStart } from '../chat/answer/answer-parser.js';
import { FUNCTIONARY_V3_TURN } from '../chat/answer/functionary-v3.js';
import { HARMONY_ANSWER, HARMONY_REASONING, HARMONY_TURN } from '../chat/answer/harmony.js';
import { toolGrammar } from '../chat/answer/tool-grammar.js';
import { offeredTools } from '../chat/template-input.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { HeldReasoning } from '../constraints/reasoning-grammar.js';
import { type AnswerOptions, requiresCall } from './answer.js';
import type { LimitFacts } from './limits.js';

type ForcedToolCalls = Extract<GivenConstraint, { $case: 'toolCalls' }>['value'];
type ModelFacts = Pick<LimitFacts, 'answerFormat' | 'toolTemplate'>;
type Chat = Parameters<typeof requiresCall>[0];

/** Parameters of a function whose calls need not match its schema. */
const ANY_OBJECT = '{"type": "object"}';

/** True if the calls of a conversation are held to a grammar: where one must come, or a function is strict. */
export function forcesToolCalls(chat: Chat): boolean {
  return requiresCall(chat) || offeredTools(chat).some(({ strict }) => strict);
}

/** True if calls are part of what a constraint on the answer allows, see {@link constraintOf}. */
export function callsBesideConstraint({
  input,
  constraint,
}: Pick<GenerateStreamRequest, 'input' | 'constraint'>): boolean {
  if (constraint?.kind === undefined || input?.$case !== 'chat') return false;
  return offeredTools(input.value).length > 0 && !input.value.continueFinalMessage;
}

/**
 * Restriction of an answer: its constraint, which the reasoning of a chat comes before, or the calls that it must have, or the
 * form of those that it may have. A chat with a constraint and tools either calls or satisfies the constraint; where it must call,
 * nothing is left for the constraint to say.
 *
 * @param answer how the answer is read; undefined where all of it is content
 */
export function constraintOf(
  request: GenerateStreamRequest,
  facts: ModelFacts,
  answer: Pick<AnswerOptions, 'start'> | undefined,
): GivenConstraint | undefined {
  const { input, constraint } = request;
  const chat = input?.$case === 'chat' ? input.value : undefined;
  const isEither = callsBesideConstraint(request);
  const held = chat && (isEither || forcesToolCalls(chat)) ? forcedToolCalls(chat, facts) : undefined;
  const start = answer?.start ?? 'content';
  const kind = constraint?.kind;
  if (held !== undefined) {
    const isAnswered = isEither && kind !== undefined && !held.calls.isRequired;
    const opener = start === 'content' ? '' : answerOpenerOf(facts);
    const reasoning = isAnswered && start === 'content' ? undefined : reasoningOf(facts, start);
    return {
      $case: 'toolCalls',
      value: { ...held, reasoning, ...(isAnswered && { answer: { constraint: kind, opener } }) },
    };
  }
  if (kind === undefined || chat === undefined || start === 'content' || start === 'continuation') return kind;
  const before = { reasoning: reasoningOf(facts, start), opener: answerOpenerOf(facts) };
  return { $case: 'chatAnswer', value: { constraint: kind, before } };
}

/**
 * The limit of an answer's reasoning: what the request says, and half of the tokens of an answer that its constraint follows, so
 * that some are left for it. Undefined where there is none, or nothing is reasoning.
 *
 * @param maxTokens of the whole answer
 */
export function reasoningLimitOf(
  { input }: Pick<GenerateStreamRequest, 'input'>,
  facts: ModelFacts,
  {
    answer,
    constraint,
    maxTokens,
  }: {
    readonly answer: Pick<AnswerOptions, 'start'> | undefined;
    readonly constraint: GivenConstraint | undefined;
    readonly maxTokens: number;
  },
): { readonly reasoning: HeldReasoning; readonly budget: number } | undefined {
  const given = input?.$case === 'chat' ? input.value.reasoningTokens : undefined;
  const isConstrained =
    constraint?.$case === 'chatAnswer' || (constraint?.$case === 'toolCalls' && constraint.value.answer !== undefined);
  const share = isConstrained ? Math.ceil(maxTokens / 2) : undefined;
  const budget = Math.min(given ?? Number.POSITIVE_INFINITY, share ?? Number.POSITIVE_INFINITY);
  if (budget === Number.POSITIVE_INFINITY || answer === undefined) return undefined;
  if (answer.start !== 'turn' && answer.start !== 'reasoning') return undefined;
  const reasoning = reasoningOf(facts, answer.start);
  return reasoning && { reasoning, budget };
}

function forcedToolCalls(chat: Chat, facts: ModelFacts): Omit<ForcedToolCalls, 'reasoning'> | undefined {
  const { answerFormat, toolTemplate = '' } = facts;
  const format = answerFormat?.tools;
  const isRequired = requiresCall(chat);
  if (format === undefined) return undefined;
  const { toolChoice, parallelToolCalls: isParallel = true } = chat;
  const tools = offeredTools(chat).map(({ name, parametersJson, strict }) => {
    return { name, parametersJson: isRequired || strict ? parametersJson : ANY_OBJECT };
  });
  const calls = toolGrammar(tools, { format, template: toolTemplate, toolChoice, isParallel });
  if (calls === undefined) return undefined;
  if (format === 'harmony') return { calls, openers: [], isBare: false, messages: HARMONY_TURN };
  if (format === 'functionary-v3.2') return { calls, openers: [], isBare: false, messages: FUNCTIONARY_V3_TURN };
  const { openers, isBare = false } = CALL_FORMATS[format];
  return { calls, openers, isBare };
}

function reasoningOf({ answerFormat }: ModelFacts, start: ResponseStart): HeldReasoning | undefined {
  const reasoning = answerFormat?.reasoning;
  const format = reasoning === 'harmony' ? HARMONY_REASONING : reasoning && REASONING_FORMATS[reasoning];
  return format && { ...format, isBegun: start === 'reasoning' };
}

/** Header of an answer's content; empty: it has none. */
function answerOpenerOf({ answerFormat }: ModelFacts): string {
  if (answerFormat?.tools === 'harmony' || answerFormat?.reasoning === 'harmony') return HARMONY_ANSWER;
  return answerFormat?.tools === 'functionary-v3.2' ? FUNCTIONARY_V3_TURN.answer : '';
}
