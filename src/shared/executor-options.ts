import { flag, flagOf, type GivenValues, grouped, type OptionRows, option, preset } from './option-table.js';
import { listOf, positive, text, wholeNumber, wholeNumbers } from './option-types.js';
import { SPLIT_KINDS } from './split.js';

/** Options of every command that opens a device or starts an executor that does. */
export const DEVICE_OPTIONS = grouped('Device:', {
  device: preset(
    '<kind>',
    ['auto', 'hip', 'cuda', 'host'],
    'auto',
    'hip: AMD GPU; cuda: NVIDIA GPU; host: CPU; auto: a usable GPU, otherwise the CPU',
    { by: 'executor', scope: 'model' },
  ),
  gpu: option('<number>', wholeNumber(0), 'index of the GPU on its platform (default: the first usable one)', {
    by: 'executor',
    scope: 'model',
  }),
  threads: option(
    '<count>',
    wholeNumber(1),
    'threads of the CPU backend (default: all processors that CPU quotas allow)',
    { by: 'executor', scope: 'model' },
  ),
  kernels: option('<folder>', text, 'built kernels (default: those of the package)', { by: 'executor' }),
  attention: preset(
    '<kind>',
    ['fused', 'unfused'],
    'fused',
    'fused, or one kernel per operation: slow, for comparison',
    { by: 'executor' },
  ),
});

const splitOptions = (meaning: string) =>
  grouped('Several GPUs:', {
    gpus: option('<numbers>', listOf(wholeNumber(0)), `indices of several GPUs, such as 0,1: ${meaning}`, {
      by: 'executor',
      scope: 'model',
    }),
    split: option(
      '<kind>',
      SPLIT_KINDS,
      'layer: pipeline parallel, for memory; tensor: tensor parallel over 2, 4 or 8 GPUs, for speed',
      { by: 'executor', scope: 'model' },
    ),
    tensorSplit: option(
      '<shares>',
      listOf(positive),
      'with --split layer: share of the model on each GPU, such as 3,1 (default: by free memory)',
      { by: 'executor', scope: 'model' },
    ),
  });

/** Options of commands that start executors, each of which may split a model over several devices. */
export const SPLIT_OPTIONS = splitOptions('a replica on each, or with --split one model over all of them');
/** The same of commands with one executor. */
export const ONE_EXECUTOR_SPLIT_OPTIONS = splitOptions('one model over all of them, with --split');

const HIDDEN = { isHidden: true } as const;

/** For tests: slows the executor down, or makes it fault. */
export const TEST_OPTIONS = {
  stepDelayMs: option('<ms>', wholeNumber(0), 'hold back each step’s answer', { by: 'executor', isHidden: true }),
  plantFault: option('<fault>', text, 'abort, exit, hang or sticky, with @TOKEN for steps of that token alone', {
    by: 'executor',
    isHidden: true,
  }),
};

/** Options that only a gateway gives to the executors that it starts. */
export const INHERITED_OPTIONS = {
  dieWithParent: flag('end with the process that started this one', HIDDEN),
  faultRecord: option('<file>', text, 'file in which to keep what is being done on the device', HIDDEN),
  modelDescriptors: option('<number>', wholeNumbers(0), 'descriptor of the model’s file, or of each part of it', {
    ...HIDDEN,
    flag: 'model-fd',
  }),
  keptMemory: option('<number>', wholeNumber(0), 'descriptor of memory that outlives the executor', {
    ...HIDDEN,
    flag: 'kept-memory-fd',
  }),
  savedMemory: option('<number>', wholeNumber(0), 'descriptor of memory for KV blocks of an unloaded model', {
    ...HIDDEN,
    flag: 'saved-memory-fd',
  }),
  keeper: option('<path>', text, 'socket of the process that keeps a GPU’s memory', HIDDEN),
  hasSpare: flag('leave room for another executor on the device', HIDDEN),
  prestarted: flag('open no device before the process that started this one writes to stdin', HIDDEN),
};

/** Options with which a gateway starts an executor. */
export const EXECUTOR_OPTIONS = { ...DEVICE_OPTIONS, ...ONE_EXECUTOR_SPLIT_OPTIONS, ...TEST_OPTIONS };

/** Arguments of a command line that has the given values of a table's options, each with a value of its own. */
export function argumentsOf<R extends OptionRows>(rows: R, given: GivenValues<R>): string[] {
  return Object.entries(rows).flatMap(([name, row]) => {
    const value = given[name as keyof typeof given];
    return value === undefined ? [] : [`--${flagOf(name, row)}`, String(value)];
  });
}
