import { setImmediate } from 'node:timers/promises';
import { LineSplitter } from '../../shared/line-splitter.js';
import { decodeRehearsal, type Rehearsal } from '../../shared/rehearsal.js';
import type { Device } from '../device/device.js';
import { verifyKernels } from '../load/kernel-files.js';
import type { DevicesOptions } from '../load/open-device.js';
import { prepareDriver } from '../load/prepared-driver.js';
import { type LoadingProcess, loadOptionsOf } from './load-request.js';
import { rehearse } from './rehearsal.js';

interface StandByOptions extends LoadingProcess {
  readonly device: DevicesOptions;
}

/**
 * Waits until the process that started this one writes an empty line to stdin. What it writes before that is the load to rehearse.
 *
 * @returns names of the kernels that the load takes, as far as they are known
 */
export function standBy(options: StandByOptions): Promise<readonly string[]> {
  prepareDriver(options.device);
  return new Promise((resolve) => {
    let kernels: readonly string[] = [];
    let isOver = false;
    const practise = async ({ load, target }: Rehearsal): Promise<void> => {
      const { device } = options;
      const devices = { target, count: device.gpus?.length ?? 1 };
      try {
        verifyKernels(device, target);
        kernels = await rehearse(loadOptionsOf(load, options), devices, () => isOver);
      } catch {
        // The load itself is due, or fails the same way and says so.
      }
    };
    const lines = new LineSplitter((line) => {
      if (line !== '') {
        void practise(decodeRehearsal(line));
        return;
      }
      isOver = true;
      resolve(kernels);
    });
    process.stdin.on('data', (bytes: Buffer) => lines.push(bytes));
  });
}

/** Loads code objects while the gateway connects. What goes wrong is reported when they are launched. */
export async function loadKernels(devices: readonly Device[], names: readonly string[]): Promise<void> {
  for (const name of names) {
    await setImmediate();
    for (const device of devices) device.hasKernel({ name });
  }
}
