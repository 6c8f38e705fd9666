import { Argument, Command, CommanderError, Option } from 'commander';
import { asRocmForgeError, RocmForgeError } from '../shared/errors.js';
import { packageVersion } from '../shared/package.js';
import { addBenchCommands } from './bench-commands.js';
import { watchOutput } from './closed-output.js';
import { completionScript, SHELLS } from './completion.js';
import { addOperateCommands } from './operate-commands.js';
import {
  byteCount,
  checkSplit,
  clientOptions,
  decimal,
  deviceOptions,
  kvCacheTypeOption,
  kvCacheTypeOptionOf,
  modelOptions,
  seed,
  splitOptions,
  stateSnapshotsOption,
  testOptions,
  texts,
  trustOptions,
  wholeNumber,
  wholeNumbers,
} from './options.js';
import { writeJson, writeNotice, writeText } from './output.js';
import { addServeCommand, ignoreInspectorSignal } from './serve-command.js';
import { limitError } from './system-limits.js';

// Each command imports its own code: `inspect` needs no gRPC, and an executor no tokenizer.

const program = new Command('rocmforge')
  .description('LLM inference as a gRPC microservice for AMD GPUs')
  .version(packageVersion)
  // `bench serve` has options of the same names as `bench`; each command takes those that follow it.
  .enablePositionalOptions()
  .showHelpAfterError('(rocmforge --help lists the commands)');

/** A command with options that several share. */
function command(name: string, options: readonly Option[]): Command {
  const created = program.command(name);
  for (const option of options) created.addOption(option);
  return created;
}

addServeCommand(
  command('serve', [...modelOptions, ...deviceOptions, ...splitOptions, ...trustOptions, ...testOptions]),
);

command('executor', [...deviceOptions, ...splitOptions, ...testOptions])
  .description('run an executor alone, for a gateway elsewhere (serve --executor)')
  .requiredOption('--listen <address>', 'unix:PATH or HOST:PORT')
  .addOption(
    new Option('--step-timeout-ms <ms>', 'the least time a step gets before health tells that it hangs')
      .argParser(wholeNumber(1))
      .default(2000),
  )
  .addOption(
    new Option('--lease-ms <ms>', 'how long a gateway that is not heard of keeps the executor from others')
      .argParser(wholeNumber(1000))
      .default(10_000),
  )
  .option('--secret-file <file>', 'a secret that gateways must know')
  .option('--tls-cert <file>', 'speak TLS with this certificate, in PEM')
  .option('--tls-key <file>', 'its private key, in PEM')
  .option('--tls-client-ca <file>', 'demand certificates of these authorities from gateways')
  .option('--insecure', 'on a loopback address: serve whoever reaches it', false)
  .addOption(new Option('--die-with-parent').hideHelp())
  .addOption(new Option('--fault-record <file>').hideHelp())
  .addOption(new Option('--model-fd <number>').argParser(wholeNumbers(0)).hideHelp())
  .action(async (options) => {
    ignoreInspectorSignal();
    checkSplit(options);
    const [{ runExecutor }, { parseFault }] = await Promise.all([
      import('../executor/main.js'),
      import('../executor/fault-injection.js'),
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
      stepTimeoutMs: options.stepTimeoutMs,
      leaseMs: options.leaseMs,
      stepDelayMs: options.stepDelayMs ?? 0,
      fault: options.plantFault && parseFault(options.plantFault),
    });
    // One that a gateway started is the gateway's, which tells of both.
    if (!options.dieWithParent) {
      const { tellReady } = await import('./service-manager.js');
      tellReady(`executor listening on ${options.listen}`);
    }
  });

program
  .command('token')
  .description('make a bearer token, on stderr, and its line for serve --token-file, on stdout')
  .argument('<name>', 'whom it stands for')
  .action(async (name) => {
    const { newToken } = await import('../gateway/trust/tokens.js');
    const { token, line } = newToken(name);
    // Apart, so that `token NAME >> FILE` makes a file for serve.
    writeNotice(`${token}\n`);
    writeText(`${line}\n`);
  });

command('demo', [...deviceOptions, kvCacheTypeOption])
  .description('have the package’s own small model tell a story')
  .option('--prompt <text>', 'what to ask for', 'Tell me a story about a brave fox.')
  .action(async (options) => {
    process.env.ROCMFORGE_LOG_LEVEL ??= 'warn';
    const { demo } = await import('./demo.js');
    await demo(options);
  });

