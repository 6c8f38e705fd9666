import { Argument, Command, CommanderError } from 'commander';
import { asRocmForgeError, RocmForgeError } from '../shared/errors.js';
import { logLevel, preferLevel } from '../shared/log-levels.js';
import type { OptionValues } from '../shared/option-table.js';
import { packageVersion } from '../shared/package.js';
import { addOperateCommands } from './admin/operate-commands.js';
import { addBenchCommands, BENCH_OPTIONS } from './bench/bench-commands.js';
import { DEMO_OPTIONS, DOCTOR_OPTIONS, INSPECT_OPTIONS, SYNTH_OPTIONS, VERIFY_OPTIONS } from './command-options.js';
import { watchOutput } from './common/closed-output.js';
import { completionScript, SHELLS } from './common/completion.js';
import { addOptions } from './common/options.js';
import { writeJson, writeNotice, writeText } from './common/output.js';
import { limitError } from './common/system-limits.js';
import { checkUsage } from './common/usage.js';
import { addExecutorCommands } from './executor-commands.js';
import { addTextCommands } from './generate/text-commands.js';
import { addServeCommand } from './serve/serve-command.js';

// Each command imports its own code: `inspect` needs no gRPC, and an executor no tokenizer.

const program = new Command('rocmforge')
  .description('LLM inference over gRPC and HTTP on AMD GPUs, NVIDIA Hopper and CPUs')
  .version(packageVersion)
  // `bench serve` has options of the same names as `bench`; each command takes those that follow it.
  .enablePositionalOptions();

addServeCommand(program.command('serve'));
addExecutorCommands(program);

program
  .command('token')
  .description('create a bearer token (API key): the token goes to stderr, its line for serve --token-file to stdout')
  .argument('<name>', 'client name')
  .action(async (name) => {
    const { newToken } = await import('../gateway/trust/tokens.js');
    const { token, line } = newToken(name);
    // Apart, so that `token NAME >> FILE` makes a file for serve.
    writeNotice(`${token}\n`);
    writeText(`${line}\n`);
  });

addOptions(program.command('demo'), DEMO_OPTIONS)
  .description('generate a story with the small model of the package')
  .action(async (options: OptionValues<typeof DEMO_OPTIONS>) => {
    // Executors are killed on purpose.
    preferLevel(options.page ? 'fatal' : 'warn');
    if (options.page) {
      const { demoPage } = await import('./generate/demo-page.js');
      await demoPage(options);
      return;
    }
    const { demo } = await import('./generate/demo.js');
    await demo(options);
  });

addTextCommands(program);

const benchCommand = addOptions(program.command('bench'), BENCH_OPTIONS)
  .description('benchmark a model on this machine: in the executor, and as a gRPC client sees it')
  .action(async ({ model, ...options }: OptionValues<typeof BENCH_OPTIONS>) => {
    // Not by the parser, which would ask `bench serve` for it.
    if (model === undefined) throw new RocmForgeError('INVALID_OPTION', '--model is required');
    preferLevel('warn');
    const { bench } = await import('./bench/bench.js');
    await bench({ ...options, model });
  });

addBenchCommands(benchCommand);

addOptions(program.command('verify'), VERIFY_OPTIONS)
  .description('verify a device: its results against llama.cpp’s, and that they repeat')
  .action(async (options: OptionValues<typeof VERIFY_OPTIONS>) => {
    if (options.speed) {
      const { formatSpeed, speedBesidePrediction } = await import('./verify/speed-beside.js');
      const report = await speedBesidePrediction(options);
      if (options.json) writeJson(report, 2);
      else writeText(formatSpeed(report));
      return;
    }
    // An executor is killed on purpose; what is logged of that is nobody's news.
    preferLevel('fatal');
    const { verify } = await import('./verify/verify.js');
    await verify(options);
  });

addOptions(program.command('synth'), SYNTH_OPTIONS)
  .description('write a GGUF file with the shape of a real model and random weights, without a chat template')
  .action(async (options: OptionValues<typeof SYNTH_OPTIONS>) => {
    const { synth } = await import('./synth/synth.js');
    const bytes = synth(options);
    writeText(`${options.output}: ${bytes} bytes\n`);
  });

addOptions(program.command('inspect'), INSPECT_OPTIONS)
  .description('describe a model and whether it loads, or with --fit how much of its context fits on a GPU')
  .argument(
    '<model>',
    'GGUF file, of a split model the first part; or hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION], of which only headers are read',
  )
  .action(async (model: string, options: OptionValues<typeof INSPECT_OPTIONS>) => {
    const { inspect } = await import('./inspect/inspect-command.js');
    await inspect(model, options);
  });

addOptions(program.command('doctor'), DOCTOR_OPTIONS)
  .description('check this installation: GPU, driver, kernels and the latest faults')
  .action(async (options: OptionValues<typeof DOCTOR_OPTIONS>) => {
    const [{ examine }, { formatFindings }, { formatReport, thisIdentity }] = await Promise.all([
      import('./doctor/doctor.js'),
      import('./doctor/finding.js'),
      import('./doctor/report.js'),
    ]);
    const findings = await examine(options.stateDir);
    const text = options.report ? formatReport(findings, thisIdentity()) : formatFindings(findings);
    if (options.json) writeJson(findings, 2);
    else writeText(`${text}\n`);
    if (findings.some(({ state }) => state === 'failed')) process.exitCode = 1;
  });

addOperateCommands(program);

program
  .command('completion')
  .description('print a completion script: source <(rocmforge completion bash)')
  .addArgument(new Argument('<shell>', 'shell to complete in').choices(SHELLS))
  .action((shell) => {
    writeText(completionScript(shell, program));
  });

const TOKEN_HINT = 'Commands send the token in the environment variable ROCMFORGE_TOKEN to the gateway.\n';

/** Runs the command that the arguments of this process name. */
export async function run(): Promise<void> {
  checkUsage(program);
  watchOutput();
  let callsGateway = false;
  program.hook('preAction', (_, command) => {
    // A command may create its first logger long after it has begun, or in another process.
    logLevel();
    callsGateway = command.getOptionValue('address') !== undefined;
  });
  try {
    await program.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) throw error;
    const known = limitError(error) ?? asRocmForgeError(error);
    writeNotice(`rocmforge: ${known.reason}: ${known.message}\n`);
    // `serve --executor` presents a secret of its own to the executor, and the message names it.
    if (callsGateway && known.reason.startsWith('CREDENTIAL_')) writeNotice(TOKEN_HINT);
    if (known.reason === 'INTERNAL') writeNotice(`${(known.cause as Error)?.stack ?? ''}\n`);
    process.exit(1);
  }
}
