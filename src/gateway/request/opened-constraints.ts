import { asRocmForgeError } from '../../shared/errors.js';
import type { GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import type { Matchers } from '../matching/matchers.js';
import type { ReasoningBudgets } from '../matching/reasoning-budget.js';
import type { TokenConstraint } from '../matching/token-constraint.js';
import type { CallContext } from './encoding/text-threads.js';
import type { GenerationParameters } from './generation.js';
import type { LimitFacts } from './limits.js';
import { constraintOf, reasoningLimitOf } from './required-tool-calls.js';
import { withStrictTools } from './validate.js';

/** Sources of a model's constraints. */
interface ConstraintSources {
  readonly facts: LimitFacts;
  readonly matchers: Pick<Matchers, 'openEach'>;
  readonly budgets: ReasoningBudgets;
}

/**
 * Constraints on the tokens of each completion, with the limit of its reasoning: with tools that are to be strict if that is
 * possible, and without them where it is not.
 *
 * @returns undefined where nothing restricts them
 * @throws RocmForgeError as {@link Matchers.open}
 */
export async function openConstraints(
  request: GenerateStreamRequest,
  parameters: GenerationParameters,
  sources: ConstraintSources,
  caller: CallContext,
): Promise<readonly TokenConstraint[] | undefined> {
  const strict = withStrictTools(request);
  if (strict === undefined) return open(request, parameters, sources, caller);
  try {
    return await open(strict, parameters, sources, caller);
  } catch (error) {
    const { reason } = asRocmForgeError(error);
    if (reason !== 'CONSTRAINT_INVALID' && reason !== 'CONSTRAINT_UNSUPPORTED') throw error;
    return open(request, parameters, sources, caller);
  }
}

async function open(
  request: GenerateStreamRequest,
  { answer, stop: { maxTokens }, n }: GenerationParameters,
  { facts, matchers, budgets }: ConstraintSources,
  caller: CallContext,
): Promise<readonly TokenConstraint[] | undefined> {
  const constraint = constraintOf(request, facts, answer);
  const opened = await matchers.openEach(constraint, n, caller);
  const limit = reasoningLimitOf(request, facts, { answer, constraint, maxTokens });
  if (limit === undefined) return opened;
  return Array.from({ length: n }, (_, i) => budgets.hold(opened?.[i], limit));
}
