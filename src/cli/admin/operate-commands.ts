import { type Command, Option } from 'commander';
import { LOG_LEVELS } from '../../shared/log-levels.js';
import { address, byteCount, wholeNumber } from '../common/options.js';
import { REQUIRED } from '../common/usage.js';

/** `pull`, `admin` and `report`. */
export function addOperateCommands(program: Command): void {
  program
    .command('pull')
    .description('download a model from Hugging Face’s hub into its shared cache, and print its path')
    .argument(
      '<model>',
      'hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]; HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE apply',
    )
    .option('--list', 'list the quantizations, their sizes and the memory they leave on each GPU', false)
    .addOption(
      new Option(
        '--memory <bytes>',
        'with --list: free memory of an assumed GPU, such as 24GiB (default: each GPU of this machine)',
      ).argParser(byteCount),
    )
    .option('--json', 'print JSON', false)
    .action(async (model, options) => {
      const { pull } = await import('../hub/pull-command.js');
      await pull(model, options);
    });

  program
    .command('admin')
    .description(
      'operate a running gateway: print and change its settings, load and unload its models, replace its executors',
    )
    .addOption(
      new Option('--address <address>', 'unix:PATH of its --admin-listen').argParser(address).helpGroup(REQUIRED),
    )
    .addOption(
      new Option('--log-level <level>', 'log level of the gateway, and of executors started from now on').choices(
        LOG_LEVELS,
      ),
    )
    .addOption(new Option('--max-queued-requests <count>', 'as of serve').argParser(wholeNumber(1, 2 ** 32 - 1)))
    .addOption(new Option('--max-queued-tokens <count>', 'as of serve').argParser(wholeNumber(1, 2 ** 32 - 1)))
    .addOption(
      new Option('--max-queued-requests-per-peer <count>', 'as of serve').argParser(wholeNumber(1, 2 ** 32 - 1)),
    )
    .option('--replace-executors', 'replace one executor after the other; streams continue', false)
    .option(
      '--unload-model <names...>',
      'reject a model’s new requests, finish those in progress, and end its executors',
    )
    .option('--load-model <names...>', 'load an unloaded model and accept its requests')
    .option('--models', 'print the models and their states instead of the settings', false)
    .option('--json', 'print JSON', false)
    .action(async (options) => {
      const { admin } = await import('./admin.js');
      await admin(options);
    });

  program
    .command('report')
    .description('write a diagnostic report without prompts and secrets')
    .option(
      '--admin <address>',
      'unix:PATH of the --admin-listen of a running gateway, to include its options, settings and metrics',
    )
    .option('--state-dir <folder>', 'folder of the latest faults (default: ~/.local/state/rocmforge)')
    .option('-o, --output <file>', 'file to create; - is stdout', '-')
    .action(async (options) => {
      const [{ report }, { defaultStateFolder }] = await Promise.all([
        import('./report.js'),
        import('../../shared/fault-log.js'),
      ]);
      await report({ ...options, stateDir: options.stateDir ?? defaultStateFolder() });
    });
}
