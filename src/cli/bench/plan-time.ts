import type { Device, DeviceScope } from '../../executor/device/device.js';
import { LaunchPlanRecorder } from '../../executor/kernels/launch-plan.js';
import { STEP_COUNTS } from '../../executor/model/step-counts.js';

const RUNS = 5;

/** Microseconds of what is recorded, many times in one graph: the best of several runs; and the kernels it launches. */
export async function timePlan(
  device: Device,
  memory: DeviceScope,
  counts: Int32Array,
  record: (plan: LaunchPlanRecorder) => void,
): Promise<{ readonly us: number; readonly kernels: string }> {
  const once = new LaunchPlanRecorder(device, STEP_COUNTS);
  record(once);
  const repeats = device.isHost ? 2 : 20;
  const plan = new LaunchPlanRecorder(device, STEP_COUNTS);
  for (let i = 0; i < repeats; i++) record(plan);
  const nothing = new Uint8Array(0);
  const step = { counts, recurring: true, input: nothing, deviceInput: 0, output: nothing, deviceOutput: 0 };
  const number = memory.plan(plan.finish());
  device.native.capture(number, counts);
  let best = Number.POSITIVE_INFINITY;
  for (let run = 0; run <= RUNS; run++) best = Math.min(best, await device.native.run({ ...step, plan: number }));
  const times = device.native.timeLaunches(memory.plan(once.finish()), counts);
  const launched = once.kernels.filter((_, i) => (times[i] as number) > 0);
  return { us: best / repeats, kernels: [...new Set(launched)].join(' + ') };
}
