/**
 * The value of an integer expression of a contract: names, whole numbers, `+ - *` and parentheses.
 *
 * @throws RangeError for a name that has no value or text that is no expression: both are mistakes in a contract
 */
export function evaluate(expression: string, values: ReadonlyMap<string, number>): number {
  const tokens = expression.match(/[A-Za-z_][A-Za-z0-9_]*|\d+|[-+*()]/g) ?? [];
  let at = 0;

  const primary = (): number => {
    const token = tokens[at++];
    if (token === '(') {
      const value = sum();
      if (tokens[at++] !== ')') throw new RangeError(`missing ) in "${expression}"`);
      return value;
    }
    if (token === undefined) throw new RangeError(`"${expression}" ends too early`);
    if (/^\d/.test(token)) return Number(token);
    const value = values.get(token);
    if (value === undefined) throw new RangeError(`"${token}" in "${expression}" has no value`);
    return value;
  };
  const product = (): number => {
    let value = primary();
    while (tokens[at] === '*') {
      at += 1;
      value *= primary();
    }
    return value;
  };
  const sum = (): number => {
    let value = product();
    while (tokens[at] === '+' || tokens[at] === '-') {
      const sign = tokens[at++] === '+' ? 1 : -1;
      value += sign * product();
    }
    return value;
  };

  const value = sum();
  if (at !== tokens.length) throw new RangeError(`"${expression}" is no expression`);
  return value;
}