command('generate', [...clientOptions, ...modelOptions, ...deviceOptions, ...splitOptions, ...testOptions])
  .description('generate text and end')
  .option('--model <file>', 'GGUF file to serve for this one generation; hf.co/… is pulled first')
  .option('--address <address>', 'use the gateway at this address')
  .argument('[prompt]', 'what to continue; - reads it from stdin')
  .option('--prompt <text>', 'the same')
  .option('--chat', 'send the prompt as a user’s turn through the chat template', false)
  .option('--system <text>', 'with --chat: the system message')
  .addOption(new Option('--max-tokens <count>').argParser(wholeNumber(1)).default(128))
  .addOption(new Option('--temperature <t>', '0 chooses the likeliest token').argParser(decimal))
  .addOption(new Option('--top-k <count>').argParser(wholeNumber(0)))
  .addOption(new Option('--top-p <p>').argParser(decimal))
  .addOption(new Option('--min-p <p>').argParser(decimal))
  .addOption(new Option('--seed <number>').argParser(seed))
  .addOption(new Option('--repetition-penalty <factor>', 'of tokens that are in the text; 1: none').argParser(decimal))
  .addOption(new Option('--frequency-penalty <logit>', 'for each time a token was generated').argParser(decimal))
  .addOption(new Option('--presence-penalty <logit>', 'once for each token that was generated').argParser(decimal))
  .addOption(
    new Option('--stop <text>', 'where the text ends, before this; may be given several times').argParser(texts),
  )
  .addOption(new Option('-n, --n <count>', 'completions of the one prompt').argParser(wholeNumber(1)).default(1))
  .addOption(
    new Option('--logprobs <count>', 'with --json: of each token, and of so many of the likeliest').argParser(
      wholeNumber(0),
    ),
  )
  .option('--json', 'one JSON object a line, token ids included', false)
  .option('--stats', 'tokens/s and time to first token on stderr', false)
  .action(async (prompt, options) => {
    requireTarget(options);
    await pullFirst(options);
    const { generate } = await import('./generate.js');
    await generate({ ...options, prompt: promptOf(prompt, options.prompt) });
  });

command('chat', [...clientOptions, ...modelOptions, ...deviceOptions])
  .description('talk with a model in the terminal')
  .option('--model <file>', 'GGUF file to serve for this conversation; hf.co/… is pulled first')
  .option('--address <address>', 'use the gateway at this address')
  .option('--system <text>', 'the system message')
  .option('--tools <file>', 'functions that the model may call: a JSON list, as OpenAI writes them')
  .addOption(new Option('--max-tokens <count>', 'of each answer').argParser(wholeNumber(1)))
  .addOption(new Option('--temperature <t>').argParser(decimal))
  .addOption(new Option('--seed <number>').argParser(seed))
  .action(async (options) => {
    requireTarget(options);
    await pullFirst(options);
    const { chat } = await import('./chat/chat.js');
    await chat(options);
  });

const benchCommand = command('bench', [...modelOptions, ...deviceOptions])
  .description('measure a model on this machine: in the executor, and as a gRPC client sees it')
  .option('--model <file>', 'GGUF file')
  .addOption(new Option('--prompt-tokens <count>').argParser(wholeNumber(1)).default(128))
  .addOption(new Option('--tokens <count>', 'tokens to generate').argParser(wholeNumber(1)).default(64))
  .addOption(new Option('--repeats <count>', 'runs, of which the median counts').argParser(wholeNumber(1)).default(3))
  .option('--profile', 'the time of each kernel in one token’s step', false)
  .option('--json', 'as JSON', false)
  .action(async (options) => {
    requireTarget(options);
    const { bench } = await import('./bench.js');
    await bench(options);
  });

addBenchCommands(benchCommand);

command('verify', deviceOptions)
  .description('run models on a device and hold what it computes against llama.cpp and against itself')
  .option('--model <file...>', 'GGUF files (default: the package’s own, with its parity file)')
  .option('--parity <file...>', 'llama.cpp’s tokens and log probabilities for each model, in their order', [])
  .addOption(kvCacheTypeOptionOf('f32'))
  .option('--beside-host', 'compare logits with those of the host device', false)
  .addOption(
    new Option('--tokens <count>', 'generate so many and see that memory does not grow')
      .argParser(wholeNumber(0))
      .default(0),
  )
  .option('--speed', 'only how fast one sequence is, of a model with random weights, beside what was predicted', false)
  .option('--shape <name>', 'with --speed: as of synth', 'llama-3.1-8b')
  .option('--type <type>', 'with --speed: as of synth', 'Q4_K_M')
  .option('--json', 'as JSON', false)
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
    const { verify } = await import('./verify.js');
    await verify(options);
  });

