import { type Logger, pino } from 'pino';
import { LogSink } from './log-sink.js';

export type { Logger } from 'pino';

/** Where every line of this process's log goes. */
export const logSink = new LogSink();

/**
 * A logger that writes JSON lines to stderr: stdout belongs to generated text. Prompts and texts are never logged; the
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
