import { isJsonNumeric, type JsonNumeric, numberText } from './exact-json.js';

const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?\d+))?$/;

/** The value of a number of JSON, exactly. Two decimals are the same number where their `key` is the same. */
export class Decimal {
  readonly isNegative: boolean;
  /** Significant digits, without zeros at either end; `0` for zero. */
  readonly digits: string;
  /** The value is `digits` times ten to this power. */
  readonly exponent: bigint;

  /** @param text a number as JSON writes it @throws Error for another text */
  constructor(readonly text: string) {
    const [, sign, whole, fraction = '', exponent = '0'] = NUMBER.exec(text) ?? [];
    if (whole === undefined) throw new Error(`"${text}" is not a number of JSON`);
    const all = whole + fraction;
    let last = all.length;
    while (last > 0 && all[last - 1] === '0') last -= 1;
    this.digits = last === 0 ? '0' : all.slice(0, last).replace(/^0+/, '');
    this.isNegative = sign === '-' && last > 0;
    this.exponent = last === 0 ? 0n : BigInt(exponent) + BigInt(whole.length - last);
  }

  static of(value: JsonNumeric): Decimal {
    return new Decimal(numberText(value));
  }

  /** The same for each spelling of a number: 1, 1.0 and 10e-1; 0 and -0. */
  get key(): string {
    return `${this.isNegative ? '-' : ''}${this.digits}e${this.exponent}`;
  }

  get isInteger(): boolean {
    return this.exponent >= 0n;
  }

  get isZero(): boolean {
    return this.digits === '0';
  }

  /** Digits that the number has where it is written without an exponent. */
  get plainLength(): bigint {
    const { digits, exponent } = this;
    if (exponent >= 0n) return BigInt(digits.length) + exponent;
    return -exponent > BigInt(digits.length) ? -exponent : BigInt(digits.length);
  }

  /** The magnitude without an exponent: digits before the point, and those after it. Its cost is {@link plainLength}. */
  get magnitude(): { readonly whole: string; readonly fraction: string } {
    const { digits } = this;
    const exponent = Number(this.exponent);
    if (exponent >= 0) return { whole: digits + '0'.repeat(exponent), fraction: '' };
    const padded = digits.padStart(1 - exponent, '0');
    return { whole: padded.slice(0, exponent), fraction: padded.slice(exponent) };
  }

  /** The number without an exponent, in its shortest spelling. Its cost is {@link plainLength}. */
  get plainText(): string {
    const { whole, fraction } = this.magnitude;
    return `${this.isNegative ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
  }
}

/** Digits of an integer that is read into a bigint: more than any field's range has. */
const MAX_INTEGER_DIGITS = 40n;

/** The integer that a value of JSON is, `16.0` included; undefined where it is none, or has more than 40 digits. */
export function integerOf(value: unknown): bigint | undefined {
  if (!isJsonNumeric(value)) return undefined;
  if (typeof value === 'number' && !Number.isFinite(value)) return undefined;
  const decimal = Decimal.of(value);
  return decimal.isInteger && decimal.plainLength <= MAX_INTEGER_DIGITS ? BigInt(decimal.plainText) : undefined;
}
