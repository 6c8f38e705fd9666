import { RocmForgeError } from '../../shared/errors.js';
import type { GivenConstraint } from '../constraints/grammar-of.js';
import { fieldOf } from './constraint-field.js';

/** A constraint that cannot be compiled in time. */
export function refused(constraint: GivenConstraint, why: string): RocmForgeError {
  const field = fieldOf(constraint);
  return new RocmForgeError('INVALID_FIELD', `${field} ${why}`, { field });
}

/** Masks that take too long. @param ms of the slowest one */
export function tooSlow(constraint: GivenConstraint, ms: number): RocmForgeError {
  const field = fieldOf(constraint);
  const message = `${field} takes ${Math.ceil(ms)} ms for one token, too long beside other requests; make it less ambiguous`;
  return new RocmForgeError('CONSTRAINT_TOO_SLOW', message, { field });
}

/** An answer that holds too much memory. */
export function tooLarge(constraint: GivenConstraint, bytes: number): RocmForgeError {
  const field = fieldOf(constraint);
  const message = `${field} takes ${Math.ceil(bytes / (1 << 20))} MiB for one answer; make it less ambiguous`;
  return new RocmForgeError('CONSTRAINT_TOO_SLOW', message, { field });
}
