import { type Expression, sequence, special, text } from '../../lib/grammar/grammar.js';
import { RocmForgeError } from '../../shared/errors.js';
import type { SpecialTokenNames } from './special-token-names.js';

/**
 * Markup with its special tokens as such, the longest names first, as a tokenizer finds them.
 *
 * @param field what needs the markup
 * @throws RocmForgeError `CONSTRAINT_UNSUPPORTED` for markup that ends a text
 */
export function markupExpression(
  value: string,
  { special: names, ends }: SpecialTokenNames,
  field: string,
): Expression {
  const end = ends.find((name) => value.includes(name));
  if (end !== undefined) {
    const what =
      field === 'chat.tools'
        ? 'is part of its calls and ends its text; use auto, and none that is strict'
        : 'ends its text';
    const sentence = `${field} cannot be enforced in this model’s call format: ${end} ${what}`;
    throw new RocmForgeError('CONSTRAINT_UNSUPPORTED', sentence, { field, at: '', keyword: end });
  }
  const parts: Expression[] = [];
  let rest = value;
  while (rest !== '') {
    const found = firstOf(names, rest);
    parts.push(text(rest.slice(0, found?.at)));
    if (found === undefined) break;
    parts.push(special(found.name));
    rest = rest.slice(found.at + found.name.length);
  }
  return sequence(...parts.filter((part) => part.kind !== 'text' || part.text !== ''));
}

/** The leftmost of some names in a text, of those that begin there the longest. */
function firstOf(names: readonly string[], value: string): { readonly name: string; readonly at: number } | undefined {
  let first: { name: string; at: number } | undefined;
  for (const name of names) {
    const at = value.indexOf(name);
    if (at < 0 || (first !== undefined && (at > first.at || (at === first.at && name.length < first.name.length))))
      continue;
    first = { name, at };
  }
  return first;
}
