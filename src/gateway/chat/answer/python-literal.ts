/** Deeper lists and dicts are no value: what parses them later has a limit, too. */
const MOST_DEPTH = 200;

const CONSTANTS: Readonly<Record<string, string>> = { True: 'true', False: 'false', None: 'null' };
const ESCAPES: Readonly<Record<string, string>> = {
  ...{ '\n': '', '\\': '\\', "'": "'", '"': '"', a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' },
};
/** Digits of escapes by code. */
const CODED = /^(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-7]{1,3}))/;

/**
 * The JSON of a list or a dict as Python prints it, `{'a': [1, True, None]}`: templates that write arguments by Jinja's `string`
 * teach their models this form.
 *
 * @returns undefined for anything else, and for what JSON has no form for, such as `inf` or keys that are no strings
 */
export function jsonOfPythonLiteral(text: string): string | undefined {
  if (!/^\s*[[{(]/.test(text)) return undefined;
  const parser = new PythonLiteral(text);
  const json = parser.value(0);
  return json !== undefined && parser.isAtEnd() ? json : undefined;
}

class PythonLiteral {
  private at = 0;

  constructor(private readonly text: string) {}

  isAtEnd(): boolean {
    return this.match(/\s*/y) !== undefined && this.at === this.text.length;
  }

  /** JSON of the value that begins here. */
  value(depth: number): string | undefined {
    if (depth > MOST_DEPTH) return undefined;
    if (this.skip('[')) return this.items(']', depth);
    if (this.skip('(')) return this.items(')', depth);
    if (this.skip('{')) return this.pairs(depth);
    const constant = this.match(/\s*(?:True|False|None)\b/y);
    if (constant !== undefined) return CONSTANTS[constant.trim()];
    const number = this.match(/\s*-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.])/iy);
    return number === undefined ? this.string() : number.trim();
  }

  private items(end: string, depth: number): string | undefined {
    const items: string[] = [];
    while (!this.skip(end)) {
      const item = this.value(depth + 1);
      if (item === undefined) return undefined;
      items.push(item);
      if (!this.skip(',') && !this.comes(end)) return undefined;
    }
    return `[${items.join(', ')}]`;
  }

  private pairs(depth: number): string | undefined {
    const pairs: string[] = [];
    while (!this.skip('}')) {
      const key = this.string();
      if (key === undefined || !this.skip(':')) return undefined;
      const value = this.value(depth + 1);
      if (value === undefined) return undefined;
      pairs.push(`${key}: ${value}`);
      if (!this.skip(',') && !this.comes('}')) return undefined;
    }
    return `{${pairs.join(', ')}}`;
  }

  private string(): string | undefined {
    const quote = this.match(/\s*['"]/y)?.trim();
    if (quote === undefined) return undefined;
    let value = '';
    for (;;) {
      const letter = this.text[this.at];
      if (letter === undefined || letter === '\n') return undefined;
      this.at++;
      if (letter === quote) return JSON.stringify(value);
      if (letter !== '\\') value += letter;
      else {
        const escaped = this.escape();
        if (escaped === undefined) return undefined;
        value += escaped;
      }
    }
  }

  /** The text of an escape, behind its backslash; one that Python does not know stands for itself. */
  private escape(): string | undefined {
    const coded = CODED.exec(this.text.slice(this.at, this.at + 9));
    if (coded !== null) {
      this.at += coded[0].length;
      const [, x, u, U, octal] = coded;
      const code = octal === undefined ? Number.parseInt(x ?? u ?? U ?? '', 16) : Number.parseInt(octal, 8);
      return code > 0x10ffff ? undefined : String.fromCodePoint(code);
    }
    const letter = this.text[this.at++];
    return letter === undefined ? undefined : (ESCAPES[letter] ?? `\\${letter}`);
  }

  private skip(token: string): boolean {
    if (!this.comes(token)) return false;
    this.at++;
    return true;
  }

  private comes(token: string): boolean {
    this.match(/\s*/y);
    return this.text[this.at] === token;
  }

  private match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0];
    if (found !== undefined) this.at += found.length;
    return found;
  }
}
