import { type Device, DeviceScope } from '../../executor/device/device.js';
import { readWords } from '../../executor/kernels/index.js';
import { LaunchPlanRecorder, runOnce } from '../../executor/kernels/launch-plan.js';
import type { Weights } from '../../executor/model/weights.js';

const PARTS = 1024;
/** Larger than any processor's last-level cache. */
const MOST_READ_BYTES = 1 << 30;

/** Bytes a second at which the device's threads read the weights, or on a GPU any memory, and do nothing else. */
export async function readBandwidth(device: Device, weights: Pick<Weights, 'onHost'>): Promise<number> {
  const scope = new DeviceScope(device);
  const count = Math.floor((device.isHost ? Math.min(weights.onHost.bytes, MOST_READ_BYTES) : MOST_READ_BYTES) / 4);
  const words = device.isHost
    ? ({ address: weights.onHost.address, dtype: 'i32', elements: count } as const)
    : scope.allocate('i32', count);
  const y = scope.allocate('i32', PARTS);
  const recorder = new LaunchPlanRecorder(device, 0);
  recorder.launch(readWords, { words, y, count, part: 4 * Math.ceil(count / PARTS / 4) }, { parts: PARTS });
  const plan = scope.plan(recorder.finish());
  let best = 0;
  for (let i = 0; i < 3; i++) {
    const microseconds = await runOnce(device, plan);
    best = Math.max(best, (count * 4) / (microseconds / 1e6));
  }
  scope.release();
  return best;
}
