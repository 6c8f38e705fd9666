import { DEVICE_OPTIONS, SPLIT_OPTIONS, TEST_OPTIONS } from '../shared/executor-options.js';
import { flag, flagOff, flagOnOff, grouped, option, preset, required } from '../shared/option-table.js';
import {
  address,
  addresses,
  byteCount,
  integer,
  positive,
  seconds,
  seed,
  text,
  texts,
  wholeNumber,
} from '../shared/option-types.js';
import { CONNECTION_OPTIONS, HTTP_CALLER_OPTIONS } from './api/options.js';
import { REASONING_PARSERS, TOOL_PARSERS } from './chat/answer/answer-format.js';
import { POOLINGS } from './request/pooling.js';
import { TRUST_OPTIONS } from './trust/options.js';

const MOST_REPLICAS = 64;

/** Options of every command that serves a model itself. */
export const MEMORY_OPTIONS = grouped('Memory and batching:', {
  maxContext: option('<tokens>', wholeNumber(1), 'context length (default: the model’s, at most 8192)', {
    scope: 'model',
  }),
  maxSequences: option(
    '<count>',
    wholeNumber(1),
    'sequences that run at once (default: 4 on the CPU; on a GPU up to 256, each with room for 2048 tokens)',
    { scope: 'model' },
  ),
  maxStepTokens: option(
    '<count>',
    wholeNumber(1),
    'batched tokens per step (default: 512, with experts in host memory 2048, or one per sequence if that is more)',
    { scope: 'model' },
  ),
  kvMemoryBytes: option(
    '<bytes>',
    byteCount,
    'memory for the KV cache, such as 2G (default: context length × sequences on the CPU, the memory left on a GPU)',
    { scope: 'model', flag: 'kv-memory' },
  ),
  kvCacheType: preset(
    '<type>',
    ['f16', 'f32', 'q8_0'],
    'f16',
    'element type of the KV cache; q8_0 takes half the memory of f16',
    { scope: 'model' },
  ),
  stateSnapshots: option(
    '<count>',
    wholeNumber(0),
    'snapshots of recurrent state that the prefix cache keeps; 0 disables them (default: two per sequence; on a GPU at most a ' +
      'quarter of the memory left)',
    { scope: 'model' },
  ),
  cpuExperts: option(
    '<layers>',
    wholeNumber(0),
    'layers, the last that have any, whose routed experts stay in host memory and run on the CPU (default: by --fit)',
    { scope: 'model' },
  ),
  fit: preset(
    '<mode>',
    ['auto', 'off'],
    'auto',
    'auto: routed experts of as few layers as necessary stay in host memory if the model does not fit the GPU; off: it is rejected',
    { scope: 'model' },
  ),
  deviceMemoryBytes: option('<bytes>', byteCount, 'memory of each GPU to use, such as 16GiB (default: what is free)', {
    scope: 'model',
    flag: 'device-memory',
  }),
});

const MODEL_OPTIONS = {
  models: required(
    '<[name=]file>',
    texts,
    'GGUF file (the first part of a split one), or hf.co/OWNER/REPOSITORY to download; repeat it to serve several models, ' +
      'the first of which is the default',
    { flag: 'model', by: 'command' },
  ),
};

const ADDRESS_OPTIONS = grouped('Addresses:', {
  listen: preset('<address>', address, '127.0.0.1:50051', 'HOST:PORT or unix:PATH of the gRPC API'),
  httpAddresses: option(
    '<address>',
    addresses,
    'HOST:PORT or unix:PATH of the HTTP API: OpenAI, Anthropic and llama.cpp compatible, and a chat page; repeat it for several',
    { flag: 'http-listen', by: 'command' },
  ),
  metricsListen: option(
    '<address>',
    address,
    'HOST:PORT of Prometheus metrics and the probes /healthz and /readyz, over HTTP',
  ),
  adminListen: option('<address>', text, 'unix:PATH for rocmforge admin and rocmforge report'),
});