program
  .command('synth')
  .description('write a GGUF file of a real model’s shape with random weights')
  .requiredOption('--shape <name>', 'such as llama-3.2-1b, llama-3.1-8b, qwen2.5-0.5b or tiny')
  .requiredOption('--type <type>', 'such as F16, Q8_0, Q4_0 or Q4_K_M')
  .requiredOption('-o, --output <file>')
  .action(async (options) => {
    const { synth } = await import('./synth.js');
    const bytes = synth(options);
    writeText(`${options.output}: ${bytes} bytes\n`);
  });

command('inspect', splitOptions)
  .description('describe a GGUF file, or with --fit what of it fits on a GPU')
  .argument('<file>', 'of a split model, its first part')
  .option(
    '--fit',
    'which contexts and how many sequences fit; takes the memory of a load on each GPU for a moment',
    false,
  )
  .addOption(
    new Option('--context <tokens>', 'of one sequence (default: the model’s, at most 8192)').argParser(wholeNumber(1)),
  )
  .addOption(new Option('--sequences <count>', 'at once (default: as the loader chooses)').argParser(wholeNumber(1)))
  .addOption(
    new Option('--memory <bytes>', 'such as 24GiB: as if a GPU had so much free (default: each GPU here)').argParser(
      byteCount,
    ),
  )
  .addOption(kvCacheTypeOption)
  .addOption(stateSnapshotsOption)
  .option('--json', 'as JSON', false)
  .action(async (file, options) => {
    if (options.fit) {
      const { fitReport, formatFitReport } = await import('./fit.js');
      const report = await fitReport(file, options);
      if (options.json) writeJson(report, 2);
      else writeText(`${formatFitReport(report)}\n`);
      return;
    }
    for (const [name, flag] of [
      ['context', 'context'],
      ['sequences', 'sequences'],
      ['memory', 'memory'],
      ['stateSnapshots', 'state-snapshots'],
      ['split', 'split'],
      ['gpus', 'gpus'],
      ['tensorSplit', 'tensor-split'],
    ] as const) {
      if (options[name] !== undefined) throw new RocmForgeError('INVALID_OPTION', `--${flag} is a question of --fit`);
    }
    const { inspectModel, formatInspectReport } = await import('./inspect.js');
    const report = inspectModel(file);
    if (options.json) writeJson(report, 2);
    else writeText(`${formatInspectReport(report)}\n`);
  });

program
  .command('doctor')
  .description('tell what of this installation works on this machine')
  .option('--state-dir <folder>', 'where gateways keep the last faults (default: ~/.local/state/rocmforge)')
  .option('--report', 'one block to paste: no names, no paths but those of devices', false)
  .option('--json', 'as JSON', false)
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
  .description('print what completes these commands in a shell: source <(rocmforge completion bash)')
  .addArgument(new Argument('<shell>').choices(SHELLS))
  .action((shell) => {
    writeText(completionScript(shell, program));
  });

/** @throws RocmForgeError `INVALID_OPTION` for none, and for two */
function promptOf(argument: string | undefined, option: string | undefined): string {
  const prompt = argument ?? option;
  if (prompt === undefined || (argument !== undefined && option !== undefined)) {
    throw new RocmForgeError('INVALID_OPTION', 'give one prompt, as an argument or by --prompt; - is stdin');
  }
  return prompt;
}

function requireTarget(options: { model?: string; address?: string }): void {
  if ((options.model === undefined) === (options.address === undefined)) {
    throw new RocmForgeError('INVALID_OPTION', 'give either --model or --address');
  }
  // A command that writes text to a terminal logs only what went wrong.
  process.env.ROCMFORGE_LOG_LEVEL ??= 'warn';
}

/** Where `--model` names one on a hub: brings it here, and has the option say where. */
async function pullFirst(options: { model?: string }): Promise<void> {
  if (options.model === undefined) return;
  const { localModel } = await import('./hub/pull.js');
  options.model = await localModel(options.model);
}

watchOutput();

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) {
    const told = limitError(error) ?? asRocmForgeError(error);
    writeNotice(`rocmforge: ${told.reason}: ${told.message}\n`);
    if (told.reason === 'INTERNAL') writeNotice(`${(told.cause as Error)?.stack ?? ''}\n`);
    process.exit(1);
  }
  throw error;
}
