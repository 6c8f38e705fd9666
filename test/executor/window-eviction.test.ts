import { createHash } from 'node:crypto';
import { mkdtempSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { SHAPES } from '../../src/cli/synth/shapes.js';
import { synth } from '../../src/cli/synth/synth.js';
import { promptOf } from '../../src/cli/verify/invariance.js';
import { StepDriver } from '../../src/cli/verify/step-driver.js';
import { countingGpu, grantOn } from '../../src/executor/load/fit.js';
import { type LoadedModel, loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { kvBlockBytes } from '../../src/executor/model/kv-cache.js';
import { SlotWord, slotArena } from '../../src/executor/model/slot-layout.js';
import { ModelFiles } from '../../src/lib/gguf/model-files.js';
import { writeRandomFamily } from '../support/random-model.js';

const device = openDevice({ kind: 'host' });
const WINDOW = 24;
const BLOCK_TOKENS = 16;
const CONTEXT = 320;

/** With windows in some layers, in all but every sixth, in all. */
const FAMILIES = ['gemma2', 'gemma3', 'olmo2', 'phi3'] as const;
const write = (family: (typeof FAMILIES)[number]): string =>
  writeRandomFamily(family, family === 'phi3' ? { metadata: { 'phi3.attention.sliding_window': WINDOW } } : {});

function load(file: string, kvCacheType: 'f32' | 'f16', rest: Partial<{ maxContext: number; kvMemoryBytes: number }>) {
  const limits = { maxContext: CONTEXT, maxSequences: 2, maxStepTokens: 40, kvMemoryBytes: 0, ...rest };
  return loadModel(device, { path: file, kvCacheType, fingerprint: '', ...limits }, () => undefined);
}

/** Overwrites with NaN every windowed block that no slot's next position sees, the null block included. @returns how many */
function poison({ forward }: LoadedModel, next: readonly number[]): number {
  const { limits, cache } = forward;
  const { blocks } = limits.windowed!;
  const arena = slotArena(limits);
  const seen = new Set<number>();
  for (const [slot, position] of next.entries()) {
    const table = forward.slots.address + 4 * (slot * arena.slotWords + SlotWord.blockTable + arena.windowTable);
    const entries = new Int32Array(device.native.read(table, 4 * arena.windowTable).slice().buffer);
    // A key at p0 is hidden when position − p0 ≥ window.
    for (const [i, block] of entries.entries()) {
      if (position - ((i + 1) * BLOCK_TOKENS - 1) < WINDOW && i * BLOCK_TOKENS < position) seen.add(block);
    }
  }
  for (let layer = 0; layer < forward.model.layers; layer++) {
    const { k, v, isSlidingWindow } = cache.layer(layer);
    if (!isSlidingWindow) continue;
    const bytes = ((cache.type === 'f32' ? 4 : 2) * k.elements) / blocks;
    for (let block = 0; block < blocks; block++) {
      if (seen.has(block)) continue;
      for (const { address } of [k, v]) device.native.write(address + block * bytes, new Uint8Array(bytes).fill(0xff));
    }
  }
  return blocks - seen.size;
}

let epoch = 0n;

/** Two sequences to the end of the context, in uneven steps. @returns a hash of each row of logits, by slot and position */
async function hashes(model: LoadedModel, chunks: readonly number[], between: (next: readonly number[]) => void) {
  epoch += 1n;
  const driver = new StepDriver(device, model, epoch);
  const sequences = [0, 1].map((slot) => promptOf(slot + 5, CONTEXT, model.forward.model.vocabularySize));
  const next = [0, 0];
  const rows = new Map<string, string>();
  for (let step = 0; next.some((position) => position < CONTEXT); step++) {
    const slices = next.flatMap((position, slot) => {
      const count = Math.min(chunks[(step + slot) % chunks.length]!, CONTEXT - position);
      return count === 0 ? [] : [[slot, position, count, true] as const];
    });
    const opens = step === 0 ? sequences.map((tokens, slot) => [slot, tokens] as const) : [];
    const logits = await driver.step(slices, opens);
    for (const [i, [slot, position, count]] of slices.entries()) {
      next[slot] = position + count;
      rows.set(`${slot}:${position + count}`, createHash('sha256').update(logits[i]!).digest('hex'));
    }
    between(next);
  }
  return rows;
}

describe('a windowed block that no later position sees', () => {
  it.each(FAMILIES)('of %s is never read again: with NaN in it, the logits keep their bits', async (family) => {
    for (const kvCacheType of ['f16', 'f32'] as const) {
      const model = await load(write(family), kvCacheType, {});
      try {
        const plain = await hashes(model, [1, 7, 20, 16, 3], () => undefined);
        let poisoned = 0;
        const last = await hashes(model, [1, 7, 20, 16, 3], (next) => {
          poisoned += poison(model, next);
        });
        expect(last).toEqual(plain);
        expect(new Set(plain.values()).size).toBe(plain.size);
        expect(poisoned).toBeGreaterThan(100);
        const bySteps = await hashes(model, [1], (next) => void poison(model, next));
        for (const [place, hash] of plain) expect(bySteps.get(place), place).toBe(hash);
      } finally {
        model.release();
      }
    }
  });

  it.each(FAMILIES)('of %s is another’s at once where memory is short', async (family) => {
    const file = write(family);
    const roomy = await load(file, 'f16', {});
    const { forward } = roomy;
    const windowedLayers = Array.from({ length: forward.model.layers }, (_, i) => forward.cache.layer(i)).filter(
      ({ isSlidingWindow }) => isSlidingWindow,
    ).length;
    const bytesOf = (layers: number) => kvBlockBytes(Array(layers).fill(forward.model), 'f16');
    // Each pool has the null block and the minimum of two sequences: 24 + 40 − 1 positions lie in five blocks at most.
    const kvMemoryBytes =
      bytesOf(forward.model.layers - windowedLayers) * (1 + 2 * (CONTEXT / BLOCK_TOKENS)) +
      bytesOf(windowedLayers) * (1 + 14);
    const small = await load(file, 'f16', { kvMemoryBytes });
    try {
      expect(small.forward.limits.windowed!.blocks).toBeLessThan(16);
      expect(roomy.forward.limits.windowed!.blocks).toBeGreaterThan(20);
      const chunks = [17, 1, 5, 20];
      const ofSmall = await hashes(small, chunks, () => undefined);
      expect(ofSmall).toEqual(await hashes(roomy, chunks, () => undefined));
    } finally {
      small.release();
      roomy.release();
    }
  });
});

describe('a window that the context does not outgrow', () => {
  it('takes no blocks of its own, and gives the same bits', async () => {
    const file = write('gemma3');
    const short = await load(file, 'f16', { maxContext: WINDOW });
    expect(short.forward.limits.windowed).toBeUndefined();
    const long = await load(file, 'f16', { maxContext: WINDOW + 1 });
    expect(long.forward.limits.windowed).toMatchObject({ window: WINDOW });
    const prompt = promptOf(1, WINDOW, short.forward.model.vocabularySize);
    const logits = [short, long].map(async (model) => {
      epoch += 1n;
      return new StepDriver(device, model, epoch).step([[0, 0, WINDOW, true]], [[0, prompt]]);
    });
    const [ofShort, ofLong] = await Promise.all(logits);
    expect(ofLong).toEqual(ofShort);
    short.release();
    long.release();
  });
});

describe('one sequence of 32,768 positions of Gemma 3 1B', () => {
  // Its KV cache in all that decides it, with narrow matrices.
  const file = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'gemma.gguf');
  synth({ shape: { ...SHAPES['gemma-3-1b']!, hidden: 64, ffn: 64, vocabulary: 512 }, type: 'Q8_0', output: file });
  /** Keys and values of a block: 16 positions of 256 elements of f16 each. */
  const LAYER = 2 * 16 * 256 * 2;
  const BYTES = LAYER * (4 * (1 + 2048) + 22 * (1 + 2 * 34 + 64));

  it('takes 182 MB of KV cache, where every layer kept everything 873 MB', async () => {
    const options = { maxContext: 32_768, maxSequences: 1, maxStepTokens: 0, kvMemoryBytes: 0, fingerprint: '' };
    const model = await loadModel(device, { path: file, kvCacheType: 'f16', ...options }, () => undefined);
    const { limits, cache } = model.forward;
    expect(limits).toMatchObject({ kvBlocks: 2049, windowed: { window: 512, blocks: 133 } });
    const buffers = Array.from({ length: 26 }, (_, layer) => cache.layer(layer)).flatMap(({ k, v }) => [k, v]);
    expect(buffers.reduce((sum, { elements }) => sum + 2 * elements, 0)).toBe(BYTES);
    expect(cache.bytes).toBe(BYTES);
    // The numbers of docs/evidence/accuracy.md.
    expect(BYTES).toBe(182_222_848);
    expect(2049 * kvBlockBytes(Array(26).fill(model.forward.model), 'f16')).toBe(872_841_216);
    model.release();
  });

  it('and inspect --fit counts the same', async () => {
    const files = new ModelFiles(file);
    const question = { model: files.model, kvCacheType: 'f16', context: 32_768, sequences: 1 } as const;
    const granted = await grantOn(countingGpu('any', '', 2 ** 40), question);
    expect(granted).toMatchObject({ kvBytes: BYTES, kvTokens: 32_768, holdsWindows: true });
    files.close();
  });
});
