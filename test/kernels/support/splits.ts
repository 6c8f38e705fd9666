import fc from 'fast-check';
import { ATTENTION_SPLIT, COMBINE_FEW, NO_SINK } from '../../../src/executor/kernels/index.js';
import { attentionCombine } from '../reference/attention_combine.js';
import { fill, fills, Random, seed, size } from './values.js';

/** Sizes of rows whose contexts were attended to split by split. @param headDims of a head */
export const splitCases = (headDims: fc.Arbitrary<number>) =>
  fc.tuple(
    fc.record({
      tokens: size(4),
      heads: size(4),
      head_dim: headDims,
      splits: fc.oneof(size(6), fc.constantFrom(COMBINE_FEW, COMBINE_FEW + 1, 127, 128, 129, 150)),
      window: fc.constantFrom(0, 0, 1, 300),
      sink: fc.constantFrom(undefined, -30, 2, 25),
    }),
    fills('normal', 'zeros', 'denormal'),
    seed,
  );

/** A head's sink as a part: a score whose value is zero. */
const sinkPart = (sink: number, headDim: number): number[] => [sink, 1, ...new Array<number>(headDim).fill(0)];

type SplitCase = ReturnType<typeof splitCases> extends fc.Arbitrary<infer C> ? C : never;

/** Partial results of each row's splits, NaN where there is none, and their combination. */
export function splitParts([{ tokens, heads, head_dim, splits, window, sink }, kind, start]: SplitCase) {
  const random = new Random(start);
  const width = head_dim + 2;
  const row_position = Int32Array.from({ length: tokens }, () => random.below(splits * ATTENTION_SPLIT));
  const parts = new Float32Array(tokens * heads * splits * width).fill(Number.NaN);
  const sinks = Float32Array.from({ length: heads }, (_, head) => (sink === undefined ? NO_SINK : sink + head));
  const values = new Float64Array(tokens * heads * head_dim);
  const magnitudes = new Float64Array(values.length);
  for (let place = 0; place < tokens * heads; place++) {
    const position = row_position[Math.floor(place / heads)]!;
    const begin = window === 0 ? 0 : Math.max(0, position + 1 - window);
    const used = Math.floor(position / ATTENTION_SPLIT) - Math.floor(begin / ATTENTION_SPLIT) + 1;
    const own = Array.from({ length: used }, (_, split) => {
      // Largest score, a sum of up to 128 weights of which one is 1, and values.
      const part = fill(kind, width, random);
      part[0] = random.next() * 40 - 20;
      part[1] = 1 + random.next() * 127;
      parts.set(part, (place * splits + split) * width);
      return part;
    });
    const ownSink = sinks[place % heads]!;
    const expected = attentionCombine(sink === undefined ? own : [...own, sinkPart(ownSink, head_dim)], head_dim);
    values.set(expected.values, place * head_dim);
    magnitudes.set(expected.magnitudes, place * head_dim);
  }
  return { launched: { parts, sinks, row_position, heads, head_dim, splits, window }, values, magnitudes };
}
