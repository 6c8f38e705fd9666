import type { DeviceBuffer } from '../device/device.js';
import * as kernels from '../kernels/index.js';
import type { LaunchPlanRecorder, Rows } from '../kernels/launch-plan.js';
import type { Activated } from '../model/values.js';

/** y, `[rows, columns]`, becomes its activation. */
export function activate(
  plan: LaunchPlanRecorder,
  activation: Activated['activation'],
  y: DeviceBuffer,
  columns: number,
  { count: rows }: Rows,
): void {
  const input = { y, columns };
  if (activation === 'none') return;
  if (activation === 'relu-squared') plan.launch(kernels.reluSquared, input, { rows });
  else if (activation === 'tanh') plan.launch(kernels.softcap, { x: y, columns, cap: 1 }, { rows });
  else if (activation === 'gelu') plan.launch(kernels.gelu, input, { rows });
  else {
    const { alphaN, alphaP, beta, eps } = activation;
    plan.launch(kernels.xielu, { ...input, alpha_n: alphaN, alpha_p: alphaP, beta, eps }, { rows });
  }
}
