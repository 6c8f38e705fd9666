import { expect, it } from 'vitest';
import { type DeviceState, watchDevices } from '../../src/gateway/device-metrics.js';
import { Metrics } from '../../src/gateway/metrics.js';
import type { ReplicaCounts } from '../../src/gateway/replica/replica-counts.js';
import { packageVersion } from '../../src/shared/package.js';

/** Counts of an engine that never ran. */
const NOTHING = new Proxy({} as ReplicaCounts, { get: () => 0 });
const NEVER_RUN = {
  name: 'm',
  counts: () => NOTHING,
  grammars: () => ({ engineBytes: 0, grammarBytes: 0, grammars: 0, evictions: 0 }),
  idleUnloader: () => ({ isUnloaded: false, counters: { loads: 0, unloads: 0 } }),
  admits: () => true,
  waitsForLoad: () => false,
};

async function linesOf(metrics: Metrics, pattern: RegExp): Promise<string[]> {
  return (await metrics.registry.metrics()).split('\n').filter((line) => pattern.test(line));
}

it('tells of each device by its replica, and of what is not known nothing', async () => {
  const metrics = new Metrics([NEVER_RUN]);
  let asked = 0;
  let states: (DeviceState | undefined)[] = [
    { device: 'GPU', usedBytes: 3, totalBytes: 4, temperatureC: 61.5, powerW: 212, clockMhz: 1500, throttled: true },
    { device: 'host', throttled: false },
    undefined,
  ];
  watchDevices(metrics.registry, async () => {
    asked += 1;
    return states;
  });
  expect(await linesOf(metrics, /^rocmforge_device/)).toEqual([
    'rocmforge_device_info{replica="0",device="GPU"} 1',
    'rocmforge_device_info{replica="1",device="host"} 1',
    'rocmforge_device_memory_used_bytes{replica="0",device="GPU"} 3',
    'rocmforge_device_memory_total_bytes{replica="0",device="GPU"} 4',
    'rocmforge_device_temperature_celsius{replica="0",device="GPU"} 61.5',
    'rocmforge_device_power_watts{replica="0",device="GPU"} 212',
    'rocmforge_device_clock_hertz{replica="0",device="GPU"} 1500000000',
    'rocmforge_device_throttled{replica="0",device="GPU"} 1',
    'rocmforge_device_throttled{replica="1",device="host"} 0',
  ]);
  expect(asked).toBe(1);
  await new Promise((resolve) => setImmediate(resolve));
  // An executor that is no more has no temperature.
  states = [undefined];
  expect(await linesOf(metrics, /^rocmforge_device/)).toEqual([]);
});

it('tells of Node by the names that its boards know, and of the build', async () => {
  const metrics = new Metrics([NEVER_RUN]);
  expect(
    await linesOf(metrics, /^(process_resident_memory_bytes|nodejs_heap_size_used_bytes|nodejs_version_info)/),
  ).toHaveLength(3);
  expect(await linesOf(metrics, /^rocmforge_(nodejs|process)_/)).toEqual([]);
  expect(await linesOf(metrics, /^rocmforge_build_info/)).toEqual([
    `rocmforge_build_info{version="${packageVersion}",node_version="${process.version}"} 1`,
  ]);
});
