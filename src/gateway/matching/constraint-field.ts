import type { GivenConstraint } from '../constraints/grammar-of.js';

/** The field of a request that a constraint comes from. */
export const fieldOf = ({ $case }: GivenConstraint): string => ($case === 'toolCalls' ? 'chat.tools' : 'constraint');
