import type { Registry } from 'prom-client';
import type { GetDeviceStatsResponse } from '../shared/generated/rocmforge/executor/v1/executor.js';
import { DEVICE_METRICS } from '../shared/metric-table.js';
import { watchMetrics } from './registered-metrics.js';

/** Sensor values of a device; those that its machine does not report are absent. Memory is absent where it is the host's. */
export interface DeviceState {
  readonly device: string;
  readonly usedBytes?: number | undefined;
  readonly totalBytes?: number | undefined;
  readonly temperatureC?: number | undefined;
  readonly powerW?: number | undefined;
  readonly clockMhz?: number | undefined;
  readonly throttled?: boolean | undefined;
}

/** The labels of a replica: its place among those of its model, and of several models which. */
export type ReplicaLabels = Readonly<Record<'replica' | 'model_name', string>> | Readonly<Record<'replica', string>>;

/**
 * Registers sensor values of devices, read once per scrape: those of each replica, and none where its executor does not answer.
 *
 * @param replicas the labels of each; default: their places alone
 */
export function watchDevices(
  registry: Registry,
  read: () => Promise<readonly (DeviceState | undefined)[]>,
  replicas: readonly ReplicaLabels[] = [],
): void {
  watchMetrics(registry, DEVICE_METRICS, 'model_name' in (replicas[0] ?? {}), async () =>
    (await read()).flatMap((state, i) => {
      if (state === undefined) return [];
      const { device, clockMhz, throttled, ...sensors } = state;
      const clockHz = clockMhz && clockMhz * 1e6;
      const values = {
        ...sensors,
        info: 1,
        clockHz,
        throttled: throttled === undefined ? undefined : Number(throttled),
      };
      return [[{ ...(replicas[i] ?? { replica: String(i) }), device }, values]];
    }),
  );
}

/** Device statistics of an executor. Memory of the host is not the device's own. */
export function deviceState(stats: GetDeviceStatsResponse | undefined): DeviceState | undefined {
  if (stats === undefined) return undefined;
  const { usedBytes, totalBytes, ...others } = stats;
  return { ...others, ...(totalBytes > 0n && { usedBytes: Number(usedBytes), totalBytes: Number(totalBytes) }) };
}
