import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { BLOCK_TYPES, type BlockType } from '../../src/executor/kernels/index.js';
import { readBlocks } from './reference/blocks.js';
import { ggmlBlocks, hashOf } from './support/llama-blocks.js';

/** Blocks and what llama.cpp's own Python package dequantizes them to; `madeBy` says how they were made. */
const { types } = fixture('blocks.json') as { types: Record<string, { blocks: string; values: string }> };

/** Hashes of what llama.cpp itself dequantizes 1,000 random blocks of each type to. */
const { sha256 } = fixture('llama-blocks.json') as { sha256: Readonly<Record<BlockType, string>> };

function fixture(name: string): unknown {
  return JSON.parse(readFileSync(fileURLToPath(new URL(`../fixtures/${name}`, import.meta.url)), 'utf8'));
}

it.each(BLOCK_TYPES)('%s: the reference reads blocks as llama.cpp does', (type) => {
  const { products, minimums } = readBlocks(type, ggmlBlocks(type));
  expect(hashOf(Float32Array.from(products, (product, i) => product - minimums[i]!))).toBe(sha256[type]);
});

it.each(Object.entries(types))(
  '%s: the reference that kernels are held against reads blocks as gguf-py does',
  (type, fixture) => {
    const { products, minimums } = readBlocks(type as BlockType, Buffer.from(fixture.blocks, 'base64'));
    const expected = new Float32Array(Uint8Array.from(Buffer.from(fixture.values, 'base64')).buffer);
    expect(Float32Array.from(products, (product, i) => product - minimums[i]!)).toEqual(expected);
  },
);
