import { GGMLQuantizationType } from '@huggingface/gguf';
import { expect, test } from 'vitest';
import { TENSOR_TYPES, tensorBytes, tensorTypeById } from '../../../src/lib/gguf/tensor-types.js';

test('names and ids are those of the format', () => {
  const theirs = Object.entries(GGMLQuantizationType).filter(([, id]) => typeof id === 'number');
  const ours = Object.entries(TENSOR_TYPES).map(([name, { id }]) => [name, id]);
  expect(Object.fromEntries(ours)).toEqual(Object.fromEntries(theirs));
});

test('a type is found by its id, and withdrawn ids are unknown', () => {
  expect(tensorTypeById(12)).toBe('Q4_K');
  for (const withdrawn of [4, 5, 31, 32, 33, 36, 37, 38, 99]) expect(tensorTypeById(withdrawn)).toBeUndefined();
});

test('the size of a tensor follows from its blocks', () => {
  expect(tensorBytes('F32', [])).toBe(4);
  expect(tensorBytes('F16', [3, 5])).toBe(30);
  expect(tensorBytes('Q8_0', [64, 10])).toBe(680);
  expect(tensorBytes('Q4_K', [512, 2, 3])).toBe(1728);
  expect(tensorBytes('MXFP4', [32])).toBe(17);
});

test('a row of partial blocks is a defect of the caller', () => {
  expect(() => tensorBytes('Q4_K', [128, 2])).toThrow('a Q4_K row of 128 elements is not a multiple of 256');
});
