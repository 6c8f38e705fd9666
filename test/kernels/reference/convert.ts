import { encode, type FloatArray } from '../support/half.js';

/** The bits of x, rounded to nearest, ties to even. */
export function convert(type: 'f16' | 'bf16', x: Float32Array): FloatArray {
  return encode(type, x);
}
