import { Argument, Command, CommanderError, Option } from 'commander';
import { asRocmForgeError } from '../shared/errors.js';
import { packageVersion } from '../shared/package.js';
import { addOperateCommands } from './admin/operate-commands.js';
import { addBenchCommands } from './bench/bench-commands.js';
import { watchOutput } from './common/closed-output.js';
import { completionScript, SHELLS } from './common/completion.js';
import {
  address,
  byteCount,
  checkSplit,
  cpuExpertsOption,
  deviceOptions,
  kvCacheTypeOption,
  kvCacheTypeOptionOf,
  modelOptions,
  oneExecutorSplitOptions,
  splitOptions,
  stateSnapshotsOption,
  testOptions,
  trustOptions,
  wholeNumber,
  wholeNumbers,
} from './common/options.js';
import { writeJson, writeNotice, writeText } from './common/output.js';
import { limitError } from './common/system-limits.js';
import { checkUsage, REQUIRED } from './common/usage.js';
import { addTextCommands, requireTarget } from './generate/text-commands.js';
import { addServeCommand, ignoreInspectorSignal } from './serve/serve-command.js';

// Each command imports its own code: `inspect` needs no gRPC, and an executor no tokenizer.

const program = new Command('rocmforge')
  .description('LLM inference as a gRPC microservice for AMD GPUs')
  .version(packageVersion)
  // `bench serve` has options of the same names as `bench`; each command takes those that follow it.
  .enablePositionalOptions();

/** A command with options that several share. */
function command(name: string, options: readonly Option[]): Command {
  const created = program.command(name);
  for (const option of options) created.addOption(option);
  return created;
}

addServeCommand(
  command('serve', [...modelOptions, ...deviceOptions, ...splitOptions, ...trustOptions, ...testOptions]),
);

const keeper = program.command('keeper', { hidden: true });
for (const option of [...deviceOptions, ...oneExecutorSplitOptions]) keeper.addOption(option);
keeper
  .description('keep weights and KV blocks in device memory for the executors of a gateway, which starts this command')
  .requiredOption('--listen <path>')
  .action(async ({ listen, device, gpu, gpus, kernels }) => {
    const { runKeeper } = await import('../executor/keeper/keeper.js');
    await runKeeper({ listen, device: { kind: device, gpu, gpus, kernels } });
  });

command('executor', [...deviceOptions, ...oneExecutorSplitOptions, ...testOptions])
  .description('run an executor without a gateway, for serve --executor on this or another machine')
  .addOption(
    new Option('--listen <address>', 'HOST:PORT or unix:PATH for the gateway').argParser(address).helpGroup(REQUIRED),
  )
  .optionsGroup('Access:')
  .option('--secret-file <file>', 'secret that gateways must present')
  .option('--tls-cert <file>', 'serve TLS with this certificate (PEM)')
  .option('--tls-key <file>', 'private key of --tls-cert (PEM)')
  .option('--tls-client-ca <file>', 'require gateway certificates signed by these authorities (PEM)')
  .option('--insecure', 'on a loopback address: accept any gateway, without a secret or TLS', false)
  .optionsGroup('Operation:')
  .addOption(
    new Option('--step-timeout-ms <ms>', 'least time (ms) before a step counts as hung in health checks')
      .argParser(wholeNumber(1))
      .default(2000),
  )
  .addOption(
    new Option('--lease-ms <ms>', 'time (ms) without a sign of its gateway after which another gateway may connect')
      .argParser(wholeNumber(1000))
      .default(10_000),
  )
  .addOption(new Option('--die-with-parent').hideHelp())
  .addOption(new Option('--fault-record <file>').hideHelp())
  .addOption(new Option('--model-fd <number>').argParser(wholeNumbers(0)).hideHelp())
  .addOption(new Option('--kept-memory-fd <number>').argParser(wholeNumber(0)).hideHelp())
  .addOption(new Option('--keeper <path>').hideHelp())
  .addOption(new Option('--has-spare').hideHelp())
  .action(async (options) => {
    ignoreInspectorSignal();
    checkSplit(options);
    const [{ runExecutor }, { parseFault }] = await Promise.all([
      import('../executor/main.js'),
      import('../executor/serve/fault-injection.js'),
    ]);
    await runExecutor({
      listen: options.listen,
      secretFile: options.secretFile,
      tlsCert: options.tlsCert,
      tlsKey: options.tlsKey,
      tlsClientCa: options.tlsClientCa,
      insecure: options.insecure,
      device: {
        ...{ kind: options.device, gpu: options.gpu, gpus: options.gpus },
        ...{ threads: options.threads, kernels: options.kernels },
      },
      split: options.split,
      shares: options.tensorSplit,
      attention: options.attention,
      dieWithParent: options.dieWithParent ?? false,
      faultRecord: options.faultRecord,
      modelDescriptors: options.modelFd,
      keptMemory: options.keptMemoryFd,
      keeper: options.keeper,
      hasSpare: options.hasSpare,
      stepTimeoutMs: options.stepTimeoutMs,
      leaseMs: options.leaseMs,
      stepDelayMs: options.stepDelayMs ?? 0,
      fault: options.plantFault && parseFault(options.plantFault),
    });
    // One that a gateway started is the gateway's, which tells of both.
    if (!options.dieWithParent) {
      const { notifyReady } = await import('./common/service-manager.js');
      notifyReady(`executor listening on ${options.listen}`);
    }
  });

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

