import { expect, it } from 'vitest';
import type { BenchReport } from '../../src/cli/bench/bench.js';
import { rocmforge } from '../support/command-line.js';

const bench = (...args: string[]) =>
  rocmforge('bench', '--model', 'models/demo.gguf', '--tokens', '4', '--repeats', '1', ...args);

it('bench prints a row for each length of the prompt', async () => {
  const { stdout } = await bench('--prompt-tokens', '16,200');
  const lines = stdout.trimEnd().split('\n');
  expect(lines.slice(-2).map((line) => line.trim().split(/ +/)[0])).toEqual(['16', '200']);
});

it('bench splits a prompt into steps of --max-step-tokens, with the same logits', async () => {
  const [whole, split] = await Promise.all(
    [[], ['--max-step-tokens', '48']].map(async (more) => {
      const { stdout } = await bench('--prompt-tokens', '200', '--json', ...more);
      return JSON.parse(stdout) as BenchReport;
    }),
  );
  expect(whole?.executor.logitsHash).toMatch(/^[0-9a-f]{16}$/);
  expect(split?.executor.logitsHash).toBe(whole?.executor.logitsHash);
});

it.each([
  [['--prompt-tokens', '64,1020'], "--prompt-tokens 1020 and --tokens 4 need a context of 1025; the model's is 1024"],
  [['--max-context', '64'], "unknown option '--max-context'"],
])('bench %j: %s', async (args, message) => {
  const { code, stderr } = await bench(...args);
  expect(code).toBe(1);
  expect(stderr).toContain(message);
});

it('bench without a model asks for it', async () => {
  const { code, stderr } = await rocmforge('bench');
  expect(code).toBe(1);
  expect(stderr).toContain('--model is required');
});
