import { loadAddon } from '../device/addon.js';
import type { DeviceOptions } from './open-device.js';

/**
 * Queues of a CUDA context: one for steps, and one for signals to a step that runs. A driver opens eight of each kind, which
 * take 30 ms more of the start of a process, and as many when a killed one ends. A user's own numbers stay.
 */
const CUDA_QUEUES = { CUDA_DEVICE_MAX_CONNECTIONS: '2', CUDA_DEVICE_MAX_COPY_CONNECTIONS: '2' };

/**
 * Loads the driver of NVIDIA's GPUs, a third of what opening one takes, and opens none. What goes wrong is reported when a device is
 * opened. AMD's driver was not measured.
 */
export function prepareDriver({ kind }: Pick<DeviceOptions, 'kind'>): void {
  if (kind !== 'cuda') return;
  limitQueues();
  try {
    loadAddon().probeGpu(kind);
  } catch {
    // Opening a device fails the same way, and says so.
  }
}

/** Sets how many queues a CUDA driver opens: before it is loaded, because it reads that once. */
export function limitQueues(): void {
  for (const [name, count] of Object.entries(CUDA_QUEUES)) process.env[name] ??= count;
}
