import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { DEMO_MODEL, DEMO_PARITY } from '../../src/cli/common/package-files.js';
import type { ParityCase } from '../../src/cli/verify/teacher-forced.js';
import { conclusion } from '../../src/cli/verify/verdict.js';
import { packageRoot } from '../../src/shared/package.js';
import { rocmforge } from '../support/command-line.js';
import { isFull } from '../support/run-size.js';

const CHECKS = [
  [
    'a stream whose executor is killed',
    /^192 of 192 tokens equal, 2 kill -9, pauses of \d+ ms \(memory kept\) and \d+ ms \(computed again\)$/,
  ],
  ['log probabilities, fed its tokens', /likeliest token equal in 768 of 768$/],
  ['greedy tokens', /^768 of 768 equal$/],
  ['one hash of logits, 7 ways to batch', /^[0-9a-f]{16}$/],
  ['speed of one sequence', /^[\d.]+ tokens\/s, [\d.]+ GB\/s of weights: [\d.]+ % of a read kernel’s [\d.]+ GB\/s$/],
] as const;

interface Report {
  readonly device: string;
  readonly verified: boolean;
  readonly verdicts: readonly { readonly check: string; readonly measured: string; readonly passed: boolean }[];
}

function expectAll({ verified, verdicts }: Report): void {
  expect(verdicts.map(({ check }) => check)).toEqual(CHECKS.map(([check]) => check));
  for (const [i, [, measured]] of CHECKS.entries()) expect(verdicts[i]?.measured).toMatch(measured);
  expect(verified).toBe(true);
}

describe('rocmforge verify', () => {
  it('without a model takes the package’s, and ends in one verdict', async () => {
    const { code, stdout } = await rocmforge('verify', '--device', 'host');
    expect(stdout.trimEnd().split('\n').at(-1)).toMatch(/^VERIFIED on host \(.*\): 5 of 5 checks passed$/);
    expect(code).toBe(0);
  });

  it('holds tokens, invariance, a kill and the speed', async () => {
    expectAll(JSON.parse((await rocmforge('verify', '--device', 'host', '--json')).stdout) as Report);
  });

  it('says which check failed', () => {
    const [right, wrong] = [true, false].map((passed) => ({
      model: 'm',
      check: `${passed}`,
      measured: '',
      passed,
    })) as [never, never];
    expect(conclusion([right, wrong], 'host')).toBe('NOT VERIFIED on host: false');
    expect(conclusion([right], 'host')).toBe('VERIFIED on host: 1 of 1 checks passed');
  });

  it('refuses a parity file without a model', async () => {
    const { code, stderr } = await rocmforge('verify', '--parity', 'x.json');
    expect(code).toBe(1);
    expect(stderr).toMatch(/INVALID_OPTION: there are more --parity files/);
  });
});

describe('a check of rocmforge verify fails', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** The checks that failed with these options, and what they measured. */
  async function failed(...options: string[]): Promise<Readonly<Record<string, string>>> {
    const { code, stdout } = await rocmforge('verify', '--device', 'host', '--json', ...options);
    const { verified, verdicts } = JSON.parse(stdout) as Report;
    expect([code, verified]).toEqual([1, false]);
    expect(verdicts).toHaveLength(5);
    return Object.fromEntries(verdicts.flatMap(({ check, measured, passed }) => (passed ? [] : [[check, measured]])));
  }

  /** The package's parity file, its cases changed. */
  function parityFile(change: (cases: ParityCase[]) => void): string[] {
    const parity = JSON.parse(readFileSync(DEMO_PARITY, 'utf8')) as { cases: ParityCase[] };
    change(parity.cases);
    const file = path.join(folder, 'parity.json');
    writeFileSync(file, JSON.stringify(parity));
    return ['--model', DEMO_MODEL, '--parity', file];
  }

  /** Kernels with a mistake in them, which the executor's self-test does not find. */
  function planted(mistake: string): string[] {
    const output = path.join(folder, mistake);
    const tool = path.join(packageRoot, 'tools', 'plant-mistake.mjs');
    const { status, stderr } = spawnSync(process.execPath, [tool, '--output', output, '--mistake', mistake]);
    if (status !== 0) throw new Error(String(stderr));
    return ['--kernels', output];
  }

  it('tokens, where the reference has one other', async () => {
    const parity = parityFile(([first]) => {
      (first!.tokens as number[])[63] = 1000;
    });
    expect(await failed(...parity)).toEqual({
      'log probabilities, fed its tokens': expect.stringMatching(/likeliest token equal in 767 of 768$/),
      'greedy tokens': '767 of 768 equal',
    });
  });

  it.runIf(isFull)('log probabilities alone, where the reference has one that is another', async () => {
    const parity = parityFile(([first]) => {
      (first!.top[40]![1]! as unknown as number[])[1]! -= 0.6;
    });
    expect(Object.keys(await failed(...parity))).toEqual(['log probabilities, fed its tokens']);
  });

  it.runIf(isFull)('invariance, where rows of a product depend on how many there are', async () => {
    expect(await failed(...planted('uneven-rows'))).toEqual({
      'one hash of logits, 7 ways to batch': expect.stringMatching(/^[2-7] different hashes$/),
    });
  });

  it('the kill, where the next executor answers otherwise', async () => {
    expect(await failed(...planted('wrong-replay'))).toEqual({
      'a stream whose executor is killed': expect.stringMatching(/^1[0-8]\d of 192 tokens equal, 2 kill -9/),
    });
  });
});
