import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type LoadReport, percentiles } from '../../src/cli/bench/load-report.js';
import { MetricsSnapshot } from '../../src/cli/bench/prometheus.js';
import { poissonArrivals, Workload } from '../../src/cli/bench/workload.js';
import { rocmforge } from '../support/command-line.js';
import { FAKE_VOCABULARY, type FakeGateway, startFakeGateway } from '../support/fake-gateway.js';

describe('a workload', () => {
  const options = {
    seed: 7,
    promptTokens: [40, 80],
    outputTokens: [3, 9],
    sharedPrefix: 32,
    prefixes: 2,
    firstToken: 10,
    vocabularySize: 300,
  } as const;
  const take = (seed: number) => {
    const workload = new Workload({ ...options, seed });
    return Array.from({ length: 500 }, () => workload.next());
  };

  it('is the same for the same seed and another for another', () => {
    expect(take(7)).toEqual(take(7));
    expect(take(8)).not.toEqual(take(7));
  });

  it('keeps to its ranges, reaches their ends, and shares its beginnings', () => {
    const requests = take(7);
    const lengths = requests.map(({ prompt }) => prompt.length);
    expect([Math.min(...lengths), Math.max(...lengths)]).toEqual([40, 80]);
    const outputs = requests.map(({ outputTokens }) => outputTokens);
    expect([Math.min(...outputs), Math.max(...outputs)]).toEqual([3, 9]);
    const ids = requests.flatMap(({ prompt }) => prompt);
    expect(ids.reduce((least, id) => Math.min(least, id))).toBe(10);
    expect(ids.reduce((most, id) => Math.max(most, id))).toBe(299);
    expect(new Set(requests.map(({ prompt }) => prompt.slice(0, 32).join())).size).toBe(2);
    expect(new Set(requests.map(({ prompt }) => prompt.slice(0, 33).join())).size).toBeGreaterThan(300);
  });

  it('arrives as a Poisson process: the mean gap is 1 / rate, and so is its standard deviation', () => {
    const arrivals = poissonArrivals(3, 50, 1_000_000);
    const gaps = arrivals.map((at, i) => at - (arrivals[i - 1] ?? 0));
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
    expect(Math.abs(mean - 20)).toBeLessThan(0.5);
    expect(Math.abs(deviation - 20)).toBeLessThan(0.7);
    expect(arrivals.every((at, i) => at > (arrivals[i - 1] ?? 0) && at < 1_000_000)).toBe(true);
  });
});

it('percentiles are values below which that share lies', () => {
  const values = Array.from({ length: 200 }, (_, i) => 199 - i);
  expect(percentiles(values)).toEqual({ p50: 100, p95: 190, p99: 198 });
  expect(percentiles([]).p50).toBeNaN();
});

it('reads metrics, adding up the series of one name', () => {
  const text = '# HELP x y\nrocmforge_a_total{outcome="b"} 3\nrocmforge_a_total{outcome="c"} 4\nrocmforge_b 0.5\n';
  const snapshot = MetricsSnapshot.parse(text);
  expect([snapshot.get('a_total'), snapshot.get('b'), snapshot.get('none')]).toEqual([7, 0.5, 0]);
});

describe('rocmforge bench serve', () => {
  const metrics = `127.0.0.1:${20_000 + (process.pid % 40_000)}`;
  let server: FakeGateway;
  beforeAll(async () => {
    server = await startFakeGateway({ stepMs: 2, maxSequences: 4, kvBlocks: 18, metricsListen: metrics });
  });
  afterAll(() => server?.stop());
  const bench = (...args: string[]) => {
    const shared = ['--address', server.address, '--first-token', String(FAKE_VOCABULARY.first)];
    return rocmforge('bench', 'serve', ...shared, '--prompt-tokens', '40:100', '--tokens', '20:60', ...args);
  };

  it('closed loop: every request ends, and the gateway tells its side', async () => {
    const plot = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'run.svg');
    const load = ['--clients', '8', '--requests', '40', '--shared-prefix', '32', '--metrics', metrics];
    const { code, stdout, stderr } = await bench(...load, '--json', '--plot', plot);
    expect(stderr).toBe('');
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as LoadReport;
    expect(report.requests).toBe(40);
    expect(report.failed).toEqual({});
    expect(report.tokens).toBeGreaterThanOrEqual(40 * 20);
    expect(report.cachedShare).toBeGreaterThan(0.2);
    expect(report.timeToFirstTokenMs.p50).toBeGreaterThan(2);
    // Tokens may come joined where this machine is busy, so half of the gaps may be none.
    const { p50, p95, p99 } = report.interTokenMs;
    expect([p50, p95, p99]).toEqual([p50, p95, p99].sort((a, b) => a - b));
    expect(p99).toBeGreaterThan(1);
    expect(report.gateway?.preemptions).toBeGreaterThan(0);
    expect(report.gateway?.meanQueueMs).toBeGreaterThan(1);
    expect(report.gateway?.cpuUsPerToken).toBeGreaterThan(1);
    const svg = readFileSync(plot, 'utf8');
    expect(svg).toMatch(/^<svg [^>]*>[\s\S]*<\/svg>\n$/);
    expect(svg.match(/<circle /g)).toHaveLength(40);
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
    expect(svg).toMatch(/8 clients for 40 requests, prompts of .* 32 of them shared in 1 ways/);
    expect(svg.match(/>p(50|95|99) \d/g)).toHaveLength(6);
    expect(server.executor.failure).toBeUndefined();
  });

  it('a run that is saved is compared with', async () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    const [saved, plot] = [path.join(folder, 'run.json'), path.join(folder, 'both.svg')];
    expect((await bench('--clients', '4', '--requests', '10', '--save', saved)).code).toBe(0);
    const { code, stdout } = await bench('--clients', '2', '--requests', '10', '--compare', saved, '--plot', plot);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^compared +this run +before +times\ntokens\/s +[\d.]+ +[\d.]+ +\d+\.\d\d$/m);
    expect(stdout).toMatch(/^before: .*4 clients for 10 requests/m);
    const svg = readFileSync(plot, 'utf8');
    expect(svg).toContain('the one compared with');
    expect(svg.match(/<polyline /g)).toHaveLength(4);
    expect(svg).not.toMatch(/NaN|Infinity|undefined/);
    writeFileSync(saved, '{"format": "rocmforge-load-0"}');
    expect(await bench('--compare', saved)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('INVALID_OPTION: '),
    });
  });

  it('open loop: as many requests as the seed says, and a table for people', async () => {
    const { code, stdout } = await bench('--rate', '40', '--seconds', '1', '--seed', '5');
    expect(code).toBe(0);
    expect(stdout).toContain(`${poissonArrivals(5, 40, 1000).length} requests in `);
    expect(stdout).toMatch(/^time to first token +\d+(\.\d+)? +\d+(\.\d+)? +\d+(\.\d+)?$/m);
    expect(stdout).not.toContain('gateway ');
  });

  it('refuses lengths that the model cannot hold', async () => {
    const { code, stderr } = await bench('--tokens', '5000');
    expect(code).toBe(1);
    expect(stderr).toContain('INVALID_OPTION');
  });
});