const NAME_OPTIONS = grouped('Model names:', {
  modelName: option('<name>', text, 'model name in requests (default: the name of the file without .gguf)', {
    by: 'command',
  }),
  anyModelName: flag('accept any model name in requests, as a name of the first model'),
  modelAlias: option('<names...>', texts, 'further model names; with several models ALIAS=NAME', { by: 'command' }),
  modelOption: option(
    '<name:option=value...>',
    texts,
    'an option for one of several models, such as small:kv-memory=2G or small:gpu=1',
    { by: 'command' },
  ),
  modelTag: option('<tags...>', texts, 'tags of the model in the HTTP API'),
});

const CHAT_OPTIONS = grouped('Chat and sampling:', {
  chatTemplate: option('<file>', text, 'Jinja template to use instead of the one in the model file', {
    scope: 'model',
  }),
  chatTemplateKwargs: option('<json>', text, 'default variables of the chat template, as a JSON object', {
    scope: 'model',
    reported: 'length',
  }),
  toolsFallback: flag(
    'accept tools though the chat template does not support them: describe them in a system message, parse calls as Hermes JSON',
    { scope: 'model' },
  ),
  templateDate: flag('give the chat template the current date, as date_string and datetime', { scope: 'model' }),
  toolParser: option('<format>', TOOL_PARSERS, 'format of tool calls (default: detected from the chat template)', {
    scope: 'model',
  }),
  reasoningParser: option(
    '<format>',
    [...REASONING_PARSERS, 'none'],
    'format of reasoning; none leaves it in the text (default: detected from the chat template)',
    { scope: 'model' },
  ),
  pooling: option('<type>', POOLINGS, 'pooling of embeddings (default: pooling_type of the model file, else last)', {
    scope: 'model',
  }),
  seed: option('<number>', seed, 'seed of requests without one (default: random per request)', { scope: 'model' }),
});

const LOADING_OPTIONS = grouped('Loading:', {
  load: preset(
    '<when>',
    ['at-start', 'on-demand', 'on-command'],
    'at-start',
    'on-demand loads a model with its first request; on-command only by POST /models/load or admin --load-model',
    { scope: 'model' },
  ),
  idleUnloadMs: option(
    '<seconds>',
    seconds(positive),
    'unload a model after this many seconds without a request, to free its memory; the next request loads it again ' +
      '(default: never)',
    { scope: 'model', flag: 'idle-unload' },
  ),
  kvHostBytes: option(
    '<bytes>',
    byteCount,
    'memory of the host, such as 2G, that keeps the KV cache of a model while it is unloaded, so that conversations continue ' +
      'without being computed again (default: none)',
    { scope: 'model', flag: 'kv-host-memory' },
  ),
  maxLoadedModels: option(
    '<count>',
    wholeNumber(1),
    'models loaded at once: for one more the least recently used without requests is unloaded (default: all)',
  ),
});

const PERFORMANCE_OPTIONS = grouped('Performance:', {
  speculate: preset(
    '<how>',
    ['lookup', 'mtp', 'off'],
    'lookup',
    'speculative decoding: by prompt lookup (n-gram), or also by the multi-token-prediction block of the model file (mtp)',
  ),
  prefixCache: flagOff('disable prefix caching'),
  pipelineDepth: preset('<steps>', wholeNumber(1, 2), 2, 'steps in flight, 1 or 2'),
  streamInterval: preset('<tokens>', wholeNumber(1), 1, 'tokens per streamed chunk'),
});

