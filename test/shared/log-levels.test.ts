import { afterEach, beforeEach, expect, it } from 'vitest';
import { LOG_LEVELS, logLevel, preferLevel } from '../../src/shared/log-levels.js';

let before: string | undefined;
beforeEach(() => {
  before = process.env.ROCMFORGE_LOG_LEVEL;
});
afterEach(() => {
  if (before === undefined) delete process.env.ROCMFORGE_LOG_LEVEL;
  else process.env.ROCMFORGE_LOG_LEVEL = before;
});

it.each(LOG_LEVELS)('takes %s from the environment, whatever a command prefers', (level) => {
  process.env.ROCMFORGE_LOG_LEVEL = level;
  preferLevel('error');
  expect(logLevel()).toBe(level);
});

it.each([undefined, ''])('is info, or what a command prefers, where the variable is %j', (given) => {
  if (given === undefined) delete process.env.ROCMFORGE_LOG_LEVEL;
  else process.env.ROCMFORGE_LOG_LEVEL = given;
  expect(logLevel()).toBe('info');
  preferLevel('warn');
  expect(logLevel()).toBe('warn');
});

it.each(['loud', 'INFO', '30', 'constructor'])('refuses %s', (given) => {
  process.env.ROCMFORGE_LOG_LEVEL = given;
  expect(() => logLevel()).toThrow(
    expect.objectContaining({
      reason: 'INVALID_OPTION',
      message: expect.stringContaining(`ROCMFORGE_LOG_LEVEL is "${given}"; allowed: trace, debug, `),
    }),
  );
});
