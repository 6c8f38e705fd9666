import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { ChatTemplate } from '../../src/gateway/chat/chat-template.js';
import { MemoryByteSource } from '../../src/lib/gguf/byte-source.js';
import { readGguf } from '../../src/lib/gguf/reader.js';
import { readServableModel } from '../../src/lib/gguf/servable-model.js';
import { createTokenizer } from '../../src/lib/tokenizer/tokenizer.js';
import { asRocmForgeError } from '../../src/shared/errors.js';
import { FakeNativeDevice, fakeGpu } from '../doubles/native-device.js';
import { damaged, goodHeader } from '../support/damaged-header.js';
import { typed } from '../support/gguf-builder.js';
import { Random } from '../support/random.js';
import { randomModel } from '../support/random-model.js';
import { runs, scaled, seed } from '../support/run-size.js';

const MUTANTS = runs(10_000);
const TEMPLATE = '{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}';
const folder = () => mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));

/** Files whose headers are damaged: two architectures, every key that is read. */
const GOOD = (['llama', 'qwen2'] as const).map((architecture) => {
  const key = (name: string) => `${architecture}.${name}`;
  const builder = randomModel({
    family: architecture,
    type: 'F16',
    chatTemplate: TEMPLATE,
    metadata: {
      [key('vocab_size')]: 299,
      [key('rope.dimension_count')]: 16,
      [key('attention.key_length')]: 16,
      [key('attention.value_length')]: 16,
      [key('rope.scaling.type')]: 'linear',
      [key('rope.scaling.factor')]: typed.f32(2),
      [key('rope.scaling.attn_factor')]: typed.f32(0.5),
      [key('rope.scaling.original_context_length')]: 256,
      [key('expert_count')]: 0,
      'tokenizer.ggml.add_bos_token': true,
    },
  });
  const bytes = Buffer.from(builder.build());
  return goodHeader(bytes, builder.read().dataOffset, /(llama|qwen2)\.[a-z_.]+/g);
});

/** A file with one to three damages in its header. */
function mutant(number: number): Buffer {
  const random = new Random(seed(number));
  return damaged(random, GOOD[number % GOOD.length]!);
}

describe('a damaged model file', () => {
  it(`${MUTANTS} headers: each is served or refused by a reason, with no more work than a good one takes`, async () => {
    const file = path.join(folder(), 'mutant.gguf');
    const load = async (bytes: Uint8Array, maxContext: number) => {
      writeFileSync(file, bytes);
      const native = new FakeNativeDevice(1 << 29);
      const limits = { maxContext, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0 };
      try {
        (
          await loadModel(
            fakeGpu(native),
            { path: file, kvCacheType: 'f16', fingerprint: '', ...limits },
            () => undefined,
          )
        ).release();
      } finally {
        expect(native.held).toEqual({ bytes: 0, plans: 0, graphs: 0 });
      }
      return native;
    };
    const good = { allocations: 0, launches: 0 };
    for (const { bytes } of GOOD) {
      const { allocations, launches } = await load(bytes, 64);
      good.allocations = Math.max(good.allocations, allocations);
      good.launches = Math.max(good.launches, launches);
    }
    const outcomes = new Map<string, number>();
    const untyped: string[] = [];
    let [most, mostEntries] = [{ allocations: 0, launches: 0 }, 0];
    for (let number = 0; number < MUTANTS; number++) {
      const bytes = mutant(number);
      let outcome = 'served';
      let stage = 'header';
      try {
        const header = readGguf(new MemoryByteSource(bytes, 'mutant.gguf'));
        mostEntries = Math.max(mostEntries, [...header.metadata.keys()].length + header.tensors.size);
        stage = 'parameters';
        const { contextLength } = readServableModel(header);
        stage = 'tokenizer';
        const tokenizer = createTokenizer(header.metadata);
        expect(tokenizer.vocabularySize * 8).toBeLessThanOrEqual(bytes.length);
        stage = 'template';
        new ChatTemplate(header.metadata, tokenizer);
        stage = 'load';
        const { allocations, launches } = await load(bytes, Math.min(contextLength, 64));
        most = { allocations: Math.max(most.allocations, allocations), launches: Math.max(most.launches, launches) };
      } catch (error) {
        const { reason } = asRocmForgeError(error);
        if (reason === 'INTERNAL') untyped.push(`${number} ${stage}: ${String((error as Error).stack)}`);
        outcome = `${stage} ${reason}`;
      }
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
    console.log(
      [...outcomes]
        .sort()
        .map(([outcome, count]) => `${outcome}: ${count}`)
        .join('\n'),
    );
    console.log(
      `most work of one: ${JSON.stringify(most)}, a good file's: ${JSON.stringify(good)}; entries at most ${mostEntries}`,
    );
    expect(untyped).toEqual([]);
    expect(most.allocations).toBeLessThanOrEqual(good.allocations);
    expect(most.launches).toBeLessThanOrEqual(good.launches);
    // Damage is not all there is: files that still are whole reach the load.
    expect(outcomes.get('served')).toBeGreaterThan(scaled(100));
    expect(outcomes.size).toBeGreaterThan(5);
  });
});
