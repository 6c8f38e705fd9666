import type { Device } from '../device/device.js';
import type { LoadedModel } from '../load/loaded-model.js';
import { changesNumerics } from '../load/placement.js';
import { isAttention, valuesOf } from '../model/values.js';

/** Digits of a code object's digest that tell builds apart. */
const CODE_DIGITS = 16;

/**
 * Numerics fingerprint: everything except the model's file that decides the bits of a token's logits, as readable text. It has the
 * target and digest of the kernels, the type of the KV cache, whether attention is fused, which of longrope's two tables the
 * context selects, the number of ranks, and the number of layers whose experts the host computes with other numerics than the
 * device.
 */
export function numericsOf(device: Device, model: LoadedModel): string {
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
