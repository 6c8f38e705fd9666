import { type Command, Option } from 'commander';
import { REASONING_PARSERS, TOOL_PARSERS } from '../../gateway/chat/answer/answer-format.js';
import type { HostedModel } from '../../gateway/hosted-model.js';
import type { ModelOptions } from '../../gateway/options.js';
import { POOLINGS } from '../../gateway/request/embedding.js';
import {
  address,
  addresses,
  DEFAULT_LISTEN,
  integer,
  milliseconds,
  positive,
  seed,
  texts,
  wholeNumber,
} from '../common/options.js';
import { writeText } from '../common/output.js';
import { notifyReady, notifyStopping } from '../common/service-manager.js';
import { checkSystemLimits } from '../common/system-limits.js';
import { REQUIRED } from '../common/usage.js';
import { executorThreads } from './executor-threads.js';
import { limitHeapGrowth } from './heap-growth.js';
import { watchNpm } from './npm-parent.js';

/** Exit codes of `serve`: 0 after a drain that finished, these two otherwise; 1 is an error that is told. */
const MOST_REPLICAS = 64;
const EXIT_STREAMS_CUT = 3;
const EXIT_STOPPED_AT_ONCE = 130;

/** SIGUSR1 opens Node's inspector, through which whoever reaches the port runs what he likes; --inspect still does. */
export function ignoreInspectorSignal(): void {
  process.on('SIGUSR1', () => undefined);
}

