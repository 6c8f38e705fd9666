import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { BLOCK_FORMATS } from '../../../src/shared/gguf/block-elements.js';
import { rowsOf } from '../../../src/shared/gguf/matrix-rows.js';
import type { GgufTensor } from '../../../src/shared/gguf/tensor-infos.js';
import type { TensorTypeName } from '../../../src/shared/gguf/tensor-types.js';
import { packageRoot } from '../../../src/shared/package.js';
import { ggmlBlocks, hashOf } from '../../kernels/support/llama-blocks.js';

/** Hashes of what llama.cpp itself dequantizes 1,000 random blocks of each type to. */
const { sha256 } = JSON.parse(
  readFileSync(path.join(packageRoot, 'test', 'fixtures', 'llama-blocks.json'), 'utf8'),
) as { sha256: Readonly<Record<string, string>> };

const tensorOf = (type: TensorTypeName, dims: readonly number[]) => ({ name: 'cls.weight', type, dims }) as GgufTensor;

describe('rows of a small matrix', () => {
  it.each(Object.entries(BLOCK_FORMATS))('in %s are what llama.cpp makes of them', (name, { elements, bytes }) => {
    const blocks = ggmlBlocks(name.toLowerCase() as Parameters<typeof ggmlBlocks>[0]);
    const rows = rowsOf(tensorOf(name as TensorTypeName, [elements, blocks.length / bytes]), blocks);
    const values = Float32Array.from(rows.flatMap((row) => [...row]));
    expect(hashOf(values)).toBe(sha256[name.toLowerCase()]);
  });

  it('in a type that is not read are refused by name', () => {
    expect(() => rowsOf(tensorOf('IQ2_XS', [256, 1]), new Uint8Array(74))).toThrow(
      /cls.weight has type IQ2_XS; .*Q6_K/,
    );
  });
});
