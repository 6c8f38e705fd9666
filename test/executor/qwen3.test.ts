import path from 'node:path';
import { expect, it } from 'vitest';
import { readParityCases, teacherForced } from '../../src/cli/verify/teacher-forced.js';
import { packageRoot } from '../../src/shared/package.js';
import { writeRandomModel } from '../support/random-model.js';

// Both sides compute with f32 weights and an f32 cache; what differs is the order of sums. llama.cpp's answers were made
// by bench/peers/make-parity.mjs of the very file that the seed gives.
const BOUND = 1e-4;

it.each([
  [64, 'qwen3-parity.json'],
  [16, 'qwen3-16-parity.json'],
] as const)(
  'a random qwen3 with heads of %d, fed llama.cpp’s tokens, gives its probabilities and each of its tokens',
  async (headDim, file) => {
    const cases = readParityCases(path.join(packageRoot, 'test', 'fixtures', file));
    const model = writeRandomModel({ family: 'qwen3', headDim, layers: 3, seed: 7 });
    const deviation = await teacherForced(model, cases);
    console.log(`qwen3, heads of ${headDim}:`, deviation);
    expect(deviation.steps).toBe(3 * 48);
    expect(deviation.max).toBeLessThanOrEqual(BOUND);
    expect(deviation.sameToken).toBe(deviation.steps);
  },
);
