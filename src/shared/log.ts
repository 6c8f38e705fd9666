import { isatty } from 'node:tty';
import { type Logger, pino } from 'pino';
import type { LogLevel } from './log-levels.js';
import { LogSink } from './log-sink.js';
import { readableLine } from './readable-log.js';

export type { Logger } from 'pino';

const STDERR = 2;
const hasColours = process.env.NO_COLOR === undefined;

/** Destination of all log lines of this process, and of its executor's: readable on a terminal, else JSON. */
export const logSink = new LogSink(STDERR, isatty(STDERR) ? (line) => readableLine(line, hasColours) : undefined);

const LEVEL_VARIABLE = 'ROCMFORGE_LOG_LEVEL';
/** All there are: a process has a handful, for as long as it runs. */
const loggers: Logger[] = [];

/**
 * A logger that writes lines to stderr: stdout belongs to generated text. Prompts and texts are never logged; the
 * level comes from `ROCMFORGE_LOG_LEVEL`, default `info`.
 *
 * @param name which process
 */
export function createLogger(name: string): Logger {
  const logger = pino(
    { name, level: logLevel(), base: { pid: process.pid }, onChild: (child) => void loggers.push(child) },
    { write: (line) => logSink.write(line) },
  );
  loggers.push(logger);
  return logger;
}

/** The level of this process's loggers, and of processes that it starts. */
export function logLevel(): string {
  return process.env[LEVEL_VARIABLE] ?? 'info';
}

/** Changes {@link logLevel}, for all loggers there are and will be. */
export function setLogLevel(level: LogLevel): void {
  process.env[LEVEL_VARIABLE] = level;
  for (const logger of loggers) logger.level = level;
}
