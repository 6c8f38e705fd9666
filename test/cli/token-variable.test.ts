import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';

const MAIN = path.join(packageRoot, 'dist', 'cli', 'main.js');
const AT = ['--address', '127.0.0.1:1'];
const COMMANDS = [
  ['generate', ...AT, 'hi'],
  ['chat', ...AT],
  ['bench', 'serve', ...AT],
];

const run = (args: readonly string[], token: string) =>
  runProgram(process.execPath, [MAIN, ...args], '', { ROCMFORGE_TOKEN: token });

describe('a token that no header can hold is refused without a word of it', () => {
  it.each([
    ['carriage return', 'secr\ret', 5],
    ['line end in the middle', 'secr\net', 5],
    ['letter that is not Latin', 'secrétж', 5],
    ['space', 'secr et', 5],
    ['two line ends', 'secret\n\n', 7],
  ])('%s', async (_, token, position) => {
    for (const args of COMMANDS) {
      const { code, stderr, stdout } = await run(args, token);
      expect([code, stdout]).toEqual([1, '']);
      expect(stderr).toBe(
        `rocmforge: INVALID_OPTION: ROCMFORGE_TOKEN has a character that no token has (position ${position}); ` +
          'set it to one line of visible ASCII characters\n',
      );
    }
  });
});

it.each(['secret\n', 'secret\r\n', ''])('the end of a line after a token is not part of it: %j', async (token) => {
  const { stderr } = await run(['generate', ...AT, 'hi'], token);
  expect(stderr).toContain('rocmforge: GATEWAY_UNAVAILABLE');
});
