import type { Device } from './device.js';
import type { DeviceStats } from './device-stats.js';

/** Joined names of the devices that a model is split over. */
export function describeDevices(devices: readonly Device[]): string {
  return devices.map(({ description }) => description).join(' + ');
}

/** Joint sensor values: the hottest temperature, the total power, the lowest clock. */
export function statsOf(devices: readonly Device[]): DeviceStats {
  const stats = devices.map((device) => device.stats());
  const known = (name: 'temperatureC' | 'powerW' | 'clockMhz'): number[] =>
    stats.flatMap(({ [name]: value }) => (value === undefined ? [] : [value]));
  const [heat, power, clock] = [known('temperatureC'), known('powerW'), known('clockMhz')];
  const throttled = stats.flatMap((one) => (one.throttled === undefined ? [] : [one.throttled]));
  return {
    ...(heat.length > 0 && { temperatureC: Math.max(...heat) }),
    ...(power.length > 0 && { powerW: power.reduce((sum, one) => sum + one, 0) }),
    ...(clock.length > 0 && { clockMhz: Math.min(...clock) }),
    ...(throttled.length > 0 && { throttled: throttled.includes(true) }),
  };
}
