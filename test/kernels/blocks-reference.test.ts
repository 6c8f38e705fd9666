import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import type { BlockType } from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';

/** Blocks and what llama.cpp's own Python package dequantizes them to; `madeBy` says how they were made. */
const { types } = JSON.parse(
  readFileSync(fileURLToPath(new URL('../fixtures/blocks.json', import.meta.url)), 'utf8'),
) as { types: Record<string, { blocks: string; values: string }> };

it.each(Object.entries(types))(
  '%s: the reference that kernels are held against reads blocks as gguf-py does',
  (type, fixture) => {
    const { products, minimums } = readBlocks(type as BlockType, Buffer.from(fixture.blocks, 'base64'));
    const expected = new Float32Array(Uint8Array.from(Buffer.from(fixture.values, 'base64')).buffer);
    expect(Float32Array.from(products, (product, i) => product - minimums[i]!)).toEqual(expected);
  },
);
