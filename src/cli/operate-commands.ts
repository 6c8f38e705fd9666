import { type Command, Option } from 'commander';
import { LOG_LEVELS } from '../shared/log-levels.js';
import { byteCount, wholeNumber } from './options.js';

/** `pull`, `admin` and `report`. */
export function addOperateCommands(program: Command): void {
  program
    .command('pull')
    .description('bring a model from Hugging Face’s hub into the cache that Python shares, and write its path')
    .argument(
      '<model>',
      'hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION]; HF_TOKEN, HF_ENDPOINT, HF_HOME and HF_HUB_OFFLINE hold',
    )
    .option('--list', 'tell what there is, of which size, and what it leaves of each GPU', false)
    .addOption(
      new Option('--memory <bytes>', 'such as 24GiB: as if a GPU had so much free (default: each GPU here)').argParser(
        byteCount,
      ),
    )
    .option('--json', 'as JSON', false)
    .action(async (model, options) => {
      const { pull } = await import('./hub/pull-command.js');
      await pull(model, options);
    });

  program
    .command('admin')
    .description(
      'operate a running gateway: tell the settings that may change, change them, load and unload its models, replace its executors',
    )
    .requiredOption('--address <address>', 'unix:PATH of its --admin-listen')
    .addOption(
      new Option('--log-level <level>', 'of the gateway at once, of executors that it starts from then on').choices(
        LOG_LEVELS,
      ),
    )
    .addOption(new Option('--max-queued-requests <count>').argParser(wholeNumber(1, 2 ** 32 - 1)))
    .addOption(new Option('--max-queued-tokens <count>').argParser(wholeNumber(1, 2 ** 32 - 1)))
    .addOption(new Option('--max-queued-requests-per-peer <count>').argParser(wholeNumber(1, 2 ** 32 - 1)))
    .option(
      '--replace-executors',
      'end one executor after the other and start another in its place; streams go on',
      false,
    )
    .option('--unload-model <names...>', 'refuse a model’s new requests, wait for those under way, end its executors')
    .option('--load-model <names...>', 'load a model that is unloaded and admit its requests')
    .option('--models', 'tell the models and their states instead of the settings', false)
    .option('--json', 'as JSON', false)
    .action(async (options) => {
      const { admin } = await import('./admin.js');
      await admin(options);
    });

  program
    .command('report')
    .description('write what somebody needs who is to find out what is wrong: no prompts, no secrets')
    .option(
      '--admin <address>',
      'unix:PATH of a running gateway’s --admin-listen, for its options, settings and metrics',
    )
    .option('--state-dir <folder>', 'where gateways keep the last faults (default: ~/.local/state/rocmforge)')
    .option('-o, --output <file>', 'a file that is not there yet; - is stdout', '-')
    .action(async (options) => {
      const [{ report }, { defaultStateFolder }] = await Promise.all([
        import('./report.js'),
        import('../shared/fault-log.js'),
      ]);
      await report({ ...options, stateDir: options.stateDir ?? defaultStateFolder() });
    });
}
