import { usableProcessors } from '../../executor/load/processors.js';
import type { ModelPull } from '../../gateway/api/http/ollama/ollama-pull.js';
import { SERVE_OPTIONS } from '../../gateway/option-table.js';
import {
  GATEWAY_OPTIONS,
  type GatewayOptions,
  type GivenGatewayOptions,
  type ModelOptions,
} from '../../gateway/options.js';
import { RocmForgeError } from '../../shared/errors.js';
import { EXECUTOR_OPTIONS } from '../../shared/executor-options.js';
import { flagOf, type GivenValues, type OptionValues, valuesOf, withDefaults } from '../../shared/option-table.js';
import { checkSplit } from '../common/options.js';
import { loadProgress } from '../common/progress.js';
import { pullModel } from '../hub/pull.js';
import { checkOrigins } from './origins.js';

/** Milliseconds from a gateway's start, after which short-lived ones have ended. */
const WARM_UP_MS = 3000;

/** Downloads for clients of Ollama's API: a served hub model was pulled by the same code. */
const pullQuietly: ModelPull = (name, progress) => pullModel(name, { progress, notice: () => undefined });

/** Options of a command that starts a gateway: some of those of `serve`, and the models. */
export type CommandOptions = GivenValues<typeof SERVE_OPTIONS> & {
  readonly model: string;
  readonly listen: string;
  readonly moreModels?: readonly ModelOptions[] | undefined;
};
type Options = CommandOptions & OptionValues<typeof SERVE_OPTIONS>;

/**
 * The gateway that a command's options ask for.
 *
 * @throws RocmForgeError `INVALID_OPTION` for options that need others
 */
export function gatewayOptions(given: CommandOptions): GivenGatewayOptions {
  const options = withDefaults(SERVE_OPTIONS, given);
  const unreachable = (['executorSecretFile', 'executorCa', 'executorCert', 'executorKey'] as const).find(
    (name) => options.executors === undefined && options[name] !== undefined,
  );
  if (unreachable !== undefined) {
    throw new RocmForgeError('INVALID_OPTION', `--${flagOf(unreachable)} requires --executor`);
  }
  if (options.prefixCache === false && (options.stateSnapshots ?? 0) > 0) {
    throw new RocmForgeError(
      'INVALID_OPTION',
      '--state-snapshots requires the prefix cache, which --no-prefix-cache turns off',
    );
  }
  checkOrigins(options.corsOrigins);
  checkSplit(options, 'replicas');
  checkElsewhere(options);
  const [executor, ...moreExecutors] = executorsOf(options);
  const { model, modelName, modelAlias, moreModels = [], maxSequences = 0, maxStepTokens = 0 } = options;
  const [httpListen, ...moreHttpListen] = options.httpAddresses ?? [];
  return {
    ...valuesOf(GATEWAY_OPTIONS, options),
    ...{ model, modelName, modelAlias, moreModels, executor: executor as Executor, moreExecutors },
    maxSequences,
    maxStepTokens: maxStepTokens && Math.max(maxStepTokens, maxSequences),
    kvMemoryBytes: options.kvMemoryBytes ?? 0,
    ...{ httpListen, moreHttpListen, pullModel: options.httpPull ? pullQuietly : undefined },
    // Threads of many models are started when they are needed.
    warmUpMs: moreModels.length > 0 ? undefined : WARM_UP_MS,
    onProgress: loadProgress(),
  };
}

type Executor = GatewayOptions['executor'];

/**
 * A gateway does not own an executor at another address: it serves one model there and cannot end its process.
 *
 * @throws RocmForgeError `INVALID_OPTION`
 */
function checkElsewhere(options: Options): void {
  if (options.executors === undefined) return;
  const refuse = (option: string, what: string): never => {
    throw new RocmForgeError('INVALID_OPTION', `${what} cannot be combined with --executor`, { option });
  };
  if ((options.moreModels ?? []).length > 0) refuse('model', 'several --model');
  if (options.idleUnloadMs !== undefined) refuse('idle-unload', '--idle-unload');
  if (options.kvHostBytes !== undefined) refuse('kv-host-memory', '--kv-host-memory');
  if (options.maxLoadedModels !== undefined) refuse('max-loaded-models', '--max-loaded-models');
  if (options.load !== 'at-start') refuse('load', `--load ${options.load}`);
}

/**
 * An executor a replica, those that stand by last.
 *
 * @throws RocmForgeError `INVALID_OPTION` for options of which only one can hold
 */
function executorsOf(options: Options): readonly Executor[] {
  const { device, gpu, gpus, split, replicas, standby, executors } = options;
  const spawn = valuesOf(EXECUTOR_OPTIONS, options);
  const refuse = (why: string): never => {
    throw new RocmForgeError('INVALID_OPTION', why);
  };
  if (executors !== undefined) {
    if (replicas > 1 || gpus)
      refuse('--replicas and --gpus cannot be combined with --executor; give --gpus to rocmforge executor');
    if (standby >= executors.length)
      refuse(`--standby is ${standby}; it must be less than the ${executors.length} of --executor`);
    if (new Set(executors).size < executors.length) refuse('--executor names an address twice; give each address once');
    return executors.map((address) => ({
      address,
      secretFile: options.executorSecretFile,
      ca: options.executorCa,
      cert: options.executorCert,
      key: options.executorKey,
    }));
  }
  if (gpus && gpu !== undefined) refuse('--gpu cannot be combined with --gpus');
  // An option that names a GPU never falls back to the CPU.
  if (gpu !== undefined && device === 'host') refuse('--gpu cannot be combined with --device host');
  if (split !== undefined) {
    if (replicas > 1) refuse('--replicas cannot be combined with --split');
    return Array.from({ length: 1 + standby }, () => ({ spawn }));
  }
  if (gpus && replicas > 1 && replicas !== gpus.length)
    refuse(`--replicas is ${replicas}, but --gpus names ${gpus.length}; leave --replicas out`);
  if (gpus && device === 'host')
    refuse('--gpus cannot be combined with --device host, except with --split; --replicas 2 runs two on the CPU');
  const serving = gpus?.length ?? replicas;
  // Threads of several that each took all processors would wait for one another.
  const models = 1 + (options.moreModels ?? []).length;
  const onHost = gpus ? 1 : serving * Math.min(models, options.maxLoadedModels ?? models);
  const shared = onHost > 1 ? Math.max(1, Math.floor(usableProcessors() / onHost)) : undefined;
  const threads = options.threads ?? shared;
  return Array.from({ length: serving + standby }, (_, i) => ({
    spawn: { ...spawn, gpus: undefined, gpu: gpus?.[i % serving] ?? gpu, threads },
  }));
}
