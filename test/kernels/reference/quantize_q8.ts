/** Activations in blocks of 32: what `quants[i] * scales[i / 32]` stands for. */
export interface Quantized {
  readonly quants: Int8Array;
  readonly scales: Float32Array;
  /** Sums of sixteen quants each. */
  readonly sums: Int16Array;
}

const BLOCK = 32;

/** round(x · (127 / largest)) and largest / 127 of each 32 elements, rounded to f32 after each operation. */
export function quantizeQ8(x: Float32Array): Quantized {
  const quants = new Int8Array(x.length);
  const scales = new Float32Array(x.length / BLOCK);
  const sums = new Int16Array(x.length / 16);
  for (let b = 0; b < scales.length; b++) {
    const values = x.subarray(b * BLOCK, (b + 1) * BLOCK);
    const largest = values.reduce(
      (most, value) => (Number.isNaN(most + value) ? Number.NaN : Math.max(most, Math.abs(value))),
      0,
    );
    const isSpecial = !Number.isFinite(largest) || largest < Math.fround(1e-36);
    const inverse = isSpecial ? 0 : Math.fround(127 / largest);
    scales[b] = largest < Math.fround(1e-36) ? 0 : largest / 127;
    values.forEach((value, i) => {
      const quant = isSpecial ? 0 : roundToEven(Math.fround(value * inverse));
      quants[b * BLOCK + i] = quant;
      sums[Math.floor((b * BLOCK + i) / 16)]! += quant;
    });
  }
  return { quants, scales, sums };
}

/** A row of `in` elements as `forge/q8.h` lays it out: quants, then scales, then sums. */
export function packRow(row: Quantized): Uint8Array {
  return Buffer.concat([row.quants, row.scales, row.sums].map((part) => Buffer.from(part.buffer)));
}

function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 !== 0) ? floor + 1 : floor;
}