const REPLICA_OPTIONS = grouped('Executors:', {
  replicas: preset(
    '<count>',
    wholeNumber(1, MOST_REPLICAS),
    1,
    'executors, each with the whole model; requests are balanced among them',
    { scope: 'model', by: 'command' },
  ),
  standby: preset(
    '<count>',
    wholeNumber(0, MOST_REPLICAS),
    0,
    'standby replicas: the model is loaded, and they take over the streams of another replica that is lost (of several --executor, the last)',
    { scope: 'model' },
  ),
  allowOtherArithmetic: flag(
    'allow failover of a stream to an executor with other numerics: results may differ in the last bits',
  ),
  stepTimeoutMs: preset('<ms>', wholeNumber(1), 2000, 'least time (ms) before a step counts as hung'),
  maxRestarts: preset('<count>', wholeNumber(0), 10, 'executor crashes per minute before restarts slow down'),
  recoveryTimeoutMs: preset(
    '<seconds>',
    seconds(wholeNumber(1)),
    300_000,
    'time (s) without a completed step after which requests no longer wait for an executor that is killed or does not answer',
    { flag: 'recovery-timeout', defaultText: '300' },
  ),
  hasSpare: flagOnOff(
    'keep a second executor ready to take over (default: on the CPU, and on a GPU that has room for it)',
    'keep no second executor',
    { flag: 'spare' },
  ),
  keepsMemory: flagOff('do not keep weights and KV cache of an executor that was killed; load and recompute them', {
    flag: 'keeper',
  }),
  executors: option(
    '<address>',
    addresses,
    'HOST:PORT or unix:PATH of a running executor to use instead of starting one; repeat it for replicas',
    { flag: 'executor', by: 'command' },
  ),
  executorSecretFile: option('<file>', text, 'secret that the executor at --executor requires', { by: 'command' }),
  executorCa: option('<file>', text, 'use TLS with --executor; authorities that sign its certificate (PEM)', {
    by: 'command',
  }),
  executorCert: option('<file>', text, 'client certificate for --executor (PEM), if it requires one', {
    by: 'command',
  }),
  executorKey: option('<file>', text, 'private key of --executor-cert (PEM)', { by: 'command' }),
});

const QUEUE_OPTIONS = grouped('Queue and connections:', {
  maxQueuedRequests: preset(
    '<count>',
    wholeNumber(1),
    1024,
    'requests in the queue, above which new ones are rejected',
  ),
  maxQueuedTokens: preset(
    '<count>',
    wholeNumber(1),
    1 << 20,
    'prompt tokens in the queue, above which new requests are rejected',
  ),
  maxQueuedRequestsPerPeer: preset(
    '<count>',
    wholeNumber(1),
    256,
    'queued requests per client address, and the same share of the queued tokens; behind a proxy set --trusted-proxies',
  ),
  maxPriority: preset('<number>', integer, 0, 'highest priority that a request may have'),
});

const HTTP_OPTIONS = grouped('HTTP API:', {
  httpPage: flagOff('disable the chat page'),
  httpSlots: flag('enable llama.cpp’s /slots'),
  httpMetrics: flag('enable /metrics with the names of llama.cpp’s server, and the server view of the chat page'),
  httpPull: flag('let clients download models from the hub to this machine with Ollama’s /api/pull', {
    by: 'command',
  }),
  httpVerbose: flag('include the rendered prompt in chat responses by default (__verbose)'),
  strictFields: flag(
    'reject requests with unknown fields (HTTP 400) instead of ignoring and reporting them in x-rocmforge-ignored-fields',
  ),
});

const OPERATION_OPTIONS = grouped('Operation:', {
  drainTimeoutMs: preset(
    '<ms>',
    wholeNumber(0),
    30_000,
    'time (ms) that streams get to finish after SIGTERM, SIGINT or SIGHUP',
    { by: 'command' },
  ),
  drainDelayMs: preset(
    '<ms>',
    wholeNumber(0),
    0,
    'time (ms) after the signal in which requests are accepted but probes report not ready; longer than a load balancer’s interval',
    { by: 'command' },
  ),
  stateDir: option('<folder>', text, 'folder of the latest faults, for doctor (default: ~/.local/state/rocmforge)', {
    by: 'command',
  }),
  otlpEndpoint: option('<url>', text, 'OpenTelemetry collector of request spans, such as http://127.0.0.1:4318', {
    reported: 'host',
  }),
});

/** All options of `serve`. An option is one row here, in the order of the help, and the code that reads its value. */
export const SERVE_OPTIONS = {
  ...MEMORY_OPTIONS,
  ...DEVICE_OPTIONS,
  ...SPLIT_OPTIONS,
  ...TRUST_OPTIONS,
  ...TEST_OPTIONS,
  ...MODEL_OPTIONS,
  ...ADDRESS_OPTIONS,
  ...NAME_OPTIONS,
  ...CHAT_OPTIONS,
  ...LOADING_OPTIONS,
  ...PERFORMANCE_OPTIONS,
  ...REPLICA_OPTIONS,
  ...QUEUE_OPTIONS,
  ...CONNECTION_OPTIONS,
  ...HTTP_OPTIONS,
  ...HTTP_CALLER_OPTIONS,
  ...OPERATION_OPTIONS,
};
