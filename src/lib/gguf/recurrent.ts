import type { ArchitectureKeys } from './architecture-keys.js';

/** Rows that the convolution sees, as kernels have it (`DELTA_TAPS` of src/executor/kernels/delta-net.ts). */
const CONVOLUTION = 4;

/** Gated delta nets in place of most attention layers; Yang, Kautz & Hatamizadeh (2025). */
export interface Recurrent {
  /** Heads of q and k; value head i takes the key head i mod keyHeads, unless they are grouped. */
  readonly keyHeads: number;
  readonly valueHeads: number;
  /** Width of a head; its state is as many rows of as many. */
  readonly dim: number;
  /** Value heads of a key head follow each other, and their gates are of one matrix. */
  readonly isGrouped?: true;
  /** Which layers have a state, and no keys and values. */
  readonly layers: readonly boolean[];
}

/** Short convolutions in place of most attention layers; LFM2. */
export interface ShortConvolutions {
  /** Rows that a convolution sees, a row's own included. */
  readonly taps: number;
  /** Which layers have a state, and no keys and values. */
  readonly layers: readonly boolean[];
}

/** State-space layers, in place of most attention layers or beside them; Mamba 2, Dao & Gu (2024). */
export interface MambaStates {
  readonly heads: number;
  /** Rows of a head's state, and columns. */
  readonly dim: number;
  readonly state: number;
  /** Groups of heads that share what is written and read. */
  readonly groups: number;
  /** Rows that the convolution sees, a row's own included. */
  readonly taps: number;
  /** Which layers have a state. */
  readonly layers: readonly boolean[];
}

/** True if kernels can compute accepted rows again from inputs that were kept: only then slices may have draft tokens. */
export const canReplay = (recurrent: Recurrent | ShortConvolutions | MambaStates): boolean =>
  !('groups' in recurrent || 'isGrouped' in recurrent);

/**
 * State-space layers of the sizes that a file has.
 *
 * @param layers which have a state
 * @throws GgufError `GGUF_INVALID` for a key that is missing or contradicts another
 */
export function readMamba(keys: ArchitectureKeys, layers: readonly boolean[]): MambaStates {
  const [heads, state] = [keys.count('ssm.time_step_rank'), keys.count('ssm.state_size')];
  const [inner, groups] = [keys.count('ssm.inner_size'), keys.count('ssm.group_count')];
  const taps = keys.count('ssm.conv_kernel');
  if (taps < 2 || taps > MOST_TAPS) keys.fail('ssm.conv_kernel', `is ${taps}; models have 2 to ${MOST_TAPS}`);
  if (inner % heads !== 0) keys.fail('ssm.inner_size', `is ${inner}, which ${heads} heads do not divide`);
  if (heads % groups !== 0) keys.fail('ssm.group_count', `is ${groups}, which does not divide the ${heads} heads`);
  return { heads, dim: inner / heads, state, groups, taps, layers };
}

/** The most rows that a convolution sees; models have 3. */
const MOST_TAPS = 64;

/**
 * The convolutions of lfm2 and lfm2moe: layers without key heads.
 *
 * @throws GgufError `GGUF_INVALID` for a key that is missing or absurd
 */
export function readShortConvolutions(keys: ArchitectureKeys, layers: number): ShortConvolutions {
  const taps = keys.count('shortconv.l_cache');
  if (taps < 2 || taps > MOST_TAPS) keys.fail('shortconv.l_cache', `is ${taps}; models have 2 to ${MOST_TAPS}`);
  const kvHeads = keys.layerCounts('attention.head_count_kv', layers);
  return { taps, layers: kvHeads.map((count) => count === 0) };
}

/**
 * The nets of qwen35, qwen35moe and qwen3next. Of every `full_attention_interval` layers the last has attention, the others are nets;
 * a list of a boolean a layer says so itself.
 *
 * @throws GgufError `GGUF_INVALID` for a key that is missing or contradicts another, `MODEL_UNSUPPORTED` for a
 *         convolution that there is no kernel for
 */
export function readRecurrent(keys: ArchitectureKeys, layers: number): Recurrent {
  const [keyHeads, valueHeads] = [keys.count('ssm.group_count'), keys.count('ssm.time_step_rank')];
  const dim = keys.count('ssm.state_size');
  const inner = keys.count('ssm.inner_size');
  const taps = keys.count('ssm.conv_kernel');
  if (taps !== CONVOLUTION) keys.unsupported('ssm.conv_kernel', `is ${taps}; built is ${CONVOLUTION}`);
  if (valueHeads % keyHeads !== 0) {
    keys.fail('ssm.group_count', `is ${keyHeads}, which does not divide the ${valueHeads} value heads`);
  }
  if (inner !== valueHeads * dim)
    keys.fail('ssm.inner_size', `is ${inner}, not ${valueHeads} heads of ${dim} elements`);
  const interval = keys.optionalCount('full_attention_interval') ?? 4;
  const listed = keys.numberOrBooleans('attention.recurrent_layers');
  if (typeof listed === 'number') keys.fail('attention.recurrent_layers', `is ${listed}, no list of a boolean a layer`);
  if (listed !== undefined && listed.length < layers) {
    keys.fail('attention.recurrent_layers', `has ${listed.length} entries for ${layers} layers`);
  }
  const isNet = (layer: number): boolean => listed?.[layer] ?? (layer + 1) % interval !== 0;
  return { keyHeads, valueHeads, dim, layers: Array.from({ length: layers }, (_, layer) => isNet(layer)) };
}
