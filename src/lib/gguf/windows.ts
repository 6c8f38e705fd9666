import type { ArchitectureKeys } from './architecture-keys.js';
import type { Traits } from './architecture-traits.js';
import type { ModelParameters } from './model-parameters.js';

const FREQ_BASE = [1, 1e15] as const;

/** Values where a file of an architecture names none. */
interface WindowDefaults {
  readonly period: number;
  readonly size?: number;
  /** Base of the rotation of windowed layers; absent: they have none of their own. */
  readonly ropeFreqBase?: number;
  /** The first of `period` layers sees everything, instead of the last. */
  readonly seesAllFirst?: true;
}

/**
 * Window of each layer. The last of `period` layers sees everything, the others are windowed; with 0 all are. A list of
 * booleans says it for each layer. No size is no window. The base is read where windowed layers have one of their own.
 *
 * @throws GgufError `GGUF_INVALID` for a size that is none, or a list that has not one entry a layer
 */
export function readWindow(
  keys: ArchitectureKeys,
  { layers }: ModelParameters,
  defaults: WindowDefaults,
): Pick<Traits, 'window'> {
  const size = keys.optionalNumber('attention.sliding_window') ?? defaults.size ?? 0;
  const pattern = keys.numberOrBooleans('attention.sliding_window_pattern') ?? defaults.period;
  const ropeFreqBase =
    defaults.ropeFreqBase && (keys.optionalPositive('rope.freq_base_swa', ...FREQ_BASE) ?? defaults.ropeFreqBase);
  if (!Number.isSafeInteger(size) || size < 0) keys.fail('attention.sliding_window', `is ${size}`);
  if (typeof pattern !== 'number' && pattern.length !== layers) {
    keys.fail('attention.sliding_window_pattern', `has ${pattern.length} entries for ${layers} layers`);
  }
  if (size === 0) return {};
  const isSlidingWindow = (layer: number): boolean => {
    if (typeof pattern !== 'number') return pattern[layer] === true;
    return pattern === 0 || (defaults.seesAllFirst ? layer % pattern !== 0 : layer % pattern < pattern - 1);
  };
  const windowed = Array.from({ length: layers }, (_, layer) => isSlidingWindow(layer));
  return { window: { size, layers: windowed, ...(ropeFreqBase !== undefined && { ropeFreqBase }) } };
}
