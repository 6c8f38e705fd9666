import { RocmForgeError } from './errors.js';

/** As pino names them, from the one that says most. */
export const LOG_LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Environment variable with the level of a process's loggers, and of processes that it starts. */
const LEVEL_VARIABLE = 'ROCMFORGE_LOG_LEVEL';

/** The variable; undefined also if it is empty: compose files and unit files pass variables without a value that way. */
const givenLevel = (): string | undefined => process.env[LEVEL_VARIABLE] || undefined;

/**
 * The level of `ROCMFORGE_LOG_LEVEL`, default `info`.
 *
 * @throws RocmForgeError `INVALID_OPTION` if the variable holds anything but one of {@link LOG_LEVELS}
 */
export function logLevel(): LogLevel {
  const given = givenLevel() ?? 'info';
  const level = LOG_LEVELS.find((known) => known === given);
  if (level !== undefined) return level;
  throw new RocmForgeError(
    'INVALID_OPTION',
    `the environment variable ${LEVEL_VARIABLE} is "${given}"; allowed: ${LOG_LEVELS.join(', ')}`,
  );
}

/** Sets the level of loggers that are created from now on, here and in processes that this one starts. */
export function setDefaultLevel(level: LogLevel): void {
  process.env[LEVEL_VARIABLE] = level;
}

/** The same, unless the environment names a level: a command that kills executors on purpose logs less than a server. */
export function preferLevel(level: LogLevel): void {
  if (givenLevel() === undefined) setDefaultLevel(level);
}
