import type { RequestContext } from '../request/context.js';
import type { GenerationParameters } from '../request/generation.js';

/** Differences between one request and several. */
export interface OpeningOptions {
  readonly isUnary: boolean;
  /** True if its constraint must be known to be allowed; default: the prompt is computed meanwhile. */
  readonly awaitsConstraint?: boolean;
}

/** A request that can run. */
export interface OpenedRequest {
  readonly parameters: GenerationParameters;
  readonly context: RequestContext;
  /** The prompt's text, where the answer has it in a field of its own. */
  readonly toldPrompt: string | undefined;
  /** Rejects where its constraint turns out to be refused, which also ends the generation; absent: it has none. */
  readonly constrained: Promise<void> | undefined;
}

/** Gives back the constraints of a request that does not run. */
export function closeConstraints(request: OpenedRequest | undefined): void {
  for (const constraint of request?.parameters.constraints ?? []) constraint.close();
}
