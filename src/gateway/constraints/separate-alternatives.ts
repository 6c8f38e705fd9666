import { choiceOf, type Expression, repeat, sequenceOf } from './grammar.js';

/**
 * The same expression with alternatives that begin alike as rules of their own. The library merges states of one rule that look
 * alike, and accepts a mixture of such alternatives then: of `"[" s i (c i)? s "]" | "[" s "]"` it accepts `[7 7]`. Alternatives of
 * text alone stay: the library takes rules of text for what they produce.
 *
 * @param add makes a rule
 */
export function withSeparateAlternatives(expression: Expression, add: (content: Expression) => Expression): Expression {
  const inner = (part: Expression) => withSeparateAlternatives(part, add);
  switch (expression.kind) {
    case 'sequence':
      return sequenceOf(expression.parts.map(inner));
    case 'repeat':
      return repeat(inner(expression.what), expression.min, expression.max);
    case 'choice': {
      const beginnings = new Map<string, number>();
      for (const option of expression.options) {
        const beginning = beginningOf(option);
        if (beginning !== undefined) beginnings.set(beginning, (beginnings.get(beginning) ?? 0) + 1);
      }
      return choiceOf(
        expression.options.map((option) => {
          const isShared = (beginnings.get(beginningOf(option) ?? '') ?? 0) > 1;
          const written = inner(option);
          return isShared && written.kind === 'sequence' && !isText(written) ? add(written) : written;
        }),
      );
    }
    default:
      return expression;
  }
}

/** What an expression begins with, as far as one look tells; undefined where it is nothing, or one of several. */
function beginningOf(expression: Expression): string | undefined {
  switch (expression.kind) {
    case 'text':
      return expression.text === '' ? undefined : `text ${String.fromCodePoint(expression.text.codePointAt(0)!)}`;
    case 'characters':
      return `characters ${expression.set.join()}`;
    case 'special':
      return `special ${expression.name}`;
    case 'rule':
      return `rule ${expression.name}`;
    case 'sequence':
      return beginningOf(expression.parts[0]!);
    case 'repeat':
      return beginningOf(expression.what);
    case 'choice':
      return undefined;
  }
}

const isText = (expression: Expression): boolean =>
  expression.kind === 'text' || (expression.kind === 'sequence' && expression.parts.every(isText));
