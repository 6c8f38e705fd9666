import { RocmForgeError } from '../../shared/errors.js';
import type { Constraint } from '../../shared/generated/rocmforge/v1/inference.js';

/** The grammar of a constraint, in the EBNF of the grammar library; its root rule is `root`. */
export function grammarOf({ kind }: Constraint): string {
  if (kind?.$case === 'grammar') return kind.value;
  throw new RocmForgeError('NOT_IMPLEMENTED', 'not built yet', { field: 'constraint' });
}
