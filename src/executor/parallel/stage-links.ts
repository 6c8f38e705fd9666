import type { NativeLink } from '../device/addon.js';
import type { Device, DeviceBuffer, DeviceScope } from '../device/device.js';
import type { Stage } from './model-devices.js';
import type { StageLinks } from './pipeline.js';

/** True if a device can copy to the memory of another one; from then on it may. */
export const reaches = (device: Device, other: Device): boolean => device.native.canReach(other.native);

/** Messages of each link between stages: while one is computed with, another arrives. */
export const RESIDUAL_MESSAGES = 2;
/** Messages of the link that goes back: those of all parts of steps that may be in flight. */
export const TOKEN_MESSAGES = 16;

/** Links each stage to the next, and the last to the first. */
export function linkStages(stages: readonly Stage[], scopes: readonly DeviceScope[]): StageLinks {
  const link = (from: number, to: number, bytes: number, messages: number, inTurn: boolean): NativeLink => {
    const [sender, receiver] = [stages[from] as Stage, stages[to] as Stage];
    const { receiveBuffers } = receiver.forward;
    const memory =
      receiveBuffers.length > 0 ? receiveBuffers.map(({ address }) => address) : Array<number>(messages).fill(0);
    const made = sender.device.native.linkTo(receiver.device.native, { memory, bytes, inTurn });
    return (scopes[to] as DeviceScope).link(made);
  };
  const { lastTokens } = (stages[0] as Stage).forward;
  const tokenBytes = 4 * (lastTokens as DeviceBuffer).elements;
  return {
    residuals: stages.slice(1).map(({ forward: { x } }, i) => link(i, i + 1, 4 * x.elements, RESIDUAL_MESSAGES, true)),
    tokens: link(stages.length - 1, 0, tokenBytes, TOKEN_MESSAGES, false),
  };
}
