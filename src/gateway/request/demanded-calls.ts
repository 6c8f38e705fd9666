import type { GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import { CALL_FORMATS, REASONING_FORMATS } from '../chat/answer/answer-format.js';
import { HARMONY_REASONING } from '../chat/answer/harmony.js';
import { toolGrammar } from '../chat/answer/tool-grammar.js';
import { offeredTools } from '../chat/template-input.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import type { HeldReasoning } from '../constraints/tool-calls-grammar.js';
import { demandsCall } from './answer.js';
import type { LimitFacts } from './limits.js';

type HeldCalls = Extract<GivenConstraint, { $case: 'toolCalls' }>['value'];
type ModelFacts = Pick<LimitFacts, 'answerFormat' | 'toolTemplate'>;
type Chat = Parameters<typeof demandsCall>[0];

/** Of a function whose calls nobody asked to be held to its schema. */
const ANY_OBJECT = '{"type": "object"}';

/** Whether the calls of a conversation are held to a grammar: where one must come, or a function is strict. */
export function holdsCalls(chat: Chat): boolean {
  return demandsCall(chat) || offeredTools(chat).some(({ strict }) => strict);
}

/**
 * What restricts an answer: its constraint, or the calls that it must have, or the form of those that it may have.
 *
 * @param isInReasoning whether the prompt has begun the reasoning
 */
export function constraintOf(
  { input, constraint }: GenerateStreamRequest,
  facts: ModelFacts,
  isInReasoning: boolean,
): GivenConstraint | undefined {
  const chat = input?.$case === 'chat' ? input.value : undefined;
  const held = chat && holdsCalls(chat) ? heldCalls(chat, facts) : undefined;
  if (held === undefined) return constraint?.kind;
  const reasoning = reasoningOf(facts);
  const thoughts = reasoning && { ...reasoning, isBegun: isInReasoning };
  return { $case: 'toolCalls', value: { ...held, reasoning: thoughts } };
}

/** Whether the calls of a model can be held to a grammar: whether their format is one that a grammar says exactly. */
export function canHoldCalls(chat: Chat, facts: ModelFacts): boolean {
  return heldCalls(chat, facts) !== undefined;
}

function heldCalls(chat: Chat, facts: ModelFacts): Pick<HeldCalls, 'calls' | 'openers' | 'isBare'> | undefined {
  const { answerFormat, toolTemplate = '' } = facts;
  const format = answerFormat?.tools;
  const isDemanded = demandsCall(chat);
  const isHarmony = format === 'harmony';
  // Where no call must come, harmony's messages may be many and of any kind.
  if (format === undefined || (isHarmony && !isDemanded)) return undefined;
  const { toolChoice, parallelToolCalls: isParallel = true } = chat;
  const tools = offeredTools(chat).map(({ name, parametersJson, strict }) => {
    return { name, parametersJson: isDemanded || strict ? parametersJson : ANY_OBJECT };
  });
  const calls = toolGrammar(tools, { format, template: toolTemplate, toolChoice, isParallel });
  if (calls === undefined) return undefined;
  if (isHarmony) return { calls, openers: [], isBare: false };
  const { openers, isBare = false } = CALL_FORMATS[format];
  return { calls, openers, isBare };
}

function reasoningOf({ answerFormat }: ModelFacts): Omit<HeldReasoning, 'isBegun'> | undefined {
  const reasoning = answerFormat?.reasoning;
  if (reasoning === 'harmony') return HARMONY_REASONING;
  return reasoning && REASONING_FORMATS[reasoning];
}
