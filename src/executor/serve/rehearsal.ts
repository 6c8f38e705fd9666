import { setImmediate } from 'node:timers/promises';
import { ExecuteRequest, SlotAppend, SlotOpen } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { ModelFiles } from '../../shared/gguf/model-files.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../shared/sampling-schema.js';
import type { Device } from '../device/device.js';
import { UNREAD } from '../load/counting-device.js';
import { countingGpu } from '../load/fit.js';
import type { LoadOptions } from '../load/load-options.js';
import { type LoadedModel, loadOpened } from '../load/loaded-model.js';
import { selfTest } from '../load/self-test.js';
import { tensorBytes } from '../model/tensors.js';
import { StepRunner } from '../steps/step-runner.js';

/** Room beside the weights on the device that only counts. */
const ROOM_BYTES = 2 ** 36;
const STEPS = 12;

/** Devices that are to be loaded. */
export interface RehearsedDevices {
  /** Target of the kernels of each. */
  readonly target: string;
  readonly count: number;
}

/**
 * Loads a model on devices that only count, and runs steps there: V8 compiles for what follows, and the file's headers are in the
 * system's cache. For a process that waits to take over, because the time of its load and of its first steps is a pause of all streams.
 *
 * @param isOver true once the load or a step itself is due: the rehearsal ends at the next tensor or step
 * @returns names of the kernels that the load takes
 * @throws RocmForgeError of the loader; Error if the load itself is due
 */
export async function rehearse(
  options: LoadOptions,
  { target, count }: RehearsedDevices,
  isOver: () => boolean,
): Promise<readonly string[]> {
  const files = new ModelFiles(options.path, options.openPaths, true);
  try {
    const { model } = files;
    const room = tensorBytes(model) + ROOM_BYTES;
    const devices = Array.from({ length: count }, () => countingGpu('', target, room).devices()).flat();
    const content = {
      ...UNREAD,
      read: async () => {
        await setImmediate();
        if (isOver()) throw new Error('the load itself is due');
        return 0n;
      },
    };
    const opened = { model, content, fingerprint: files.identity() };
    // The place of experts changes little of what is compiled, and takes seconds to find.
    const load = { ...options, cpuExperts: 0, deviceMemoryBytes: 0, savedMemory: undefined };
    const loaded = await loadOpened(devices, opened, load, () => undefined);
    try {
      // A device that counts computes nothing: the test fails, compiled.
      for (const device of devices) await selfTest(device).catch(() => undefined);
      await rehearseSteps(devices[0] as Device, loaded, isOver);
      return kernelsOf(loaded);
    } finally {
      loaded.release();
    }
  } finally {
    files.close();
  }
}

function kernelsOf({ pipeline, prediction }: LoadedModel): readonly string[] {
  const passes = [...pipeline.stages.map(({ forward }) => forward), ...(prediction ? [prediction.forward] : [])];
  return [...new Set(passes.flatMap(({ kernels }) => kernels))];
}

/** Steps as after a recovery: all sequences go on, and their blocks have checksums. */
async function rehearseSteps(device: Device, model: LoadedModel, isOver: () => boolean): Promise<void> {
  const { maxSequences, kvBlocks, windowed } = model.forward.limits;
  const runner = new StepRunner(device, model, 1n);
  const count = Math.min(maxSequences, kvBlocks - 1, windowed === undefined ? maxSequences : windowed.blocks - 1);
  const slots = Array.from({ length: count }, (_, slot) => slot);
  const words = (word: (slot: number) => number): Buffer => Buffer.from(Uint32Array.from(slots, word).buffer);
  const blocks = words((slot) => 1 + slot);
  const blockOf = (slot: number) => blocks.subarray(4 * slot, 4 * slot + 4);
  const windowBlocks = windowed === undefined ? [] : [...slots];
  const opened = {
    opens: slots.map((slot) => ({
      ...SlotOpen.create(),
      ...{ slot, tokenIds: Buffer.from(Uint32Array.of(1).buffer), promptTokens: 1, blockIds: blockOf(slot) },
      sampling: encodeSampling(NEUTRAL_SAMPLING),
    })),
    appends: windowBlocks.map((slot) => ({ ...SlotAppend.create(), slot, windowBlockIds: blockOf(slot) })),
  };
  const checksums = {
    checksumBlocks: blocks,
    ...(windowed && { checksumWindowBlocks: blocks }),
    ...(model.checksums.sumsRows && { openBlocks: blocks, openRows: words(() => 1) }),
    ...(model.checksums.sumsRows && windowed && { openWindowBlocks: blocks }),
  };
  for (let position = 0; position < STEPS && !isOver(); position++) {
    await runner.submit({
      ...ExecuteRequest.create(),
      ...{ stepId: BigInt(1 + position), epoch: 1n, ...checksums, ...(position === 0 && opened) },
      slices: slots.map((slot) => ({ slot, position, count: 1, sample: true, promptLogprobs: false })),
    });
  }
}
