import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { watchDevices } from '../../src/gateway/device-metrics.js';
import { Metrics } from '../../src/gateway/metrics.js';
import type { ReplicaCounts } from '../../src/gateway/replica/replica-counts.js';
import { LOSS_METRICS } from '../../src/shared/metric-table.js';
import { packageRoot } from '../../src/shared/package.js';
import { runProgram } from '../support/command-line.js';

const folder = path.join(packageRoot, 'deploy', 'monitoring');
const read = (...parts: string[]) => readFileSync(path.join(packageRoot, ...parts), 'utf8');

/** All metrics of a gateway with each of its options. */
async function names(): Promise<Set<string>> {
  const metrics = new Metrics([
    {
      name: 'm',
      counts: () => new Proxy({} as ReplicaCounts, { get: () => 0 }),
      grammars: () => ({
        engineBytes: 0,
        grammarBytes: 0,
        grammars: 0,
        evictions: 0,
      }),
      idleUnloader: () => ({ isUnloaded: false, counters: { loads: 0, unloads: 0 } }),
      admits: () => true,
      waitsForLoad: () => false,
    },
  ]);
  const guards = { connections: { refused: 0, closed: 0, held: 0 }, calls: [], failedHandshakes: () => 0 };
  metrics.watchApi('grpc', guards);
  metrics.watch(LOSS_METRICS, () => ({ droppedLines: 0, lostFaults: 0 }));
  watchDevices(metrics.registry, async () => []);
  metrics.watchExecutors([], []);
  const all = new Set((await metrics.registry.getMetricsAsJSON()).map(({ name }) => name));
  // Metrics of --otlp-endpoint alone.
  return all.add('rocmforge_spans_total').add('rocmforge_spans_exported_total');
}

const metricsIn = (text: string): string[] => [
  ...new Set([...text.matchAll(/\b(?:rocmforge|process|nodejs)_[a-z0-9_]+/g)].map(([name]) => name)),
];
/** Name that Prometheus makes of a histogram's. */
const withoutSuffix = (name: string) => name.replace(/_(bucket|sum|count)$/, '');

describe('the board and the alerts', () => {
  it('ask of metrics that there are', async () => {
    const known = await names();
    const expressions = [...read('deploy', 'monitoring', 'grafana.json').matchAll(/"expr": "(.*)"/g)].map(
      ([, expr]) => expr,
    );
    expect(expressions.length).toBeGreaterThan(40);
    for (const text of [expressions.join('\n'), read('deploy', 'monitoring', 'alerts.yaml')]) {
      expect(metricsIn(text).filter((name) => !known.has(name) && !known.has(withoutSuffix(name)))).toEqual([]);
    }
  });

  it('are the board that its panels say', async () => {
    const { code, stderr } = await runProgram(process.execPath, ['tools/build-board.mjs', '--check']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });

  it('are explained, as is every metric of ours', async () => {
    const page = read('docs', 'operate.md');
    const told = new Set([...page.matchAll(/`([a-z0-9_]+)(?:\{[a-z_, ]+\})?`/g)].map(([, name]) => name as string));
    const ours = [...(await names())].filter((name) => name.startsWith('rocmforge_'));
    expect(ours.filter((name) => !told.has(name.replace('rocmforge_', '')))).toEqual([]);
    const alerts = [...read('deploy', 'monitoring', 'alerts.yaml').matchAll(/alert: (\w+)/g)].map(([, name]) => name);
    expect(alerts.filter((name) => !page.includes(`${name}`))).toEqual([]);
  });
});

const hasPromtool = spawnSync('promtool', ['--version']).status === 0;

describe.skipIf(!hasPromtool)('the alert rules (skipped where there is no promtool)', () => {
  it.each([
    ['check', 'config', 'prometheus.yaml'],
    ['check', 'rules', 'alerts.yaml'],
    ['test', 'rules', 'alerts.test.yaml'],
  ])('promtool %s %s %s', async (...[verb, what, file]) => {
    const { code, stdout } = await runProgram('promtool', [verb, what, path.join(folder, file)]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringContaining('SUCCESS') });
  });
});
