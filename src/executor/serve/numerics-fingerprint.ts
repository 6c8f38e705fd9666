import type { Device } from '../device/device.js';
import type { LoadedModel } from '../load/loaded-model.js';
import { changesNumerics } from '../load/placement.js';
import { isAttention, valuesOf } from '../model/values.js';

/** Digits of a code object's digest that tell builds apart. */
const CODE_DIGITS = 16;

/**
 * Numerics fingerprint: everything beside the model's file that decides the bits of a token's logits, readable and comparable: what the
 * kernels were built for and from, the KV cache's elements, whether attention is fused, and which of two sets of RoPE's
 * divisors the context's length has chosen; over how many devices products are added up; and the number of layers whose
 * experts the host computes, where it computes other bits than the device.
 */
export function arithmeticOf(device: Device, model: LoadedModel): string {
  const { kvCacheType, maxContext, attention = 'fused' } = model.options;
  const scaled = [...valuesOf(model.graph)].flatMap((value) => {
    const divisors = isAttention(value) ? value.rope.divisors : undefined;
    return divisors !== undefined && 'short' in divisors ? [divisors] : [];
  });
  const ropes = scaled.map(({ originalContextLength }) => (maxContext > originalContextLength ? 'long' : 'short'));
  const rope = [...new Set(ropes)].join('+') || 'one';
  const code = device.code.slice(0, CODE_DIGITS);
  // Between layers nothing is added up anew.
  const ranks = model.pipeline.stages.filter(({ graph }) => graph.isShard).length || 1;
  const { cpuExperts } = model;
  // The host's levels compute the same bits, and its kernels are of the device's release.
  const experts = changesNumerics(device, model.graph, cpuExperts) ? ` cpu-experts=${cpuExperts}` : '';
  return `${device.kind} ${device.target} code=${code} kv=${kvCacheType} attention=${attention} rope=${rope} ranks=${ranks}${experts}`;
}
