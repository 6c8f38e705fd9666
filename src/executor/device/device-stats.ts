import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type GpuPlatform, loadAddon } from './addon.js';

/** Sensor values of a GPU. A value that this machine does not report is absent. */
export interface DeviceStats {
  readonly temperatureC?: number;
  readonly powerW?: number;
  /** Utilization of the compute units. */
  readonly clockMhz?: number;
  /** True if clocks are held down by heat or power. */
  readonly throttled?: boolean;
}

/**
 * NVIDIA's management library, or the amdgpu driver's files in sysfs, which AMD's libraries read too: their names and units
 * are the kernel's stable interface, while structures of rocm_smi and amdsmi differ from version to version.
 *
 * @param pciBusId such as `0000:03:00.0`
 * @param sys for tests: another root of sysfs
 */
export function readDeviceStats(platform: GpuPlatform, pciBusId: string, sys = '/sys'): DeviceStats {
  return platform === 'cuda' ? loadAddon().nvmlStats(pciBusId) : hwmonStats(pciBusId, sys);
}

/**
 * Bytes of the driver's `gpu_metrics` file, and where `throttle_status` lies in it, by the revision of its content; those of format 1,
 * which all but APUs have. From 1.6 on there are counters in its place (Linux, drivers/gpu/drm/amd/include/kgd_pp_interface.h).
 */
const THROTTLE_STATUS = new Map([
  [1, { bytes: 96, at: 68 }],
  [2, { bytes: 104, at: 68 }],
  [3, { bytes: 120, at: 68 }],
  [4, { bytes: 288, at: 40 }],
  [5, { bytes: 360, at: 104 }],
]);
/** Value that the driver writes for a sensor that a card does not have. */
const UNTOLD = 0xffff_ffff;

/** A bit of the status for each reason, heat or power: which bit is a card's own affair. */
function throttledOf(device: string): boolean | undefined {
  let metrics: Buffer;
  try {
    metrics = readFileSync(path.join(device, 'gpu_metrics'));
  } catch {
    // Older drivers and others than amdgpu.
    return undefined;
  }
  // u16 size, u8 format, u8 content.
  const table = metrics.length >= 4 && metrics[2] === 1 ? THROTTLE_STATUS.get(metrics[3] as number) : undefined;
  // A table of another size has another layout, whatever its revision says.
  if (table === undefined || metrics.length < table.bytes || metrics.readUInt16LE(0) !== table.bytes) return undefined;
  const status = metrics.readUInt32LE(table.at);
  return status === UNTOLD ? undefined : status !== 0;
}

function hwmonStats(pciBusId: string, sys: string): DeviceStats {
  const device = path.join(sys, 'bus', 'pci', 'devices', pciBusId.toLowerCase());
  const throttled = throttledOf(device);
  return { ...sensorsOf(path.join(device, 'hwmon')), ...(throttled !== undefined && { throttled }) };
}

function sensorsOf(root: string): DeviceStats {
  let monitor: string | undefined;
  try {
    monitor = readdirSync(root)[0];
  } catch {
    return {};
  }
  const read = (...names: readonly string[]): number | undefined => {
    for (const name of names) {
      try {
        return Number(readFileSync(path.join(root, monitor ?? '', name), 'utf8'));
      } catch {
        // Not every card has every file.
      }
    }
    return undefined;
  };
  // Millidegrees of the junction, else of the edge; microwatts; hertz of the shader clock.
  const [heat, power, clock] = [
    read('temp2_input', 'temp1_input'),
    read('power1_average', 'power1_input'),
    read('freq1_input'),
  ];
  return {
    ...(heat !== undefined && { temperatureC: heat / 1000 }),
    ...(power !== undefined && { powerW: power / 1e6 }),
    ...(clock !== undefined && { clockMhz: Math.round(clock / 1e6) }),
  };
}