/** Defines the options of `serve` and what it does. */
export function addServeCommand(serve: Command): void {
  serve
    .description('serve models over gRPC, and over HTTP with --http-listen')
    .optionsGroup(REQUIRED)
    .addOption(
      new Option(
        '--model <[name=]file>',
        'GGUF file (the first part of a split one), or hf.co/OWNER/REPOSITORY to download; repeat it to serve several models, ' +
          'the first of which is the default',
      ).argParser(texts),
    )
    .optionsGroup('Addresses:')
    .addOption(
      new Option('--listen <address>', 'HOST:PORT or unix:PATH of the gRPC API')
        .argParser(address)
        .default(DEFAULT_LISTEN),
    )
    .addOption(
      new Option(
        '--http-listen <address>',
        'HOST:PORT or unix:PATH of the HTTP API: OpenAI, Anthropic and llama.cpp compatible, and a chat page; repeat it for several',
      ).argParser(addresses),
    )
    .addOption(
      new Option(
        '--metrics-listen <address>',
        'HOST:PORT of Prometheus metrics and the probes /healthz and /readyz, over HTTP',
      ).argParser(address),
    )
    .option('--admin-listen <address>', 'unix:PATH for rocmforge admin and rocmforge report')
    .optionsGroup('Model names:')
    .option('--model-name <name>', 'model name in requests (default: the name of the file without .gguf)')
    .option('--any-model-name', 'accept any model name in requests, as a name of the first model')
    .option('--model-alias <names...>', 'further model names; with several models ALIAS=NAME')
    .option(
      '--model-option <name:option=value...>',
      'an option for one of several models, such as small:kv-memory=2G or small:gpu=1',
    )
    .option('--model-tag <tags...>', 'tags of the model in the HTTP API')
    .optionsGroup('Chat and sampling:')
    .option('--chat-template <file>', 'Jinja template to use instead of the one in the model file')
    .option('--chat-template-kwargs <json>', 'default variables of the chat template, as a JSON object')
    .option(
      '--tools-fallback',
      'accept tools though the chat template does not support them: describe them in a system message, parse calls as Hermes JSON',
    )
    .option('--template-date', 'give the chat template the current date, as date_string and datetime')
    .addOption(
      new Option('--tool-parser <format>', 'format of tool calls (default: detected from the chat template)').choices(
        TOOL_PARSERS,
      ),
    )
    .addOption(
      new Option(
        '--reasoning-parser <format>',
        'format of reasoning; none leaves it in the text (default: detected from the chat template)',
      ).choices([...REASONING_PARSERS, 'none']),
    )
    .addOption(
      new Option(
        '--pooling <type>',
        'pooling of embeddings (default: pooling_type of the model file, else last)',
      ).choices(POOLINGS),
    )
    .addOption(
      new Option('--seed <number>', 'seed of requests without one (default: random per request)').argParser(seed),
    )
    .optionsGroup('Loading:')
    .addOption(
      new Option(
        '--load <when>',
        'on-demand loads a model with its first request; on-command only by POST /models/load or admin --load-model',
      )
        .choices(['at-start', 'on-demand', 'on-command'])
        .default('at-start'),
    )
    .addOption(
      new Option(
        '--idle-unload <seconds>',
        'unload a model after this many seconds without a request, to free its memory; the next request loads it again ' +
          '(default: never)',
      ).argParser(positive),
    )
    .addOption(
      new Option(
        '--max-loaded-models <count>',
        'models loaded at once: for one more the least recently used without requests is unloaded (default: all)',
      ).argParser(wholeNumber(1)),
    )
    .optionsGroup('Performance:')
    .addOption(
      new Option(
        '--speculate <how>',
        'speculative decoding: by prompt lookup (n-gram), or also by the multi-token-prediction block of the model file (mtp)',
      )
        .choices(['lookup', 'mtp', 'off'])
        .default('lookup'),
    )
    .option('--no-prefix-cache', 'disable prefix caching')
    .addOption(
      new Option('--pipeline-depth <steps>', 'steps in flight, 1 or 2').argParser(wholeNumber(1, 2)).default(2),
    )
    .addOption(
      new Option('--stream-interval <tokens>', 'tokens per streamed chunk').argParser(wholeNumber(1)).default(1),
    )
    .optionsGroup('Executors:')
    .addOption(
      new Option('--replicas <count>', 'executors, each with the whole model; requests are balanced among them')
        .argParser(wholeNumber(1, MOST_REPLICAS))
        .default(1),
    )
    .addOption(
      new Option(
        '--standby <count>',
        'executors on standby: the model is loaded, and they take over when another is lost (of several --executor, the last)',
      )
        .argParser(wholeNumber(0, MOST_REPLICAS))
        .default(0),
    )
    .option(
      '--allow-other-arithmetic',
      'allow failover of a stream to an executor whose results may differ in the last bits',
    )
    .addOption(
      new Option('--step-timeout-ms <ms>', 'least time (ms) before a step counts as hung')
        .argParser(wholeNumber(1))
        .default(2000),
    )
    .addOption(
      new Option('--max-restarts <count>', 'executor crashes per minute before restarts slow down')
        .argParser(wholeNumber(0))
        .default(10),
    )
    .addOption(
      new Option(
        '--recovery-timeout <seconds>',
        'time (s) that streams wait for an executor that is killed again and again',
      )
        .argParser(wholeNumber(1))
        .default(300),
    )
    .option('--spare', 'keep a second executor ready to take over (default: on a GPU that has room for it)')
    .option('--no-spare', 'keep no second executor')
    .option('--no-keeper', 'do not keep weights and KV cache of an executor that was killed; load and recompute them')
    .addOption(
      new Option(
        '--executor <address>',
        'HOST:PORT or unix:PATH of a running executor to use instead of starting one; repeat it for replicas',
      ).argParser(addresses),
    )
    .option('--executor-secret-file <file>', 'secret that the executor at --executor requires')
    .option('--executor-ca <file>', 'use TLS with --executor; authorities that sign its certificate (PEM)')
    .option('--executor-cert <file>', 'client certificate for --executor (PEM), if it requires one')
    .option('--executor-key <file>', 'private key of --executor-cert (PEM)')
    .optionsGroup('Queue and connections:')
    .addOption(
      new Option('--max-queued-requests <count>', 'requests in the queue, above which new ones are rejected')
        .argParser(wholeNumber(1))
        .default(1024),
    )
    .addOption(
      new Option('--max-queued-tokens <count>', 'prompt tokens in the queue, above which new requests are rejected')
        .argParser(wholeNumber(1))
        .default(1 << 20),
    )
    .addOption(
      new Option(
        '--max-queued-requests-per-peer <count>',
        'queued requests per client address, and the same share of the queued tokens; behind a proxy set --trusted-proxies',
      )
        .argParser(wholeNumber(1))
        .default(256),
    )
    .addOption(
      new Option('--max-priority <number>', 'highest priority that a request may have').argParser(integer).default(0),
    )
    .addOption(
      new Option('--max-connections <count>', 'open connections per API').argParser(wholeNumber(1)).default(1024),
    )
    .addOption(
      new Option('--max-streams-per-connection <count>', 'concurrent calls per gRPC connection')
        .argParser(wholeNumber(1))
        .default(100),
    )
    .addOption(
      new Option(
        '--max-connection-age-ms <ms>',
        'age (ms, ±10 %) at which a connection stops accepting calls, so that load balancers spread clients again',
      )
        .argParser(milliseconds)
        .default(3_600_000),
    )
    .addOption(
      new Option('--max-connection-idle-ms <ms>', 'time (ms) without a call after which a connection is closed')
        .argParser(milliseconds)
        .default(600_000),
    )
    .addOption(
      new Option('--keepalive-ms <ms>', 'interval (ms) of keepalive pings').argParser(milliseconds).default(60_000),
    )
    .optionsGroup('HTTP API:')
    .option('--no-http-page', 'disable the chat page')
    .option('--http-slots', 'enable llama.cpp’s /slots')
    .option(
      '--http-metrics',
      'enable /metrics with the names of llama.cpp’s server, and the server view of the chat page',
    )
    .option('--http-pull', 'let clients download models from the hub to this machine with Ollama’s /api/pull')
    .option('--http-verbose', 'include the rendered prompt in chat responses by default (__verbose)')
    .option(
      '--strict-fields',
      'reject requests with unknown fields (HTTP 400) instead of ignoring and reporting them in x-rocmforge-ignored-fields',
    )
    .option(
      '--allowed-hosts <names...>',
      'host names accepted on a loopback address besides localhost, such as those that a proxy forwards',
    )
    .option(
      '--cors-origins <origins...>',
      'origins of web pages that may call the HTTP API (CORS), such as https://chat.example; localhost for pages of this machine, ' +
        '* for all (default: * if a token is required, else none)',
    )
    .optionsGroup('Operation:')
    .addOption(
      new Option('--drain-timeout-ms <ms>', 'time (ms) that streams get to finish after SIGTERM, SIGINT or SIGHUP')
        .argParser(wholeNumber(0))
        .default(30_000),
    )
    .addOption(
      new Option(
        '--drain-delay-ms <ms>',
        'time (ms) after the signal in which requests are accepted but probes report not ready; longer than a load balancer’s interval',
      )
        .argParser(wholeNumber(0))
        .default(0),
    )
    .option('--state-dir <folder>', 'folder of the latest faults, for doctor (default: ~/.local/state/rocmforge)')
    .option('--otlp-endpoint <url>', 'OpenTelemetry collector of request spans, such as http://127.0.0.1:4318')
    .action(async (options) => {
      ignoreInspectorSignal();
      checkSystemLimits(executorThreads(options));
      limitHeapGrowth();
      // From here on: the first process of a container is not ended by signals that it does not handle. What came of a model is
      // kept, and there is nothing yet to drain or to replace.
      let stop = (): void => process.exit(EXIT_STOPPED_AT_ONCE);
      let replace = (): void => undefined;
      for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => stop());
      process.on('SIGUSR2', () => replace());
      const [{ startGateway }, { gatewayOptions }] = await Promise.all([
        import('../../gateway/main.js'),
        import('./gateway-options.js'),
      ]);
      const { defaultStateFolder } = await import('../../shared/fault-log.js');
      const stateFolder = options.stateDir ?? defaultStateFolder();
      const [{ localModel }, { servedModels }, { withOwnOptions }] = await Promise.all([
        import('../hub/pull.js'),
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
      const bound = addressOf(options.listen, gateway.port);
      let stopping = false;
      stop = () => {
        // The second signal means now.
        if (stopping) process.exit(EXIT_STOPPED_AT_ONCE);
        stopping = true;
        notifyStopping('ending what is under way');
        void gateway
          .drain(options.drainTimeoutMs, options.drainDelayMs)
          .then((finished) => process.exit(finished ? 0 : EXIT_STREAMS_CUT));
      };
      replace = () => void gateway.replaceExecutors();
      watchNpm(() => stop());
      // Last: who reads this may signal at once.
      const described = ({ served, router, kvCacheType }: HostedModel) =>
        `serving ${served.name} on ${bound}: ` +
        (router.isLoaded ? `${router.counts.slots} sequences of` : 'loaded on demand, sequences of') +
        ` ${served.contextLength} tokens, ${kvCacheType} KV cache${devicesOf(router.devices)}`;
      const serving = gateway.models.map(described);
      writeText(`${serving.join('\n')}\n`);
      if (gateway.httpServer !== undefined) {
        for (const [i, port] of gateway.httpServer.ports.entries()) {
          const at = addressOf(options.httpListen[i], port);
          writeText(`serving HTTP on ${at.startsWith('unix:') ? at : `http://${at}`}\n`);
        }
      }
      notifyReady(serving.join('; '));
    });
}

/** Devices of the replicas, each once with the number of replicas on it; nothing if none is known yet. */
function devicesOf(devices: readonly string[]): string {
  const names = [...new Set(devices.filter((name) => name !== ''))];
  const counted = names.map((name) => {
    const count = devices.filter((other) => other === name).length;
    return count > 1 ? `${count} × ${name}` : name;
  });
  return counted.length === 0 ? '' : `, on ${counted.join(', ')}`;
}
