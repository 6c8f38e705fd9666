import { printableLine } from './printable.js';

/** pino's numbers, with the colours of a terminal. */
const LEVELS: Readonly<Record<number, readonly [name: string, colour: number]>> = {
  10: ['TRACE', 2],
  20: ['DEBUG', 2],
  30: ['INFO', 32],
  40: ['WARN', 33],
  50: ['ERROR', 31],
  60: ['FATAL', 31],
};

/**
 * A line of the log as somebody at a terminal reads it: time of day, level, process, message, then what else it tells. A line
 * that is not JSON of a logger stays as it is, but for characters that would steer the terminal.
 *
 * @param line with its newline
 */
export function readableLine(line: string, hasColours: boolean): string {
  const entry = entryOf(line);
  if (entry === undefined) return `${printableLine(line.trimEnd())}\n`;
  const { level, time, name, pid, msg, err, ...rest } = entry;
  const [word, colour] = LEVELS[Number(level)] ?? [String(level), 0];
  const styled = (text: string, code: number): string => (hasColours ? `\x1b[${code}m${text}\x1b[0m` : text);
  const at = new Date(Number(time));
  const clock = `${[at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':')}.${String(at.getMilliseconds()).padStart(3, '0')}`;
  const told = Object.entries(rest).map(
    ([key, value]) => `${key}=${typeof value === 'string' && /^[^\s"=]+$/.test(value) ? value : JSON.stringify(value)}`,
  );
  const head = `${styled(clock, 2)} ${styled(word.padEnd(5), colour)} ${printableLine(String(name ?? ''))}[${pid}]`;
  const text = [
    printableLine(String(msg ?? '')),
    ...(told.length > 0 ? [styled(printableLine(told.join(' ')), 2)] : []),
  ].join('  ');
  const stack = (err as { readonly stack?: unknown } | undefined)?.stack;
  const below = typeof stack === 'string' ? `\n${stack.split('\n').map(printableLine).join('\n')}` : '';
  return `${head} ${text}${below}\n`;
}

function entryOf(line: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null && 'level' in value && 'time' in value
      ? (value as Record<string, unknown>)
      : undefined;
  } catch {
    return undefined;
  }
}
