import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { greedy, readParityCases } from '../../src/cli/verify/teacher-forced.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { packageRoot } from '../../src/shared/package.js';
import { writeRandomModel } from '../support/random-model.js';

const device = openDevice({ kind: 'host' });

/** A model whose context is so long that the scores of a step are computed in groups of a few hundred rows. */
const LIMITS = { maxContext: 16_384, maxSequences: 2, maxStepTokens: 512, kvMemoryBytes: 0 };
const load = (attention: 'fused' | 'unfused', kvCacheType: 'f16' | 'f32', file: string): Promise<LoadedModel> =>
  loadModel(device, { path: file, kvCacheType, attention, fingerprint: '', ...LIMITS }, () => undefined);

describe('attention written out, one kernel an operation,', () => {
  it('generates every token of the fused kernels with the demo model', { timeout: 600_000 }, async () => {
    const cases = readParityCases(path.join(packageRoot, 'test', 'fixtures', 'demo-parity.json'));
    const file = path.join(packageRoot, 'models', 'demo.gguf');
    const result = await greedy(file, cases, { attention: 'unfused' });
    expect(result).toEqual({ tokens: 12 * 64, same: 12 * 64 });
  });

  it.each(['f16', 'f32'] as const)('gives the logits of the fused kernels over a cache of %s', async (kvCacheType) => {
    const file = writeRandomModel({ type: 'F32', contextLength: LIMITS.maxContext });
    const run = async (attention: 'fused' | 'unfused') => {
      const model = await load(attention, kvCacheType, file);
      const driver = new StepDriver(device, model, 1n);
      // Two sequences whose rows lie on both sides of a group's end.
      const prompts = [300, 212].map((length, slot) => [slot, promptOf(slot, length, 256)] as const);
      const prefill = await driver.step(
        prompts.map(([slot, tokens]) => [slot, 0, tokens.length, true] as const),
        prompts,
      );
      const decode = await driver.step(prompts.map(([slot, tokens]) => [slot, tokens.length, 1, true] as const));
      return { rows: [...prefill, ...decode], kernels: new Set(model.forward.kernels), model };
    };
    const [fused, unfused] = [await run('fused'), await run('unfused')];
    const plain = ['rope', `kv_append_${kvCacheType}`, `qkt_matmul_paged_${kvCacheType}`, 'scale_f32', 'mask_f32'];
    for (const kernel of [...plain, 'softmax_f32', `weighted_matmul_paged_${kvCacheType}`]) {
      expect(unfused.kernels).toContain(kernel);
      expect(fused.kernels).not.toContain(kernel);
    }
    // The keys and values of a prefill are read back, so that in f16 they may be rounded the other way, 2⁻¹¹ of one:
    // independently at some of 300 positions that are averaged. In f32 the two differ by the order of sums of up to 300 terms.
    const bound = kvCacheType === 'f16' ? 2 ** -11 / Math.sqrt(300) : Math.sqrt(300) * 2 ** -22;
    let largest = 0;
    for (const [i, row] of fused.rows.entries()) {
      const other = unfused.rows[i]!;
      const size = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0) / row.length);
      for (const [j, value] of row.entries()) largest = Math.max(largest, Math.abs(value - other[j]!) / size);
    }
    console.log(
      `unfused beside fused, ${kvCacheType}: largest difference ${largest.toExponential(2)} of the logits' size`,
    );
    expect(largest).toBeLessThanOrEqual(bound);
  });
});
