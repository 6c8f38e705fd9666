import os from 'node:os';
import { RocmForgeError } from '../../shared/errors.js';
import type { OptionValues } from '../../shared/option-table.js';
import type { PULL_OPTIONS } from '../admin/operate-commands.js';
import { formatBytes } from '../common/bytes.js';
import { writeJson, writeText } from '../common/output.js';
import { roomOnGpus } from '../inspect/fit.js';
import { formatModels, listModels, pullModel, type Room } from './pull.js';

export type PullCommandOptions = OptionValues<typeof PULL_OPTIONS>;

/** `rocmforge pull`: tells what there is, or brings one model here and writes its path. */
export async function pull(name: string, options: PullCommandOptions): Promise<void> {
  if (options.list) return printModels(name, options);
  try {
    const model = await pullModel(name);
    if (options.json) writeJson(model, 2);
    else writeText(`${model.path}\n`);
  } catch (error) {
    // An ambiguous choice is refused with the list of choices.
    if (error instanceof RocmForgeError && error.metadata.models !== undefined) await printModels(name, options);
    throw error;
  }
}

async function printModels(name: string, options: PullCommandOptions): Promise<void> {
  const models = await listModels(name);
  const rooms = options.memory === undefined ? roomHere() : [{ description: 'a GPU', freeBytes: options.memory }];
  if (options.json) {
    writeJson({ models, rooms }, 2);
    return;
  }
  writeText(formatModels(models, rooms));
  writeText(
    '\nSizes are those of the weights. After a pull, rocmforge inspect --fit shows which contexts and sequences fit.\n',
  );
}

/** The GPUs that can be used, else the memory that programs may have. */
function roomHere(): readonly Room[] {
  const gpus = roomOnGpus();
  if (gpus.length > 0) return gpus;
  return [{ description: `the ${formatBytes(os.totalmem())} of this machine`, freeBytes: os.freemem() }];
}
