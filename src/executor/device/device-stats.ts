import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { type GpuPlatform, loadAddon } from './addon.js';

/** How a GPU fares. Absent is what this machine does not tell. */
export interface DeviceStats {
  readonly temperatureC?: number;
  readonly powerW?: number;
  /** Of the compute units. */
  readonly clockMhz?: number;
  /** Whether clocks are held down by heat or power. */
  readonly throttled?: boolean;
}

/**
 * NVIDIA's management library, or the amdgpu driver's hwmon files, which AMD's libraries read too: their names and units
 * are the kernel's stable interface, while structures of rocm_smi and amdsmi differ from version to version.
 *
 * @param pciBusId such as `0000:03:00.0`
 * @param sys for tests: another root of sysfs
 */
export function readDeviceStats(platform: GpuPlatform, pciBusId: string, sys = '/sys'): DeviceStats {
  return platform === 'cuda' ? loadAddon().nvmlStats(pciBusId) : hwmonStats(pciBusId, sys);
}

function hwmonStats(pciBusId: string, sys: string): DeviceStats {
  const root = path.join(sys, 'bus', 'pci', 'devices', pciBusId.toLowerCase(), 'hwmon');
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
