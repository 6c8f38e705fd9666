const view = new DataView(new ArrayBuffer(4));

/** The f32 bits of `value`. */
export function bitsOf(value: number): number {
  view.setFloat32(0, value);
  return view.getInt32(0);
}

/** The number whose f32 bits `bits` are. */
export function fromBits(bits: number): number {
  view.setInt32(0, bits);
  return view.getFloat32(0);
}

/** IEEE binary16 bits of `value`, rounded to nearest, ties to even. */
export function toHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(size || 2 ** -24)));
  const unit = 2 ** (exponent - 10);
  const steps = size / unit;
  const floor = Math.floor(steps);
  const up = steps - floor > 0.5 || (steps - floor === 0.5 && floor % 2 === 1);
  // A carry out of the significand is the next exponent's first number: the bits are one running count.
  const normal = floor + (up ? 1 : 0) + (exponent + 14) * 1024;
  return sign | normal;
}

/** Values of all binary16 numbers: references convert millions of them. */
const HALVES = Float64Array.from({ length: 65_536 }, (_, bits) => halfOf(bits));

/** The number that IEEE binary16 `bits` stand for. */
export const fromHalf = (bits: number): number => HALVES[bits]!;

function halfOf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1024 + fraction) * 2 ** (exponent - 25));
}

/** bfloat16 bits of `value`, rounded to nearest, ties to even. */
export function toBfloat(value: number): number {
  if (Number.isNaN(value)) return 0x7fc0;
  const bits = bitsOf(value) >>> 0;
  return Math.floor((bits + 0x7fff + ((bits >>> 16) & 1)) / 65536) & 0xffff;
}

/** The number that bfloat16 `bits` stand for. */
export const fromBfloat = (bits: number): number => fromBits(bits << 16);

export type FloatArray = Float32Array | Uint16Array;
export type FloatName = 'f32' | 'f16' | 'bf16';

/** `values` as an array of the element type. */
export function encode(type: FloatName, values: Float32Array): FloatArray {
  if (type === 'f32') return values;
  const [encoded, bitsOfOne] = [new Uint16Array(values.length), type === 'f16' ? toHalf : toBfloat];
  for (let i = 0; i < values.length; i++) encoded[i] = bitsOfOne(values[i]!);
  return encoded;
}

/** Numbers in an array of the element type. */
export function decode(type: FloatName, values: FloatArray): Float32Array {
  if (type === 'f32') return values as Float32Array;
  const [decoded, numberOf] = [new Float32Array(values.length), type === 'f16' ? fromHalf : fromBfloat];
  for (let i = 0; i < values.length; i++) decoded[i] = numberOf(values[i]!);
  return decoded;
}
