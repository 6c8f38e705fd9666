import { setImmediate } from 'node:timers/promises';
import { ModelFiles } from '../../lib/gguf/model-files.js';
import {
  ExecuteRequest,
  ExecuteResponse,
  SlotAppend,
  SlotOpen,
} from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling, NEUTRAL_SAMPLING } from '../../shared/sampling-schema.js';
import type { Device } from '../device/device.js';
import { UNREAD } from '../load/counting-device.js';
import { countingGpu } from '../load/fit.js';
import type { LoadOptions } from '../load/load-options.js';
import { type LoadedModel, loadOpened } from '../load/loaded-model.js';
import { selfTest } from '../load/self-test.js';
import { blocksFor } from '../model/slot-layout.js';
import { tensorBytes } from '../model/tensors.js';
import { StepRunner } from '../steps/step-runner.js';

/** Room beside the weights on the device that only counts. */
const ROOM_BYTES = 2 ** 36;
/** Tokens of each sequence, and steps behind them. */
const [PROMPT_TOKENS, STEPS] = [512, 12];

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

/** Steps as after a recovery: all sequences continue behind their tokens, and their blocks have checksums. */
async function rehearseSteps(device: Device, model: LoadedModel, isOver: () => boolean): Promise<void> {
  const { maxSequences, maxContext, kvBlocks, windowed, isRecurrent } = model.forward.limits;
  const runner = new StepRunner(device, model, 1n);
  const inOrder = windowed !== undefined || isRecurrent === true;
  const length = inOrder ? 1 : Math.max(1, Math.min(PROMPT_TOKENS, maxContext - STEPS));
  const each = blocksFor(length + STEPS);
  const count = Math.min(maxSequences, Math.floor((kvBlocks - 1) / each), (windowed?.blocks ?? kvBlocks) - 1);
  const slots = Array.from({ length: count }, (_, slot) => slot);
  const words = (length: number, word: (i: number) => number): Buffer =>
    Buffer.from(Uint32Array.from({ length }, (_, i) => word(i)).buffer);
  const blocks = words(count * each, (i) => 1 + i);
  const last = words(count, (slot) => (1 + slot) * each);
  const windowBlocks = windowed && words(count, (slot) => 1 + slot);
  const opened = {
    opens: slots.map((slot) => ({
      ...SlotOpen.create(),
      ...{ slot, tokenIds: words(length, () => 1), promptTokens: length },
      blockIds: words(each, (i) => 1 + slot * each + i),
      sampling: encodeSampling(NEUTRAL_SAMPLING),
    })),
    appends: slots.flatMap((slot) =>
      windowed === undefined ? [] : { ...SlotAppend.create(), slot, windowBlockIds: words(1, () => 1 + slot) },
    ),
  };
  const checksums = {
    checksumBlocks: blocks,
    ...(windowBlocks && { checksumWindowBlocks: windowBlocks }),
    ...(model.checksums.sumsRows && { openBlocks: last, openRows: words(count, () => 1) }),
    ...(model.checksums.sumsRows && windowBlocks && { openWindowBlocks: windowBlocks }),
  };
  for (let i = 0; i < STEPS && !isOver(); i++) {
    const position = length - 1 + i;
    const request = ExecuteRequest.encode({
      ...ExecuteRequest.create(),
      ...{ stepId: BigInt(1 + i), epoch: 1n, ...checksums, ...(i === 0 && opened) },
      slices: slots.map((slot) => ({ slot, position, count: 1, sample: true, promptLogprobs: false })),
    }).finish();
    ExecuteResponse.encode(await runner.submit(ExecuteRequest.decode(request))).finish();
    await setImmediate();
  }
}
