import { type Command, Option } from 'commander';
import { usableProcessors } from '../executor/processors.js';
import { REASONING_PARSERS, TOOL_PARSERS } from '../gateway/chat/answer/answer-format.js';
import type { HostedModel } from '../gateway/hosted-model.js';
import type { ModelOptions } from '../gateway/options.js';
import { watchNpm } from './npm-parent.js';
import { DEFAULT_LISTEN, integer, milliseconds, positive, seed, texts, wholeNumber } from './options.js';
import { writeText } from './output.js';
import { tellReady, tellStopping } from './service-manager.js';
import { checkSystemLimits } from './system-limits.js';

/** Exit codes of `serve`: 0 after a drain that finished, these two otherwise; 1 is an error that is told. */
const MOST_REPLICAS = 64;
const EXIT_STREAMS_CUT = 3;
const EXIT_STOPPED_AT_ONCE = 130;

/** SIGUSR1 opens Node's inspector, through which whoever reaches the port runs what he likes; --inspect still does. */
export function ignoreInspectorSignal(): void {
  process.on('SIGUSR1', () => undefined);
}

/** Says what `serve` takes and does. */
export function addServeCommand(serve: Command): void {
  serve
    .description('serve a model over gRPC')
    .requiredOption(
      '--model <[name=]file>',
      'GGUF file, of a split model its first part; hf.co/… is pulled first; given several times, each is a model that ' +
        'requests choose by its name, and the first that of those who name none',
      texts,
    )
    .option('--model-name <name>', 'what requests call it (default: the file’s name)')
    .option(
      '--any-model-name',
      'requests may call it, or the first of several, as they like: for clients whose name for it is fixed',
    )
    .option('--model-alias <names...>', 'other names by which requests may call it; of several models ALIAS=NAME')
    .option(
      '--model-option <name:option=value...>',
      'an option for one of several models in place of what holds for all, such as small:kv-memory=2G or small:gpu=1',
    )
    .addOption(
      new Option('--load <when>', 'on-demand: a model is loaded when a request for it comes')
        .choices(['at-start', 'on-demand'])
        .default('at-start'),
    )
    .addOption(
      new Option(
        '--idle-unload <seconds>',
        'end the executors of a model that nobody has asked for that long, so that its memory and power are free; the next ' +
          'request waits for its load (default: never)',
      ).argParser(positive),
    )
    .option('--model-tag <tags...>', 'what the HTTP door tells the model’s tags to be')
    .addOption(
      new Option('--seed <number>', 'the seed of requests that give none (default: one is drawn for each)').argParser(
        seed,
      ),
    )
    .option('--chat-template <file>', 'a Jinja template in place of the model file’s')
    .option('--chat-template-kwargs <json>', 'variables for it, of requests that give none of the name')
    .option('--template-date', 'tell it the date, as date_string and datetime')
    .addOption(
      new Option('--tool-parser <format>', 'how the model writes calls (default: as its chat template does)').choices(
        TOOL_PARSERS,
      ),
    )
    .addOption(
      new Option(
        '--reasoning-parser <format>',
        'how it writes reasoning; none: reasoning stays in the text (default: as its chat template does)',
      ).choices([...REASONING_PARSERS, 'none']),
    )
    .option('--listen <address>', 'HOST:PORT or unix:PATH', DEFAULT_LISTEN)
    .addOption(
      new Option(
        '--executor <address>',
        'use the executor at this address instead of starting one; given several times, each is a replica',
      ).argParser((address: string, before: readonly string[] = []) => [...before, address]),
    )
    .addOption(
      new Option('--replicas <count>', 'executors, each with the whole model; requests are shared out among them')
        .argParser(wholeNumber(1, MOST_REPLICAS))
        .default(1),
    )
    .addOption(
      new Option(
        '--standby <count>',
        'executors that have the model loaded and compute nothing until another is lost; of several --executor, the last',
      )
        .argParser(wholeNumber(0, MOST_REPLICAS))
        .default(0),
    )
    .option(
      '--allow-other-arithmetic',
      'streams whose executor is lost may go on with one that computes other bits, where no other serves',
    )
    .option('--executor-secret-file <file>', 'the secret that it demands')
    .option('--executor-ca <file>', 'speak TLS with it; its certificate is of these authorities')
    .option('--executor-cert <file>', 'the gateway’s own certificate, where the executor demands one')
    .option('--executor-key <file>', 'its private key')
    .addOption(
      new Option('--pipeline-depth <steps>', 'steps under way at once, 1 or 2').argParser(wholeNumber(1, 2)).default(2),
    )
    .option('--no-prefix-cache', 'compute every prompt from its start')
    .addOption(
      new Option('--speculate <how>', 'guess at next tokens by what was said before, and compute several at once')
        .choices(['lookup', 'off'])
        .default('lookup'),
    )
    .addOption(new Option('--stream-interval <tokens>', 'that come together').argParser(wholeNumber(1)).default(1))
    .addOption(
      new Option('--step-timeout-ms <ms>', 'the least time a step gets before the executor counts as hung')
        .argParser(wholeNumber(1))
        .default(2000),
    )
    .addOption(new Option('--max-queued-requests <count>').argParser(wholeNumber(1)).default(1024))
    .addOption(new Option('--max-queued-tokens <count>').argParser(wholeNumber(1)).default(1 << 20))
    .addOption(
      new Option(
        '--max-queued-requests-per-peer <count>',
        'of one client address, and of the queued tokens the same part; behind a proxy all clients are one but with --trusted-proxies',
      )
        .argParser(wholeNumber(1))
        .default(256),
    )
    .addOption(
      new Option('--max-priority <number>', 'the highest priority that a request may have')
        .argParser(integer)
        .default(0),
    )
    .addOption(new Option('--max-connections <count>').argParser(wholeNumber(1)).default(1024))
    .addOption(new Option('--max-streams-per-connection <count>').argParser(wholeNumber(1)).default(100))
    .addOption(
      new Option(
        '--max-connection-age-ms <ms>',
        'how long a connection takes calls, a tenth more or less; lets a load balancer spread its clients anew',
      )
        .argParser(milliseconds)
        .default(3_600_000),
    )
    .addOption(
      new Option('--max-connection-idle-ms <ms>', 'how long a connection stays without a call')
        .argParser(milliseconds)
        .default(600_000),
    )
    .addOption(
      new Option('--keepalive-ms <ms>', 'how often a connection is asked whether it lives')
        .argParser(milliseconds)
        .default(60_000),
    )
    .addOption(
      new Option('--drain-timeout-ms <ms>', 'how long streams may go on after SIGTERM, SIGINT or SIGHUP')
        .argParser(wholeNumber(0))
        .default(30_000),
    )
    .addOption(
      new Option(
        '--drain-delay-ms <ms>',
        'how long requests are still taken after that, while probes say not ready: longer than a load balancer takes to notice',
      )
        .argParser(wholeNumber(0))
        .default(0),
    )
    .option('--state-dir <folder>', 'keeps the last faults for doctor (default: ~/.local/state/rocmforge)')
    .option('--http-listen <address>', 'HOST:PORT or unix:PATH of the HTTP door: OpenAI’s API, llama.cpp’s, and a page')
    .option('--no-http-page', 'the HTTP door has no page')
    .option('--http-slots', 'the HTTP door tells at /slots how many sequences run')
    .option('--http-metrics', 'the HTTP door tells at /metrics what llama.cpp’s server does, by its names')
    .option('--http-verbose', 'the HTTP door’s chats tell the prompt as it was rendered, where requests do not say')
    .option(
      '--allowed-hosts <names...>',
      'names by which the HTTP door is asked on a loopback address, beside localhost: those that a proxy passes on',
    )
    .option(
      '--cors-origins <origins...>',
      'origins whose pages may read the HTTP door’s answers, such as https://chat.example; localhost for pages of this machine, ' +
        '* for all (default: all where a token is demanded, else none)',
    )
    .option('--otlp-endpoint <url>', 'collector that gets spans of requests, such as http://127.0.0.1:4318')
    .option(
      '--metrics-listen <address>',
      'HOST:PORT for Prometheus metrics over HTTP, and the probes /healthz and /readyz',
    )
    .option('--admin-listen <address>', 'unix:PATH for who operates it: rocmforge admin and rocmforge report')
    .addOption(
      new Option('--max-restarts <count>', 'executor deaths in a minute before it is tried more slowly')
        .argParser(wholeNumber(0))
        .default(10),
    )
    .action(async (options) => {
      ignoreInspectorSignal();
      checkSystemLimits(executorThreads(options));
      // From here on: the first process of a container is not ended by signals that it does not handle. What came of a model is
      // kept, and there is nothing yet to drain or to replace.
      let stop = (): void => process.exit(EXIT_STOPPED_AT_ONCE);
      let replace = (): void => undefined;
      for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => stop());
      process.on('SIGUSR2', () => replace());
      const [{ startGateway }, { gatewayOptions }] = await Promise.all([
        import('../gateway/main.js'),
        import('./gateway-options.js'),
      ]);
      const { defaultStateFolder } = await import('../shared/fault-log.js');
      const stateFolder = options.stateDir ?? defaultStateFolder();
      const [{ localModel }, { servedModels }, { withOwnOptions }] = await Promise.all([
        import('./hub/pull.js'),
        import('./served-models.js'),
        import('./model-options.js'),
      ]);
      const named = withOwnOptions(servedModels(options), options, serve.options);
      const models: ModelOptions[] = [];
      for (const model of named) models.push({ ...model, model: await localModel(model.model) });
      const [first, ...moreModels] = models;
      const all = gatewayOptions({ ...options, ...first, moreModels });
      const gateway = await startGateway({ ...all, own: first?.own, stateFolder });
      const addressOf = (given: string, port: number): string =>
        given.startsWith('unix:') ? given : given.replace(/\d+$/, String(port));
      const address = addressOf(options.listen, gateway.port);
      let stopping = false;
      stop = () => {
        // The second signal means now.
        if (stopping) process.exit(EXIT_STOPPED_AT_ONCE);
        stopping = true;
        tellStopping('ending what is under way');
        void gateway
          .drain(options.drainTimeoutMs, options.drainDelayMs)
          .then((finished) => process.exit(finished ? 0 : EXIT_STREAMS_CUT));
      };
      replace = () => void gateway.replaceExecutors();
      watchNpm(() => stop());
      // Last: who reads this may signal at once.
      const told = ({ served, router, kvCacheType }: HostedModel) =>
        `serving ${served.name} on ${address}: ` +
        (router.isLoaded ? `${router.counts.slots} sequences of` : 'loaded on demand, sequences of') +
        ` ${served.contextLength} tokens, ${kvCacheType} KV cache${devicesOf(router.devices)}`;
      const serving = gateway.models.map(told);
      writeText(`${serving.join('\n')}\n`);
      if (gateway.httpServer !== undefined) {
        const at = addressOf(options.httpListen, gateway.httpServer.port);
        writeText(`serving HTTP on ${at.startsWith('unix:') ? at : `http://${at}`}\n`);
      }
      tellReady(serving.join('; '));
    });
}

