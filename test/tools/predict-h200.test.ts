import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { CARDS, predictLaunch } from '../../tools/predict/hardware.mjs';

// Counters of a profiler for each kernel of seven steps of one row on an H200, and their times (tools/predict-h200.mjs --write).
const [, head, ...lines] = readFileSync('test/fixtures/h200-kernels.tsv', 'utf8').trimEnd().split('\n');
const columns = head!.split('\t');
const none = { dot: 0, branch: 0, wait: 0, scalarLoad: 0 };

it('is off by no more than a quarter of what half of the kernels were measured to take on an H200', () => {
  const card = CARDS.sm_90!;
  const errors = lines.map((line) => {
    const words = line.split('\t');
    const of = (name: string) => Number(words[columns.indexOf(name)]);
    const perBlock = Object.fromEntries(
      ['vector', 'matrix', 'transcendental', 'scalar'].map((name) => [name, of(name)]),
    );
    const { estimate } = predictLaunch(card, {
      ...{ blocks: of('blocks'), resident: of('resident'), perBlock: { ...none, ...perBlock } },
      ...{ ldsPasses: of('ldsPasses'), asked: of('asked'), touched: of('touched'), cached: of('cached'), shared: 0 },
      ...{ chain: of('chain'), head: of('head'), drain: of('drain') },
    });
    return Math.abs((estimate + card.nodeUs[0]!) / of('us') - 1);
  });
  errors.sort((a, b) => a - b);
  expect(errors.length).toBe(179);
  expect(errors[Math.floor(errors.length / 2)]).toBeLessThanOrEqual(0.25);
});
