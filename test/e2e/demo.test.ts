import { readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, it } from 'vitest';
import { packageRoot } from '../../src/shared/package.js';
import { rocmforge, runProgram } from '../support/command-line.js';
import { generate, request, startTestGateway } from '../support/gateway.js';

const main = path.join(packageRoot, 'dist', 'cli', 'main.js');
const model = path.join(packageRoot, 'models', 'demo.gguf');

it('rocmforge demo tells a story, then tokens/s and the time to the first token', async () => {
  const { code, stdout, stderr } = await runProgram(process.execPath, [main, 'demo']);
  expect(code).toBe(0);
  expect(stdout).toContain('fox');
  expect(stdout.trim().split(/\s+/).length).toBeGreaterThan(60);
  expect(stderr).toMatch(/\d+ tokens, [\d.]+ tokens\/s, first token after \d+ ms/);
});

it('rocmforge chat answers a turn, forgets on /reset and ends on /exit', async () => {
  const { code, stdout } = await runProgram(
    process.execPath,
    [main, 'chat', '--model', model, '--temperature', '0', '--max-tokens', '40'],
    'Tell me a story about rain.\n/reset\n/exit\n',
  );
  expect(code).toBe(0);
  expect(stdout).toMatch(/Once upon a time|In a|Long ago|One /);
  expect(stdout).toContain('(forgotten)');
});

it('a story ends at the model’s own end-of-turn token', async () => {
  const args = [
    '--prompt',
    'Tell me a story about a brave fox.',
    '--chat',
    '--temperature',
    '0',
    '--max-tokens',
    '600',
  ];
  const { stdout } = await rocmforge('generate', '--model', model, ...args, '--json');
  const end = JSON.parse(stdout.trim().split('\n').at(-1) ?? '');
  expect(end.finish_reason).toBe('FINISH_REASON_STOP');
});

it('gives llama.cpp’s own tokens for every prompt of the fixture, through gateway and executor', async () => {
  const fixture = path.join(packageRoot, 'test', 'fixtures', 'demo-parity.json');
  const { cases } = JSON.parse(readFileSync(fixture, 'utf8')) as { cases: { prompt: string; tokens: number[] }[] };
  const server = await startTestGateway(model, { maxSequences: 12 });
  try {
    const answers = await Promise.all(
      cases.map(({ prompt, tokens }) =>
        generate(
          server.client,
          request({
            // The fixture's prompts are written with the chat template's own markers.
            input: { $case: 'text', value: { text: prompt, parseSpecial: true, addSpecial: undefined } },
            sampling: { temperature: 0 },
            stop: { maxTokens: tokens.length, ignoreEos: true },
          }),
        ),
      ),
    );
    expect(answers.map(({ tokenIds }) => tokenIds)).toEqual(cases.map(({ tokens }) => tokens));
  } finally {
    await server.stop();
  }
});
