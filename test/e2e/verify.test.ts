import { describe, expect, it } from 'vitest';
import { conclusion } from '../../src/cli/verify/verdict.js';
import { rocmforge } from '../support/command-line.js';

const CHECKS = [
  ['a stream whose executor is killed', /^96 of 96 tokens equal, 1 kill -9, a pause of \d+ ms$/],
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
