import { Gauge, type Registry } from 'prom-client';
import type { GetDeviceStatsResponse } from '../shared/generated/rocmforge/executor/v1/executor.js';

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
 * Tells of devices, asked when metrics are asked for: each of a replica by its place, and absent where its executor does not
 * answer or nobody there knows.
 *
 * @param replicas the labels of each; default: their places alone
 */
export function watchDevices(
  registry: Registry,
  read: () => Promise<readonly (DeviceState | undefined)[]>,
  replicas: readonly ReplicaLabels[] = [],
): void {
  // One asking is for all of them.
  let asked: Promise<readonly (DeviceState | undefined)[]> | undefined;
  const states = () => {
    asked ??= read().finally(() =>
      setImmediate(() => {
        asked = undefined;
      }),
    );
    return asked;
  };
  const gauge = (name: string, help: string, value: (state: DeviceState) => number | undefined): void => {
    new Gauge({
      name: `rocmforge_device_${name}`,
      help,
      labelNames: [...Object.keys(replicas[0] ?? { replica: '' }), 'device'],
      registers: [registry],
      async collect() {
        const now = await states();
        this.reset();
        for (const [i, state] of now.entries()) {
          const told = state && value(state);
          if (told !== undefined)
            this.set({ ...(replicas[i] ?? { replica: String(i) }), device: state?.device ?? '' }, told);
        }
      },
    });
  };
  gauge('info', 'What the replica computes on, in its label `device`', () => 1);
  gauge('memory_used_bytes', 'Device memory that the executor has taken', ({ usedBytes }) => usedBytes);
  gauge('memory_total_bytes', 'Device memory in all', ({ totalBytes }) => totalBytes);
  gauge(
    'temperature_celsius',
    'Temperature of the hottest sensor that the driver reports',
    ({ temperatureC }) => temperatureC,
  );
  gauge('power_watts', 'Power that the device takes', ({ powerW }) => powerW);
  gauge('clock_hertz', 'Clock of the compute units', ({ clockMhz }) => clockMhz && clockMhz * 1e6);
  gauge('throttled', '1 while clocks are held down by heat or power', ({ throttled }) =>
    throttled === undefined ? undefined : Number(throttled),
  );
}

/** Device statistics of an executor. Memory of the host is not the device's own. */
export function deviceState(stats: GetDeviceStatsResponse | undefined): DeviceState | undefined {
  if (stats === undefined) return undefined;
  const { usedBytes, totalBytes, ...others } = stats;
  return { ...others, ...(totalBytes > 0n && { usedBytes: Number(usedBytes), totalBytes: Number(totalBytes) }) };
}
