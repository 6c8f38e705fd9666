import { MEMORY_OPTIONS } from '../gateway/option-table.js';
import { MAX_PORT } from '../shared/address.js';
import { DEVICE_OPTIONS, ONE_EXECUTOR_SPLIT_OPTIONS } from '../shared/executor-options.js';
import { flagOrFalse, option, preset, required } from '../shared/option-table.js';
import { byteCount, text, texts, wholeNumber } from '../shared/option-types.js';
import { STATE_DIR } from './admin/operate-commands.js';

const { kvCacheType, stateSnapshots } = MEMORY_OPTIONS;
const JSON_OPTION = { json: flagOrFalse('print JSON') };

export const DEMO_OPTIONS = {
  ...DEVICE_OPTIONS,
  kvCacheType,
  prompt: preset('<text>', text, 'Tell me a story about a brave fox.', 'prompt'),
  page: flagOrFalse('serve the chat page on this machine instead, with a button that kills the executor'),
  port: preset('<port>', wholeNumber(0, MAX_PORT), 8080, 'with --page: port on 127.0.0.1; 0 for any'),
};

export const VERIFY_OPTIONS = {
  ...DEVICE_OPTIONS,
  model: option('<file...>', texts, 'GGUF files (default: the model of the package, with its parity file)'),
  parity: preset(
    '<file...>',
    texts,
    [],
    'llama.cpp’s tokens and log probabilities, one file per --model in the same order',
  ),
  kvCacheType: { ...kvCacheType, default: 'f32' },
  besideHost: flagOrFalse('compare logits with those of the CPU backend'),
  tokens: preset('<count>', wholeNumber(0), 0, 'tokens to generate for the check that memory does not grow'),
  speed: flagOrFalse(
    'measure only the decode speed of one sequence, with random weights, and compare it with the prediction',
  ),
  shape: preset('<name>', text, 'llama-3.1-8b', 'with --speed: a shape of synth'),
  type: preset('<type>', text, 'Q4_K_M', 'with --speed: a type of synth'),
  ...JSON_OPTION,
};

export const SYNTH_OPTIONS = {
  shape: required('<name>', text, 'model shape, such as llama-3.2-1b, llama-3.1-8b or tiny; an unknown name lists all'),
  type: required('<type>', text, 'quantization, such as F16, Q8_0, Q4_0 or Q4_K_M; an unknown name lists all'),
  output: required('<file>', text, 'file to write', { short: '-o' }),
  withoutWeights: flagOrFalse('write zeros that take no room on a disk, for inspect --fit'),
};

export const INSPECT_OPTIONS = {
  ...ONE_EXECUTOR_SPLIT_OPTIONS,
  fit: flagOrFalse(
    'report the context lengths and numbers of sequences that fit; allocates the memory of a load on each GPU for a moment',
  ),
  context: option('<tokens>', wholeNumber(1), 'with --fit: context length (default: the model’s, at most 8192)'),
  sequences: option('<count>', wholeNumber(1), 'with --fit: sequences that run at once (default: as serve chooses)'),
  memory: option(
    '<bytes>',
    byteCount,
    'with --fit: free memory of an assumed GPU, such as 24GiB (default: each GPU of this machine)',
  ),
  deviceMemory: option(
    '<bytes>',
    byteCount,
    'with --fit: memory of each GPU to use, such as 16GiB (default: what is free)',
  ),
  kvCacheType,
  stateSnapshots,
  cpuExperts: option(
    '<layers>',
    wholeNumber(0),
    'with --fit: layers, the last that have any, whose routed experts stay in host memory (default: as few as fit)',
  ),
  ...JSON_OPTION,
};

export const DOCTOR_OPTIONS = {
  stateDir: STATE_DIR,
  report: flagOrFalse('print one block to paste, without names and paths except those of devices'),
  ...JSON_OPTION,
};
