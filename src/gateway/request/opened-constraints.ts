import { asRocmForgeError } from '../../shared/errors.js';
import type { GenerateStreamRequest } from '../../shared/generated/rocmforge/v1/inference.js';
import type { Matchers, OpenedConstraints } from '../matching/matchers.js';
import type { ReasoningBudgets } from '../matching/reasoning-budget.js';
import type { CallContext } from './encoding/text-threads.js';
import type { GenerationParameters } from './generation.js';
import type { LimitFacts } from './limits.js';
import { constraintOf, reasoningLimitOf } from './required-tool-calls.js';
import { withStrictTools } from './validate.js';

/** Sources of a model's constraints. */
interface ConstraintSources {
  readonly facts: LimitFacts;
  readonly matchers: Pick<Matchers, 'begin'>;
  readonly budgets: ReasoningBudgets;
}

/**
 * Constraints on the tokens of each completion, with the limit of its reasoning: with tools that are to be strict if that is
 * possible, and without them where it is not. Their first masks are known only for such tools.
 *
 * @returns undefined where nothing restricts them
 * @throws RocmForgeError as {@link Matchers.begin}
 */
export async function openConstraints(
  request: GenerateStreamRequest,
  parameters: GenerationParameters,
  sources: ConstraintSources,
  caller: CallContext,
): Promise<OpenedConstraints | undefined> {
  const strict = withStrictTools(request);
  if (strict === undefined) return begin(request, parameters, sources, caller);
  try {
    const begun = await begin(strict, parameters, sources, caller);
    await begun?.opened.catch((error: unknown) => {
      closeAll(begun);
      throw error;
    });
    return begun;
  } catch (error) {
    const { reason } = asRocmForgeError(error);
    if (reason !== 'CONSTRAINT_INVALID' && reason !== 'CONSTRAINT_UNSUPPORTED') throw error;
    return begin(request, parameters, sources, caller);
  }
}

/** Gives back the constraints of a request that does not run. */
export function closeAll(opened: Pick<GenerationParameters, 'constraints'> | undefined): void {
  for (const constraint of opened?.constraints ?? []) constraint.close();
}

async function begin(
  request: GenerateStreamRequest,
  { answer, stop: { maxTokens }, n }: GenerationParameters,
  { facts, matchers, budgets }: ConstraintSources,
  caller: CallContext,
): Promise<OpenedConstraints | undefined> {
  const constraint = constraintOf(request, facts, answer);
  const limit = reasoningLimitOf(request, facts, { answer, constraint, maxTokens });
  const begun = constraint && (await matchers.begin(constraint, n, caller));
  if (limit === undefined) return begun;
  const constraints = Array.from({ length: n }, (_, i) => budgets.hold(begun?.constraints[i], limit));
  return { constraints, opened: begun?.opened ?? Promise.resolve() };
}
