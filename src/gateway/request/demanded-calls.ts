import type { GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import { REASONING_FORMATS } from '../chat/answer/answer-format.js';
import { type ToolGrammar, toolGrammar } from '../chat/answer/tool-grammar.js';
import { offeredTools } from '../chat/template-input.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import { demandsCall } from './answer.js';
import type { LimitFacts } from './limits.js';

type ToolCalls = Extract<GivenConstraint, { $case: 'toolCalls' }>;
type ModelFacts = Pick<LimitFacts, 'answerFormat' | 'toolTemplate'>;

/**
 * What restricts an answer: its constraint, or the calls that it must have.
 *
 * @param isInReasoning whether the prompt has begun the reasoning
 */
export function constraintOf(
  { input, constraint }: GenerateStreamRequest,
  facts: ModelFacts,
  isInReasoning: boolean,
): GivenConstraint | undefined {
  const chat = input?.$case === 'chat' ? input.value : undefined;
  const reasoning = facts.answerFormat?.reasoning;
  const calls = chat && demandsCall(chat) ? toolGrammarOf(chat, facts) : undefined;
  if (!isHeldTo(calls) || reasoning === 'harmony') return constraint?.kind;
  const thoughts = reasoning && { ...REASONING_FORMATS[reasoning], isBegun: isInReasoning };
  return { $case: 'toolCalls', value: { calls, reasoning: thoughts } };
}

/** Whether a call that is demanded of a model can be: whether its format is one that a grammar says exactly. */
export function canDemandCall(chat: Parameters<typeof demandsCall>[0], facts: ModelFacts): boolean {
  // Its messages come in any order, some of them without a call.
  if (facts.answerFormat?.tools === 'harmony' || facts.answerFormat?.reasoning === 'harmony') return false;
  return isHeldTo(toolGrammarOf(chat, facts));
}

function toolGrammarOf(
  chat: Parameters<typeof demandsCall>[0],
  { answerFormat, toolTemplate = '' }: ModelFacts,
): ToolGrammar | undefined {
  const format = answerFormat?.tools;
  if (format === undefined) return undefined;
  const { toolChoice, parallelToolCalls: isParallel = true } = chat;
  return toolGrammar(offeredTools(chat), { format, template: toolTemplate, toolChoice, isParallel });
}

function isHeldTo(calls: ToolGrammar | undefined): calls is ToolCalls['value']['calls'] {
  return calls?.isRequired === true && calls.argumentsForm === 'json';
}
