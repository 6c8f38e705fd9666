import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { BlockType } from '../../../src/executor/kernels/index.js';
import { packageRoot } from '../../../src/shared/package.js';
import { fromHalf } from '../support/half.js';

/** The block formats whose elements are named by indices into tables: eight, or in IQ3 four, of one index. */
export type GridType = Extract<BlockType, `iq1_${string}` | `iq2_${string}` | `iq3_${string}`>;

/**
 * Description of eight elements: the indices that name them, a bit each for the sign or the shift's direction, and their scale.
 */
interface Eight {
  readonly indices: readonly number[];
  readonly flags: number;
  readonly scale: number;
}

interface GridFormat {
  readonly table: string;
  /** Magnitudes that codes stand for, in units of `unit`. */
  readonly magnitudes: readonly number[];
  readonly unit: number;
  /** Offset of the f16; a function where its bits are apart. */
  readonly factor: (block: DataView) => number;
  /** Elements 8 g to 8 g + 7. */
  readonly eight: (block: DataView, g: number) => Eight;
}

const bits = (number: number, from: number, count: number): number => Math.floor(number / 2 ** from) % 2 ** count;
const nibble = (block: DataView, at: number, i: number): number =>
  bits(block.getUint8(at + Math.floor(i / 2)), 4 * (i % 2), 4);
/** Seven signs, and an eighth that makes the number of those set even. */
function evenSigns(seven: number): number {
  let set = 0;
  for (let i = 0; i < 7; i++) set += bits(seven, i, 1);
  return seven + 128 * (set % 2);
}
/** Contents of a word of IQ2_XXS and IQ3_XXS: four times seven signs, and a scale. */
const inWord = (word: number, l: number) => ({
  flags: evenSigns(bits(word, 7 * l, 7)),
  scale: 2 * bits(word, 28, 4) + 1,
});
const half = (block: DataView): number => fromHalf(block.getUint16(0, true));
const odd = (whole: number): number => 2 * whole + 1;

const IQ2 = { magnitudes: [8, 25, 43], unit: 1 / 8, factor: half };
const IQ1 = { table: 'IQ1', magnitudes: [-1, 0, 1], unit: 1 };

const GRID_FORMATS: Readonly<Record<GridType, GridFormat>> = {
  iq2_xxs: {
    ...{ ...IQ2, table: 'IQ2_XXS' },
    eight: (b, g) => {
      const [s, l] = [Math.floor(g / 4), g % 4];
      return { indices: [b.getUint8(2 + 8 * s + l)], ...inWord(b.getUint32(6 + 8 * s, true), l) };
    },
  },
  iq2_xs: {
    ...{ ...IQ2, table: 'IQ2_XS' },
    eight: (b, g) => {
      const both = b.getUint16(2 + 2 * g, true);
      const scale = odd(nibble(b, 66, Math.floor(g / 2)));
      return { indices: [bits(both, 0, 9)], flags: evenSigns(bits(both, 9, 7)), scale };
    },
  },
  iq2_s: {
    ...{ ...IQ2, table: 'IQ2_S' },
    eight: (b, g) => ({
      indices: [b.getUint8(2 + g) + 256 * bits(b.getUint8(66 + Math.floor(g / 4)), 2 * (g % 4), 2)],
      flags: b.getUint8(34 + g),
      scale: odd(nibble(b, 74, Math.floor(g / 2))),
    }),
  },
  iq3_xxs: {
    table: 'IQ3_XXS',
    magnitudes: [4, 12, 20, 28, 36, 44, 52, 62],
    unit: 1 / 4,
    factor: half,
    eight: (b, g) => ({
      indices: [b.getUint8(2 + 2 * g), b.getUint8(3 + 2 * g)],
      ...inWord(b.getUint32(66 + 4 * Math.floor(g / 4), true), g % 4),
    }),
  },
  iq3_s: {
    table: 'IQ3_S',
    magnitudes: [1, 3, 5, 7, 9, 11, 13, 15],
    unit: 1,
    factor: half,
    eight: (b, g) => ({
      indices: [0, 1].map(
        (i) => b.getUint8(2 + 2 * g + i) + 256 * bits(b.getUint8(66 + Math.floor(g / 4)), 2 * (g % 4) + i, 1),
      ),
      flags: b.getUint8(74 + g),
      scale: odd(nibble(b, 106, Math.floor(g / 4))),
    }),
  },
  iq1_s: {
    ...{ ...IQ1, factor: half },
    eight: (b, g) => {
      const high = b.getUint16(34 + 2 * Math.floor(g / 4), true);
      return {
        indices: [b.getUint8(2 + g) + 256 * bits(high, 3 * (g % 4), 3)],
        flags: 255 * bits(high, 15, 1),
        scale: odd(bits(high, 12, 3)),
      };
    },
  },
  iq1_m: {
    ...IQ1,
    factor: (b) =>
      fromHalf([0, 1, 2, 3].reduce((all, w) => all + bits(b.getUint16(48 + 2 * w, true), 12, 4) * 16 ** w, 0)),
    eight: (b, g) => {
      const high = nibble(b, 32, g);
      return {
        indices: [b.getUint8(g) + 256 * bits(high, 0, 3)],
        flags: 255 * bits(high, 3, 1),
        scale: odd(bits(b.getUint16(48 + 2 * Math.floor(g / 8), true), 3 * (Math.floor(g / 2) % 4), 3)),
      };
    },
  },
};

/** The codes that indices name, of each table: `forge/grids.h`, read by its own words. */
const TABLES: ReadonlyMap<string, readonly number[]> = new Map(
  [
    ...readFileSync(path.join(packageRoot, 'kernels', 'forge', 'grids.h'), 'utf8').matchAll(
      /GRID_(\w+) = unpack_grid<\d+>\(\s*"([\s\S]*?)"\);/g,
    ),
  ].map(([, name = '', literals = '']) => {
    const digits = [...literals.replaceAll(/"\s*"/g, '').replaceAll('\\\\', '\\')].map((c) => c.charCodeAt(0) - 48);
    const codes: number[] = [];
    let [code, weight] = [0, 1];
    for (const digit of digits) {
      code += weight * (digit % 32);
      weight *= 32;
      if (digit >= 32) continue;
      codes.push(code);
      weight = 1;
    }
    return [name, codes];
  }),
);

export const isGridType = (type: BlockType): type is GridType => type in GRID_FORMATS;

/** Element i of a block: its number, its code and its flag. */
export function gridElement(type: GridType, block: DataView, i: number) {
  const { table, magnitudes, unit, factor, eight } = GRID_FORMATS[type];
  const { indices, flags, scale } = eight(block, Math.floor(i / 8));
  const each = 8 / indices.length;
  const entry = TABLES.get(table)![indices[Math.floor((i % 8) / each)]!]!;
  const width = magnitudes.length === 8 ? 3 : 2;
  const code = bits(entry, width * (i % each), width);
  const flag = bits(flags, i % 8, 1) === 1;
  const magnitude = magnitudes[code]!;
  const quant = table === 'IQ1' ? magnitude + (flag ? -1 / 8 : 1 / 8) : magnitude * (flag ? -1 : 1) * unit;
  return { product: factor(block) * scale * quant, code, flag };
}
