import path from 'node:path';
import { Device } from '../../src/executor/device/device.js';
import { EmulatedDevice } from './emulated-device.js';
import { NotEmulated } from './emulator-process.js';
import { exceptionFor } from './exceptions.js';
import { EXECUTED_PREFIX, type ExecutedLine } from './executed.js';

export { NotEmulated };

const opened = new Map<string, EmulatedDevice>();

/** The device of a folder of code objects, whose name is that of the target. */
export function emulatedDevice(folder: string): Device {
  const native = new EmulatedDevice(folder);
  const target = path.basename(folder);
  opened.set(target, native);
  return new Device(native, 'host', 'emulated');
}

/** @throws NotEmulated for a launch that the list of exceptions covers */
export function refuseExceptions(kernel: string, target: string, values: object): void {
  const exception = exceptionFor(kernel, target, values);
  if (exception) throw new NotEmulated(`${exception.inputs}: ${exception.reason}`);
}

/** Prints what a target ran since the last call; nothing for a target that is not emulated. */
export function printExecuted(target: string): void {
  for (const [operation, executed] of opened.get(target)?.takeExecuted() ?? []) {
    console.log(EXECUTED_PREFIX + JSON.stringify({ operation, target, ...executed } satisfies ExecutedLine));
  }
}
