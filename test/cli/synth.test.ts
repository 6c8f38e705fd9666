import { randomFillSync } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { matrixType, UNIFORM_TYPES } from '../../src/cli/synth/mixtures.js';
import { SHAPES } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import { syntheticVocabulary } from '../../src/cli/synth/vocabulary.js';
import { BLOCK_TYPES } from '../../src/executor/kernels/index.js';
import { FileByteSource } from '../../src/lib/gguf/byte-source.js';
import { readModelParameters } from '../../src/lib/gguf/model-parameters.js';
import { readGguf } from '../../src/lib/gguf/reader.js';
import { readBlocks } from '../kernels/reference/blocks.js';
import { decode } from '../kernels/support/half.js';

const output = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'synth.gguf');

/** The values of a tensor, whatever its type. */
function valuesOf(source: FileByteSource, tensor: { type: string; offset: number; bytes: number }): Float64Array {
  const data = Uint8Array.from(source.read(tensor.offset, tensor.bytes));
  const block = BLOCK_TYPES.find((type) => type.toUpperCase() === tensor.type);
  if (block !== undefined) {
    const { products, minimums } = readBlocks(block, data);
    return products.map((product, i) => product - minimums[i]!);
  }
  if (tensor.type === 'F32') return Float64Array.from(new Float32Array(data.buffer));
  return Float64Array.from(decode(tensor.type === 'F16' ? 'f16' : 'bf16', new Uint16Array(data.buffer)));
}

describe('rocmforge synth', () => {
  it.each(UNIFORM_TYPES)('makes %s weights with mean 0 and a deviation of about 1 / sqrt(row length)', (type) => {
    synth({ shape: 'tiny', type, output });
    const source = new FileByteSource(output);
    try {
      const file = readGguf(source);
      for (const name of ['blk.0.attn_q.weight', 'blk.1.ffn_down.weight']) {
        const tensor = file.tensors.get(name)!;
        expect(tensor.type).toBe(type);
        const values = valuesOf(source, tensor);
        const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
        const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
        const wanted = 1 / Math.sqrt(tensor.dims[0]!);
        // The levels of a format without minimum are -8 to 7, or the like: their mean is off by up to 0.11 deviations.
        expect(Math.abs(mean)).toBeLessThan(0.12 * wanted);
        expect(deviation / wanted).toBeGreaterThan(0.85);
        expect(deviation / wanted).toBeLessThan(1.15);
      }
    } finally {
      source.close();
    }
  });

  it.each(['tiny', 'tiny-qwen2'])('gives %s the parameters of its shape', (name) => {
    synth({ shape: name, type: 'Q4_K_M', output });
    const source = new FileByteSource(output);
    const parameters = readModelParameters(readGguf(source));
    source.close();
    const { architecture, layers, hidden, ffn, heads, kvHeads, headDim, vocabulary } = SHAPES[name]!;
    expect(parameters).toMatchObject({ architecture, layers, heads, kvHeads, headDim });
    expect(parameters).toMatchObject({ hiddenSize: hidden, ffnSize: ffn, vocabularySize: vocabulary });
  });

  it('mixes types as llama.cpp does for Q4_K_M', () => {
    const shape = SHAPES['llama-3.2-1b']!;
    const favoured = Array.from({ length: 16 }, (_, layer) => layer).filter(
      (layer) => matrixType('Q4_K_M', shape, 'ffn_down', layer, shape.ffn) === 'Q6_K',
    );
    expect(favoured).toEqual([0, 1, 4, 7, 10, 13, 14, 15]);
    expect(matrixType('Q4_K_M', shape, 'attn_k', 0, shape.hidden)).toBe('Q4_K');
    expect(matrixType('Q4_K_M', shape, 'token_embd', undefined, shape.hidden)).toBe('Q6_K');
    expect(matrixType('Q4_K_M', { ...shape, tied: false }, 'token_embd', undefined, shape.hidden)).toBe('Q4_K');
    expect(matrixType('Q4_K_M', SHAPES['qwen2.5-0.5b']!, 'attn_q', 5, 896)).toBe('Q5_0');
    expect(matrixType('Q4_K_M', SHAPES['qwen2.5-0.5b']!, 'attn_v', 0, 896)).toBe('Q8_0');
  });

  it('without weights has the header and the size of the same file, and zeros that take no room', () => {
    const [whole, empty] = ['whole', 'empty'].map((name) => path.join(path.dirname(output), `${name}.gguf`)) as [
      string,
      string,
    ];
    const shape = { shape: 'tiny', type: 'Q4_K_M' };
    const bytes = synth({ ...shape, output: whole });
    expect(synth({ ...shape, output: empty, withoutWeights: true })).toBe(bytes);
    const [first, second] = [readFileSync(whole), readFileSync(empty)];
    const { dataOffset } = readGguf(new FileByteSource(empty));
    expect(second.length).toBe(first.length);
    expect(second.subarray(0, dataOffset).equals(first.subarray(0, dataOffset))).toBe(true);
    expect(second.subarray(dataOffset).every((byte) => byte === 0)).toBe(true);
    expect(512 * statSync(empty).blocks).toBeLessThan(dataOffset + 8192);
  });

  it('mixes types as llama.cpp does for Q3_K_M', () => {
    const shape = SHAPES['llama-3.1-8b']!;
    const typesOf = (name: string, ...layers: number[]) =>
      layers.map((layer) => matrixType('Q3_K_M', shape, name, layer, shape.hidden));
    expect(typesOf('attn_v', 0, 1, 2, 31)).toEqual(['Q5_K', 'Q5_K', 'Q4_K', 'Q4_K']);
    expect(typesOf('ffn_down', 0, 1, 2, 31)).toEqual(['Q5_K', 'Q5_K', 'Q4_K', 'Q4_K']);
    expect(typesOf('attn_output', 0, 31)).toEqual(['Q4_K', 'Q4_K']);
    expect([...typesOf('attn_q', 0), ...typesOf('ffn_up', 9)]).toEqual(['Q3_K', 'Q3_K']);
    expect(matrixType('Q3_K_M', shape, 'output', undefined, shape.hidden)).toBe('Q6_K');
    expect(matrixType('Q3_K_M', SHAPES['qwen2.5-0.5b']!, 'attn_q', 5, 896)).toBe('IQ4_NL');
  });

  it.each([258, 1024, 128_256])('makes a vocabulary of %i different tokens', (size) => {
    const { tokens, types } = syntheticVocabulary(size);
    expect(tokens).toHaveLength(size);
    expect(types).toHaveLength(size);
    expect(new Set(tokens).size).toBe(size);
  });

  it('has no file under its name before all of it is written, and the earlier one until then', () => {
    const file = path.join(path.dirname(output), 'beside.gguf');
    let seen: (number | undefined)[] = [];
    const write = () =>
      synth({
        shape: 'tiny',
        type: 'F16',
        output: file,
        random: (bytes) => {
          seen.push(statSync(file, { throwIfNoEntry: false })?.size);
          return randomFillSync(bytes);
        },
      });
    const size = write();
    expect(new Set(seen)).toEqual(new Set([undefined]));
    seen = [];
    write();
    expect(new Set(seen)).toEqual(new Set([size]));
    expect(existsSync(`${file}.part`)).toBe(false);
  });

  it('refuses a shape or type that it does not know, and says which there are', () => {
    expect(() => synth({ shape: 'gpt-5', type: 'Q8_0', output })).toThrow(/llama-3.1-8b/);
    expect(() => synth({ shape: 'tiny', type: 'Q2_K_L', output })).toThrow(/Q4_K_M/);
  });
});
