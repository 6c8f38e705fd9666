import { InvalidArgumentError } from 'commander';
import { MAX_PORT } from './address.js';

/** A text as it is. */
export const text = (given: string): string => given;

/**
 * `HOST:PORT` or `unix:PATH`, as it is; what is obviously another form of address is refused with the form that is meant.
 */
export function address(text: string): string {
  const scheme = /^(?:https?|grpcs?|tcp):\/\//i.exec(text)?.[0];
  if (scheme !== undefined) {
    const rest = text.slice(scheme.length).replace(/\/.*$/s, '');
    throw new InvalidArgumentError(`Leave "${scheme}" out: give ${rest}.`);
  }
  if (/^:?\d+$/.test(text)) {
    throw new InvalidArgumentError(
      `Give the host too, as 127.0.0.1:${text.replace(':', '')}, or a socket as unix:PATH.`,
    );
  }
  if (text === 'unix:') throw new InvalidArgumentError('Give the path of the socket: unix:PATH.');
  // Whatever the form of a gRPC target: no port is larger.
  const port = text.startsWith('unix:') ? undefined : /:(\d+)$/.exec(text)?.[1];
  if (Number(port ?? 0) > MAX_PORT) {
    throw new InvalidArgumentError(`The port must be between 0 and ${MAX_PORT}.`);
  }
  return text;
}

/** {@link address}, of an option that may be given several times. */
export function addresses(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, address(text)];
}

/** The largest whole number that messages, native code and timers all hold, and the largest number of a message's float fields. */
export const MOST_INTEGER = 2 ** 31 - 1;
export const MOST_FLOAT = (2 - 2 ** -23) * 2 ** 127;

/** A whole number from `least` on, up to `most`. */
export function wholeNumber(least: number, most = MOST_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (text.trim() === '' || !Number.isInteger(value) || value < least || value > most)
      throw new InvalidArgumentError(`Give a whole number from ${least} to ${most}.`);
    return value;
  };
}

/** {@link wholeNumber}, of an option that may be given several times. */
export function wholeNumbers(least: number): (text: string, before?: readonly number[]) => readonly number[] {
  return (text, before = []) => [...before, wholeNumber(least)(text)];
}

/** An option's texts, in order; it may be given several times. */
export function texts(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

/** A whole number of either sign that 32 bits hold. */
export function integer(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || (value | 0) !== value) throw new InvalidArgumentError('Give a whole number of 32 bits.');
  return value;
}

/** Milliseconds from 1 up, as many as a timer can wait. */
export const milliseconds = wholeNumber(1);

/** Values of a kind, with commas between. */
export function listOf<T>(parse: (text: string) => T): (text: string) => readonly T[] {
  return (text) => text.split(',').map((part) => parse(part.trim()));
}

/** A number above 0. */
export function positive(text: string): number {
  const value = decimal(text);
  // 1e-300 is 0 as a float.
  if (Math.fround(value) <= 0) throw new InvalidArgumentError('Give a number above 0.');
  return value;
}

/** A number of a size that a float holds. */
export function decimal(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value)) throw new InvalidArgumentError('Give a number.');
  if (Math.abs(value) > MOST_FLOAT) throw new InvalidArgumentError('Give a number between -3.4e38 and 3.4e38.');
  return value;
}

/** `LEAST:MOST`, or one number for both; whole numbers from 1 up. */
export function range(text: string): readonly [least: number, most: number] {
  const [least, most] = text.split(':').map(wholeNumber(1));
  if (least === undefined || (most ?? least) < least) throw new InvalidArgumentError('Give a range such as 16:128.');
  return [least, most ?? least];
}

/** Bytes, with an optional K, M or G, which are powers of 1,024: 512M, 24GiB. */
export function byteCount(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(?:([KMG])i?)?B?$/i.exec(text);
  if (!match) throw new InvalidArgumentError('Give a size such as 512M or 24GiB.');
  const power = ['', 'K', 'M', 'G'].indexOf((match[2] ?? '').toUpperCase());
  const bytes = Math.floor(Number(match[1]) * 1024 ** power);
  if (!Number.isSafeInteger(bytes)) throw new InvalidArgumentError('Give a size of at most 8388607G.');
  return bytes;
}

/** An unsigned 64-bit number. */
export function seed(text: string): bigint {
  if (!/^\d+$/.test(text) || BigInt(text) >= 1n << 64n)
    throw new InvalidArgumentError('Give an unsigned 64-bit number.');
  return BigInt(text);
}

/** A number of seconds, in milliseconds. */
export function seconds(parse: (text: string) => number): (text: string) => number {
  return (given) => parse(given) * 1000;
}
