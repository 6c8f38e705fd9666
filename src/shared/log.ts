import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import { type LogLevel, logLevel, setDefaultLevel } from './log-levels.js';
import { LogSink } from './log-sink.js';
import { readableLine } from './readable-log.js';

export type { Logger } from 'pino';
export { logLevel } from './log-levels.js';

const STDERR = 2;
const hasColours = process.env.NO_COLOR === undefined;

/** Destination of all log lines of this process, and of its executor's: readable on a terminal, else JSON. */
export const logSink = new LogSink(STDERR, isatty(STDERR) ? (line) => readableLine(line, hasColours) : undefined);

/** All there are: a process has a handful, for as long as it runs. */
const loggers: Logger[] = [];

/**
 * A logger that writes lines to stderr: stdout belongs to generated text. Prompts and texts are never logged; the
 * level comes from `ROCMFORGE_LOG_LEVEL`, default `info`.
 *
 * @param name which process
 * @throws RocmForgeError as {@link logLevel}
 */
export function createLogger(name: string): Logger {
  const logger = pino(
    { name, level: logLevel(), base: { pid: process.pid }, onChild: (child) => void loggers.push(child) },
    { write: (line) => logSink.write(line) },
  );
  loggers.push(logger);
  return logger;
}

/** Changes {@link logLevel}, for all loggers there are and will be. */
export function setLogLevel(level: LogLevel): void {
  setDefaultLevel(level);
  for (const logger of loggers) logger.level = level;
}
