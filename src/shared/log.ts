import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import { LogSink } from './log-sink.js';
import { readableLine } from './readable-log.js';

export type { Logger } from 'pino';

const STDERR = 2;
const hasColours = process.env.NO_COLOR === undefined;

/** Where every line of this process's log goes, and of its executor's: readable where that is a terminal, else as JSON. */
export const logSink = new LogSink(STDERR, isatty(STDERR) ? (line) => readableLine(line, hasColours) : undefined);

/**
 * A logger that writes lines to stderr: stdout belongs to generated text. Prompts and texts are never logged; the
 * level comes from `ROCMFORGE_LOG_LEVEL`, default `info`.
 *
 * @param name which process
 */
export function createLogger(name: string): Logger {
  return pino(
    { name, level: process.env.ROCMFORGE_LOG_LEVEL ?? 'info', base: { pid: process.pid } },
    { write: (line) => logSink.write(line) },
  );
}
