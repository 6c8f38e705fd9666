import { Registry } from 'prom-client';
import { expect, expectTypeOf, it } from 'vitest';
import { Metrics } from '../../src/gateway/metrics.js';
import { registerMetrics, watchMetrics } from '../../src/gateway/registered-metrics.js';
import { newEngineCounters, newSchedulerCounters, zerosOf } from '../../src/gateway/replica/replica-counts.js';
import { Scheduler } from '../../src/gateway/replica/scheduler/scheduler.js';
import { METRICS, MODEL_METRICS } from '../../src/shared/metric-table.js';
import { metricsPage } from '../../tools/reference-pages.mjs';

/** Rows that this test alone has. */
const MADE_UP = {
  foundAcorns: {
    kind: 'counter',
    name: 'acorns_total',
    help: 'Acorns found',
    labels: ['model_name?'],
    by: 'scheduler',
  },
  hunger: { kind: 'histogram', name: 'hunger_seconds', help: 'Until an acorn', labels: ['reason'], buckets: [1, 5] },
} as const;

it('a row of the table is a counter of what counts it, a metric and a row of the docs', async () => {
  const counters = zerosOf({ ...MODEL_METRICS, ...MADE_UP }, 'scheduler');
  expectTypeOf(counters).toHaveProperty('foundAcorns').toBeNumber();
  expect(counters).toMatchObject({ foundAcorns: 0, preemptions: 0 });
  const { foundAcorns, hunger } = MADE_UP;
  for (const [several, labels] of [
    [false, ''],
    [true, '{model_name="oak"}'],
  ] as const) {
    const registry = new Registry();
    watchMetrics(registry, { foundAcorns }, several, () => [
      [several ? { model_name: 'oak' } : {}, { foundAcorns: counters.foundAcorns + 3 }],
    ]);
    registerMetrics(registry, { hunger }, several).hunger.observe({ reason: 'winter' }, 2);
    const lines = (await registry.metrics()).split('\n');
    expect(lines).toContain('# HELP rocmforge_acorns_total Acorns found');
    expect(lines).toContain('# TYPE rocmforge_acorns_total counter');
    expect(lines).toContain(`rocmforge_acorns_total${labels} 3`);
    expect(lines).toContain('rocmforge_hunger_seconds_bucket{le="5",reason="winter"} 1');
  }
  const page = metricsPage([...METRICS, ...Object.values(MADE_UP)]);
  expect(page).toContain('| `acorns_total` | counter | `model_name?` | Acorns found |');
  expect(page).toContain('| `hunger_seconds` | histogram | `reason` | Until an acorn |');
});

it('metrics whose values are read are read once per scrape, and lose the series that are gone', async () => {
  const registry = new Registry();
  let reads = 0;
  let models = ['oak', 'fir'];
  const row = (name: string) => ({ ...MADE_UP.foundAcorns, kind: 'gauge', name }) as const;
  watchMetrics(registry, { a: row('a'), b: row('b') }, true, () => {
    reads += 1;
    return models.map((model_name) => [{ model_name }, { a: reads, b: model_name === 'fir' ? undefined : reads }]);
  });
  const values = async () => (await registry.metrics()).split('\n').filter((line) => /^rocmforge/.test(line));
  expect(await values()).toEqual([
    'rocmforge_a{model_name="oak"} 1',
    'rocmforge_a{model_name="fir"} 1',
    'rocmforge_b{model_name="oak"} 1',
  ]);
  models = ['fir'];
  expect(await values()).toEqual(['rocmforge_a{model_name="fir"} 2']);
});

it('every counter of schedulers and engines reaches /metrics, by model if there are several', async () => {
  const { counters } = new Scheduler({ maxSequences: 1, maxStepTokens: 8, kvBlocks: 8 });
  expect(counters).toEqual(newSchedulerCounters());
  const counts = {
    ...counters,
    ...newEngineCounters(),
    ...{ running: 0, waiting: 0, kvBlocks: 0, freeKvBlocks: 0, windowKvBlocks: 0, freeWindowKvBlocks: 0 },
    ...{ stateSnapshots: 0, keptStateSnapshots: 0, serving: 0, spares: 0, missingSpares: 0, savedBytes: 0 },
    ...{ slots: 0, stepTokens: 0, executors: 0, stepAgeMs: 0 },
  };
  const rows = Object.entries(MODEL_METRICS).filter(([, row]) => 'by' in row);
  expect(rows.length).toBeGreaterThan(15);
  for (const [i, [field, { name }]] of rows.entries()) {
    expect(counts).toHaveProperty(field, 0);
    const metrics = new Metrics(
      [{ ...counts, [field]: i + 1 }, counts].map((one, model) => ({
        name: `m${model}`,
        counts: () => one,
        grammars: () => ({ engineBytes: 0, grammarBytes: 0, grammars: 0, evictions: 0 }),
        idleUnloader: () => ({ isUnloaded: false, counters: { loads: 0, unloads: 0 } }),
        admits: () => true,
        waitsForLoad: () => false,
      })),
    );
    const lines = (await metrics.registry.metrics()).split('\n');
    expect(lines).toContain(`rocmforge_${name}{model_name="m0"} ${i + 1}`);
    expect(lines).toContain(`rocmforge_${name}{model_name="m1"} 0`);
  }
});