/** Of each executor that `serve` starts at once, the threads that compute: on the host alone those are this program's to know. */
function executorThreads(options: {
  readonly executor?: readonly string[];
  readonly model: readonly string[];
  readonly load: string;
  readonly gpus?: readonly number[];
  readonly split?: string;
  readonly replicas: number;
  readonly standby: number;
  readonly device?: string;
  readonly threads?: number;
}): readonly number[] {
  if (options.executor !== undefined) return [];
  const replicas = options.split === undefined ? (options.gpus?.length ?? options.replicas) : 1;
  const executors = (replicas + options.standby) * (options.load === 'on-demand' ? 1 : options.model.length);
  const shared = Math.max(1, Math.floor(usableProcessors() / executors));
  const threads = options.device === 'host' ? (options.threads ?? shared) : 0;
  return Array.from({ length: executors }, () => threads);
}

/** What replicas compute on, each device once with how many are on it; nothing where none is known yet. */
function devicesOf(devices: readonly string[]): string {
  const names = [...new Set(devices.filter((name) => name !== ''))];
  const counted = names.map((name) => {
    const count = devices.filter((other) => other === name).length;
    return count > 1 ? `${count} × ${name}` : name;
  });
  return counted.length === 0 ? '' : `, on ${counted.join(', ')}`;
}
