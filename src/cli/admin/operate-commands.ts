import type { Command } from 'commander';
import { LOG_LEVELS } from '../../shared/log-levels.js';
import { flagOrFalse, option, preset, required } from '../../shared/option-table.js';
import { address, byteCount, text, texts, wholeNumber } from '../../shared/option-types.js';
import { addOptions } from '../common/options.js';

const JSON_OPTION = { json: flagOrFalse('print JSON') };

export const PULL_OPTIONS = {
  list: flagOrFalse('list the quantizations, their sizes and the memory they leave on each GPU'),
  memory: option(
    '<bytes>',
    byteCount,
    'with --list: free memory of an assumed GPU, such as 24GiB (default: each GPU of this machine)',
  ),
  ...JSON_OPTION,
};

const AS_OF_SERVE = option('<count>', wholeNumber(1), 'as of serve');
export const ADMIN_OPTIONS = {
  address: required('<address>', address, 'unix:PATH of its --admin-listen'),
  logLevel: option('<level>', LOG_LEVELS, 'log level of the gateway, and of executors started from now on'),
  maxQueuedRequests: AS_OF_SERVE,
  maxQueuedTokens: AS_OF_SERVE,
  maxQueuedRequestsPerPeer: AS_OF_SERVE,
  replaceExecutors: flagOrFalse('replace one executor after the other; streams continue'),
  unloadModel: option(
    '<names...>',
    texts,
    'reject a model’s new requests, finish those in progress, and end its executors',
  ),
  loadModel: option('<names...>', texts, 'load an unloaded model and accept its requests'),
  models: flagOrFalse('print the models and their states instead of the settings'),
  ...JSON_OPTION,
};

export const STATE_DIR = option('<folder>', text, 'folder of the latest faults (default: ~/.local/state/rocmforge)');
const REPORT_OPTIONS = {
  admin: option(
    '<address>',
    text,
    'unix:PATH of the --admin-listen of a running gateway, to include its options, settings and metrics',
  ),
  stateDir: STATE_DIR,
  output: preset('<file>', text, '-', 'file to create; - is stdout', { short: '-o' }),
};

/** `pull`, `admin` and `report`. */
export function addOperateCommands(program: Command): void {
  addOptions(program.command('pull'), PULL_OPTIONS)
    .description('download a model from Hugging Face’s hub into its shared cache, and print its path')
    .argument(
      '<model>',
      'hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]; HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE apply',
    )
    .action(async (model, options) => {
      const { pull } = await import('../hub/pull-command.js');
      await pull(model, options);
    });

  addOptions(program.command('admin'), ADMIN_OPTIONS)
    .description(
      'operate a running gateway: print and change its settings, load and unload its models, replace its executors',
    )
    .action(async (options) => {
      const { admin } = await import('./admin.js');
      await admin(options);
    });

  addOptions(program.command('report'), REPORT_OPTIONS)
    .description('write a diagnostic report without prompts and secrets')
    .action(async (options) => {
      const [{ report }, { defaultStateFolder }] = await Promise.all([
        import('./report.js'),
        import('../../shared/fault-log.js'),
      ]);
      await report({ ...options, stateDir: options.stateDir ?? defaultStateFolder() });
    });
}