command('demo', [...deviceOptions, kvCacheTypeOption])
  .description('generate a story with the small model of the package')
  .option('--prompt <text>', 'prompt', 'Tell me a story about a brave fox.')
  .option('--page', 'serve the chat page on this machine instead, with a button that kills the executor', false)
  .addOption(
    new Option('--port <port>', 'with --page: port on 127.0.0.1; 0 for any')
      .argParser(wholeNumber(0, 65_535))
      .default(8080),
  )
  .action(async (options) => {
    // Executors are killed on purpose.
    process.env.ROCMFORGE_LOG_LEVEL ??= options.page ? 'fatal' : 'warn';
    if (options.page) {
      const { demoPage } = await import('./generate/demo-page.js');
      await demoPage(options);
      return;
    }
    const { demo } = await import('./generate/demo.js');
    await demo(options);
  });

addTextCommands(command);

const benchCommand = command('bench', [...modelOptions, ...deviceOptions])
  .description('benchmark a model on this machine: in the executor, and as a gRPC client sees it')
  .optionsGroup('Benchmark:')
  .option('--model <file>', 'GGUF file (required)')
  .addOption(new Option('--prompt-tokens <count>', 'tokens of the prompt').argParser(wholeNumber(1)).default(128))
  .addOption(new Option('--tokens <count>', 'tokens to generate').argParser(wholeNumber(1)).default(64))
  .addOption(
    new Option('--repeats <count>', 'runs, of which the median is reported').argParser(wholeNumber(1)).default(3),
  )
  .option('--profile', 'print the time of each kernel in one decode step', false)
  .option('--json', 'print JSON', false)
  .action(async (options) => {
    requireTarget(options);
    const { bench } = await import('./bench/bench.js');
    await bench(options);
  });

addBenchCommands(benchCommand);

command('verify', deviceOptions)
  .description('verify a device: its results against llama.cpp’s, and that they repeat')
  .option('--model <file...>', 'GGUF files (default: the model of the package, with its parity file)')
  .option('--parity <file...>', 'llama.cpp’s tokens and log probabilities, one file per --model in the same order', [])
  .addOption(kvCacheTypeOptionOf('f32'))
  .option('--beside-host', 'compare logits with those of the CPU backend', false)
  .addOption(
    new Option('--tokens <count>', 'tokens to generate for the check that memory does not grow')
      .argParser(wholeNumber(0))
      .default(0),
  )
  .option(
    '--speed',
    'measure only the decode speed of one sequence, with random weights, and compare it with the prediction',
    false,
  )
  .option('--shape <name>', 'with --speed: a shape of synth', 'llama-3.1-8b')
  .option('--type <type>', 'with --speed: a type of synth', 'Q4_K_M')
  .option('--json', 'print JSON', false)
  .action(async (options) => {
    if (options.speed) {
      const { formatSpeed, speedBesidePrediction } = await import('./verify/speed-beside.js');
      const report = await speedBesidePrediction(options);
      if (options.json) writeJson(report, 2);
      else writeText(formatSpeed(report));
      return;
    }
    // An executor is killed on purpose; what is logged of that is nobody's news.
    process.env.ROCMFORGE_LOG_LEVEL ??= 'fatal';
    const { verify } = await import('./verify/verify.js');
    await verify(options);
  });

program
  .command('synth')
  .description('write a GGUF file with the shape of a real model and random weights')
  .optionsGroup(REQUIRED)
  .option('--shape <name>', 'model shape, such as llama-3.2-1b, llama-3.1-8b or tiny; an unknown name lists all')
  .option('--type <type>', 'quantization, such as F16, Q8_0, Q4_0 or Q4_K_M; an unknown name lists all')
  .option('-o, --output <file>', 'file to write')
  .action(async (options) => {
    const { synth } = await import('./synth/synth.js');
    const bytes = synth(options);
    writeText(`${options.output}: ${bytes} bytes\n`);
  });

command('inspect', oneExecutorSplitOptions)
  .description('describe a model and whether it loads, or with --fit how much of its context fits on a GPU')
  .argument(
    '<model>',
    'GGUF file, of a split model the first part; or hf.co/OWNER/REPOSITORY[@REVISION][:QUANTIZATION], of which only headers are read',
  )
  .option(
    '--fit',
    'report the context lengths and numbers of sequences that fit; allocates the memory of a load on each GPU for a moment',
    false,
  )
  .addOption(
    new Option('--context <tokens>', 'with --fit: context length (default: the model’s, at most 8192)').argParser(
      wholeNumber(1),
    ),
  )
  .addOption(
    new Option('--sequences <count>', 'with --fit: sequences that run at once (default: as serve chooses)').argParser(
      wholeNumber(1),
    ),
  )
  .addOption(
    new Option(
      '--memory <bytes>',
      'with --fit: free memory of an assumed GPU, such as 24GiB (default: each GPU of this machine)',
    ).argParser(byteCount),
  )
  .addOption(kvCacheTypeOption)
  .addOption(stateSnapshotsOption)
  .addOption(cpuExpertsOption)
  .option('--json', 'print JSON', false)
  .action(async (model, options) => {
    const { inspect } = await import('./inspect/inspect-command.js');
    await inspect(model, options);
  });

program
  .command('doctor')
  .description('check this installation: GPU, driver, kernels and the latest faults')
  .option('--state-dir <folder>', 'folder of the latest faults (default: ~/.local/state/rocmforge)')
  .option('--report', 'print one block to paste, without names and paths except those of devices', false)
  .option('--json', 'print JSON', false)
  .action(async (options) => {
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
  try {
    await program.parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) throw error;
    const known = limitError(error) ?? asRocmForgeError(error);
    writeNotice(`rocmforge: ${known.reason}: ${known.message}\n`);
    if (known.reason.startsWith('CREDENTIAL_')) writeNotice(TOKEN_HINT);
    if (known.reason === 'INTERNAL') writeNotice(`${(known.cause as Error)?.stack ?? ''}\n`);
    process.exit(1);
  }
}
