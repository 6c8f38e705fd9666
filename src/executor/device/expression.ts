/** A parsed expression. @throws RangeError for a name that has no value */
type Expression = (values: ReadonlyMap<string, number>) => number;

/** Contracts state some hundreds of expressions, which each launch that is recorded evaluates. */
const parsed = new Map<string, Expression>();

/**
 * The value of an integer expression of a contract: names, whole numbers, `+ - *` and parentheses.
 *
 * @throws RangeError for a name that has no value or text that is not an expression: both are mistakes in a contract
 */
export function evaluate(expression: string, values: ReadonlyMap<string, number>): number {
  let evaluated = parsed.get(expression);
  if (evaluated === undefined) {
    evaluated = parse(expression);
    parsed.set(expression, evaluated);
  }
  return evaluated(values);
}

function parse(expression: string): Expression {
  const tokens = expression.match(/[A-Za-z_][A-Za-z0-9_]*|\d+|[-+*()]/g) ?? [];
  let at = 0;

  const primary = (): Expression => {
    const token = tokens[at++];
    if (token === '(') {
      const value = sum();
      if (tokens[at++] !== ')') throw new RangeError(`missing ) in "${expression}"`);
      return value;
    }
    if (token === undefined) throw new RangeError(`"${expression}" ends too early`);
    if (/^\d/.test(token)) {
      const number = Number(token);
      return () => number;
    }
    return (values) => {
      const value = values.get(token);
      if (value === undefined) throw new RangeError(`"${token}" in "${expression}" has no value`);
      return value;
    };
  };
  const product = (): Expression => {
    let value = primary();
    while (tokens[at] === '*') {
      at += 1;
      const [left, right] = [value, primary()];
      value = (values) => left(values) * right(values);
    }
    return value;
  };
  const sum = (): Expression => {
    let value = product();
    while (tokens[at] === '+' || tokens[at] === '-') {
      const sign = tokens[at++] === '+' ? 1 : -1;
      const [left, right] = [value, product()];
      value = (values) => left(values) + sign * right(values);
    }
    return value;
  };

  const value = sum();
  if (at !== tokens.length) throw new RangeError(`"${expression}" is not an expression`);
  return value;
}
