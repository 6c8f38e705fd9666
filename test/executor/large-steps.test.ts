import { mkdtempSync, rmSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { synth } from '../../src/cli/synth/synth.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';

describe('a step that writes more to its slots than its tables hold', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('writes it all before it computes', async () => {
    const context = 2 ** 19;
    const output = path.join(folder, 'model.gguf');
    const size = { layers: 1, hidden: 32, ffn: 64, heads: 1, kvHeads: 1, headDim: 32, vocabulary: 512 } as const;
    const shape = {
      architecture: 'llama',
      preTokenizer: 'llama-bpe',
      ...size,
      context,
      ropeBase: 1e4,
      tied: false,
    } as const;
    synth({ shape, type: 'F32', output });
    const device = openDevice({ kind: 'host' });
    const limits = { maxContext: context, maxSequences: 3, maxStepTokens: 64, kvMemoryBytes: 0 };
    const options = { path: output, kvCacheType: 'f16', ...limits, fingerprint: '' } as const;
    const model = await loadModel(device, options, () => undefined);
    // A block table of 32,768 words each: three do not fit.
    expect(model.forward.tables.maxWrites).toBeGreaterThan(2 * 32_768);
    expect(model.forward.tables.maxWrites).toBeLessThan(3 * 32_768);

    const sequences = [0, 1, 2].map((slot) => Uint32Array.from({ length: 20 }, (_, i) => (7 * i + 11 * slot) % 512));
    const alone: Float32Array[] = [];
    for (const tokens of sequences) {
      const driver = new StepDriver(device, model, 1n);
      alone.push(...(await driver.step([[0, 0, 20, true]], [[0, tokens]])));
    }
    const together = await new StepDriver(device, model, 2n).step(
      sequences.map((_, slot) => [slot, 0, 20, true] as const),
      sequences.map((tokens, slot) => [slot, tokens] as const),
    );
    expect(together).toEqual(alone);
  });
});
