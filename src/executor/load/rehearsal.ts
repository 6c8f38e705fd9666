import { setImmediate } from 'node:timers/promises';
import { ModelFiles } from '../../shared/gguf/model-files.js';
import { tensorBytes } from '../model/tensors.js';
import { UNREAD } from './counting-device.js';
import { countingGpu } from './fit.js';
import { verifyKernels } from './kernel-files.js';
import type { LoadOptions } from './load-options.js';
import { type LoadedModel, loadOpened } from './loaded-model.js';
import type { DevicesOptions } from './open-device.js';
import { selfTest } from './self-test.js';

/** Room beside the weights on the device that only counts. */
const ROOM_BYTES = 2 ** 36;

/**
 * Loads a model on devices that only count: V8 compiles for the load that follows, and the file's headers are in the system's cache.
 * For a process that waits to take over, because the time of its load is a pause of all streams.
 *
 * @param target of the kernels of each device
 * @param isOver true once the load itself is due: the rehearsal ends at the next tensor
 * @returns names of the kernels that the load takes; none where it failed, for reasons that the load itself will report
 */
export async function rehearseLoad(
  options: LoadOptions,
  { target, device }: { readonly target: string; readonly device: DevicesOptions },
  isOver: () => boolean,
): Promise<readonly string[]> {
  let files: ModelFiles | undefined;
  try {
    verifyKernels(device, target);
    files = new ModelFiles(options.path, options.openPaths, true);
    const { model } = files;
    const gpus = (device.gpus ?? [0]).map(() => countingGpu('', target, tensorBytes(model) + ROOM_BYTES).devices());
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
    const loaded = await loadOpened(gpus.flat(), opened, load, () => undefined);
    const kernels = kernelsOf(loaded);
    loaded.release();
    // It computes nothing: the test fails, compiled.
    for (const gpu of gpus.flat()) await selfTest(gpu).catch(() => undefined);
    return kernels;
  } catch {
    return [];
  } finally {
    files?.close();
  }
}

function kernelsOf({ pipeline, prediction }: LoadedModel): readonly string[] {
  const passes = [...pipeline.stages.map(({ forward }) => forward), ...(prediction ? [prediction.forward] : [])];
  return [...new Set(passes.flatMap(({ kernels }) => kernels))];
}
