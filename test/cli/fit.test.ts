import { fc, test } from '@fast-check/vitest';
import { describe, expect, it } from 'vitest';
import { type FitReport, fitReport, formatFitReport } from '../../src/cli/inspect/fit.js';
import { largest } from '../../src/executor/load/largest.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { kvBlockBytes } from '../../src/executor/model/kv-cache.js';
import { byteCount } from '../../src/shared/option-types.js';
import { MOST_DRAFT_TOKENS } from '../../src/shared/step-limits.js';
import { FakeNativeDevice, fakeGpu } from '../doubles/native-device.js';
import { rocmforge } from '../support/command-line.js';
import { RANDOM_FAMILY_NAMES } from '../support/random-families.js';
import { randomModel, writeRandomFamily, writeRandomModel } from '../support/random-model.js';
import { isFull } from '../support/run-size.js';
import { writeParts } from '../support/split-model.js';

const MIB = 1 << 20;
const path = writeRandomModel({ type: 'F16', headDim: 64, contextLength: 32_768 });

const small = writeRandomModel();

describe('the largest number for which something holds', () => {
  test.prop([fc.nat(5000), fc.integer({ min: 1, max: 5000 }), fc.option(fc.nat(5000), { nil: undefined })])(
    'is found wherever it is, wherever one begins',
    async (threshold, limit, draft) => {
      const tried = new Set<number>();
      const holds = async (n: number) => {
        expect(n).toBeGreaterThan(0);
        expect(n).toBeLessThanOrEqual(limit);
        expect(tried).not.toContain(n);
        tried.add(n);
        return n <= threshold;
      };
      const found = await largest(holds, limit, draft);
      expect(found).toBe(Math.min(threshold, limit));
      expect(tried.size).toBeLessThanOrEqual(2 * Math.ceil(Math.log2(limit + 1)) + 2);
      if (draft === found && found > 0) expect(tried.size).toBeLessThanOrEqual(2);
    },
  );
});

describe('inspect --fit', () => {
  it('tells of so much memory what a loader there is granted, as JSON and as text', async () => {
    const args = ['--memory', '310MiB', '--context', '4096', '--sequences', '4', '--json'];
    const { code, stdout } = await rocmforge('inspect', '--fit', path, ...args);
    expect(code).toBe(0);
    const report = JSON.parse(stdout) as FitReport;
    const kvBytesPerToken = kvBlockBytes(Array(2).fill({ kvHeads: 1, headDim: 64 }), 'f16') / 16;
    expect(report).toMatchObject({ path, context: 4096, kvCacheType: 'f16', unusable: [] });
    expect(report.withoutLimit).toMatchObject({ kvBytesPerToken, windowBytes: 0 });
    expect(report.devices.map(({ device, freeBytes }) => [device, freeBytes])).toEqual([
      ['an AMD GPU', 310 * MIB],
      ['an NVIDIA GPU of sm_90', 310 * MIB],
    ]);
    const [fit] = report.devices;
    expect(fit).toMatchObject({
      granted: { context: 4096, sequences: 4, kvTokens: 4 * 4096 },
      refusal: null,
      longestContext: { sequences: 4, whole: 15_520, shared: 28_288 },
      mostSequences: { context: 4096, whole: 21, shared: 316 },
    });
    expect(fit!.granted!.weightBytes).toBe(report.withoutLimit.weightBytes);
    expect(fit!.granted!.workspaceBytes).toBe(report.withoutLimit.workspaceBytes);
    const text = formatFitReport(report);
    expect(text).toMatch(/^context +of 4 sequences: 15520 tokens if each sequence .*, 28288 if they share/m);
    expect(text).toMatch(/^sequences +of 4096 tokens: 21 sequences if each sequence .*, 316 if they share/m);
  });

  it('is text for a terminal without --json', async () => {
    const { stdout } = await rocmforge('inspect', '--fit', small, '--memory', '300M');
    expect(stdout).toBe(`${formatFitReport(await fitReport(small, { memory: 300 * MIB, kvCacheType: 'f16' }))}\n`);
  });

  it('counts keys and values in the type that is asked for', async () => {
    for (const [kvCacheType, bytes] of [
      ['f16', 2],
      ['f32', 4],
    ] as const) {
      const { withoutLimit } = await fitReport(small, { memory: 300 * MIB, kvCacheType });
      const { kvBytesPerToken } = withoutLimit;
      expect(kvBytesPerToken).toBe(2 * 2 * 2 * 16 * bytes);
      // And the null block's.
      expect(withoutLimit.kvBytes).toBe((withoutLimit.kvTokens + 16) * kvBytesPerToken);
    }
  });

  it('counts a cache in q8_0 as 17 bytes for 16 elements', async () => {
    const file = writeRandomModel({ headDim: 64 });
    const { withoutLimit } = await fitReport(file, { memory: 300 * MIB, kvCacheType: 'q8_0' });
    const { kvBytesPerToken } = withoutLimit;
    expect(kvBytesPerToken).toBe((2 * 2 * 1 * 64 * 17) / 16);
    expect(withoutLimit.kvBytes).toBe((withoutLimit.kvTokens + 16) * kvBytesPerToken);
  });

  it('counts states of recurrent layers, two a sequence, and the snapshots of them', async () => {
    const file = writeRandomFamily('qwen35', { layers: 4 });
    // 3 layers of 4 heads of 32 · 32 and 3 rows of 256 channels.
    const bytes = 3 * 4 * (4 * 32 * 32 + 3 * 256);
    const args = ['--memory', '300MiB', '--sequences', '3'];
    const { stdout } = await rocmforge('inspect', '--fit', file, ...args, '--json', '--state-snapshots', '5');
    const { withoutLimit, devices } = JSON.parse(stdout) as FitReport;
    const states = { stateBytes: (2 * 4 + 5) * bytes, stateBytesPerSequence: 2 * bytes, stateSnapshots: 5 };
    expect(withoutLimit).toMatchObject(states);
    expect(devices[0]!.granted).toMatchObject(states);
    const plain = await fitReport(file, { memory: 300 * MIB, sequences: 3, kvCacheType: 'f16' });
    expect(plain.withoutLimit).toMatchObject({ ...states, stateBytes: (2 * 4 + 6) * bytes, stateSnapshots: 6 });
    // The type that steps compute in has nothing to do with it.
    expect(plain.withoutLimit.workspaceBytes).toBe(withoutLimit.workspaceBytes);
    const text = formatFitReport(plain);
    expect(text).toMatch(/^states +114\.0 KiB a sequence, half of it a snapshot$/m);
    expect(text).toMatch(/ of KV cache, 798\.0 KiB of states, 6 snapshots among them, /);
    expect(formatFitReport(await fitReport(small, { memory: 300 * MIB, kvCacheType: 'f16' }))).not.toMatch(/states/);
  });

  it('tells of too little memory that nothing fits, in the loader’s words', async () => {
    expect(await rocmforge('inspect', '--fit', small, '--memory', '200MiB')).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/^refused +.* does not fit: /m),
    });
    const { devices } = await fitReport(small, { memory: 200 * MIB, kvCacheType: 'f16' });
    for (const fit of devices) {
      expect(fit).toMatchObject({
        granted: null,
        longestContext: { whole: 0, shared: 0 },
        mostSequences: { whole: 0, shared: 0 },
      });
      expect(fit.refusal).toMatch(
        /^.*random\.gguf does not fit: .* of weights, .* for the KV cache of one sequence and .* free for the driver/,
      );
    }
  });

  it('tells the same of a split model as of the one file', async () => {
    const options = { memory: 300 * MIB, kvCacheType: 'f16' } as const;
    const [first] = writeParts(randomModel().split(3));
    const [whole, split] = [await fitReport(small, options), await fitReport(first!, options)];
    expect(split).toEqual({ ...whole, path: split.path });
  });

  it('counts each of the GPUs that a model is split over, and grants what a load on them is granted', async () => {
    const file = writeRandomModel({ type: 'F16', headDim: 64, contextLength: 32_768, layers: 6 });
    const args = ['--context', '4096', '--memory', '290MiB', '--sequences', '8', '--json'];
    const { stdout } = await rocmforge('inspect', '--fit', file, ...args, '--split', 'layer', '--gpus', '0,1');
    const { devices, context } = JSON.parse(stdout) as FitReport;
    const [fit] = devices;
    expect([fit!.device, fit!.freeBytes]).toEqual(['an AMD GPU + an AMD GPU', 2 * 290 * MIB]);
    const { stages = [], ...granted } = fit!.granted!;
    const sum = (of: (stage: (typeof stages)[number]) => number) => stages.reduce((total, one) => total + of(one), 0);
    expect(stages).toHaveLength(2);
    expect(sum(({ weightBytes }) => weightBytes)).toBe(granted.weightBytes);
    expect(sum(({ kvBytes }) => kvBytes)).toBe(granted.kvBytes);
    expect(granted.kvBytes).toBe((granted.kvTokens + 16) * granted.kvBytesPerToken);

    const limits = { maxContext: context, maxSequences: 8, maxStepTokens: 0, kvMemoryBytes: 0, fingerprint: '' };
    const load = async (...mebibytes: number[]) => {
      const gpus = mebibytes.map((each) => fakeGpu(new FakeNativeDevice(each * MIB)));
      const model = await loadModel(gpus, { path: file, kvCacheType: 'f16', ...limits }, () => undefined);
      const layers = model.pipeline.stages.map(({ forward }) => forward.cache.bytes / forward.cache.blockBytes);
      const used = gpus.map(({ usedBytes }) => usedBytes);
      model.release();
      expect(gpus.map(({ usedBytes }) => usedBytes)).toEqual(gpus.map(() => 0));
      return { kvTokens: (model.forward.limits.kvBlocks - 1) * 16, layers, used };
    };
    const equal = await load(290, 290);
    expect(equal.kvTokens).toBe(granted.kvTokens);
    // One alone holds less, and of two the smaller counts: it gets fewer layers.
    const [alone, unequal] = [await load(290), await load(290, 350)];
    expect(alone.kvTokens).toBeLessThan(equal.kvTokens);
    expect(unequal.used[0]).toBeLessThan(290 * MIB);
    expect(new Set(unequal.layers).size).toBe(1);
    const [whole] = (await fitReport(file, { memory: 290 * MIB, context, sequences: 8, kvCacheType: 'f16' })).devices;
    expect(whole!.granted!.kvTokens).toBe(alone.kvTokens);
    expect(whole!.longestContext.whole).toBeLessThan(fit!.longestContext.whole);
  });

  it('counts a shard of a model on each of the GPUs, and grants what a load on them is granted', async () => {
    const file = writeRandomModel({ type: 'F16', hidden: 256, headDim: 64, contextLength: 32_768 });
    const args = ['--context', '4096', '--memory', '290MiB', '--sequences', '8', '--json'];
    const { stdout } = await rocmforge('inspect', '--fit', file, ...args, '--split', 'tensor', '--gpus', '0,1');
    const { devices, context } = JSON.parse(stdout) as FitReport;
    const { stages = [], ...granted } = devices[0]!.granted!;
    expect(stages).toHaveLength(2);
    expect(stages[0]!.kvBytes).toBe(stages[1]!.kvBytes);
    const limits = { maxContext: context, maxSequences: 8, maxStepTokens: 0, kvMemoryBytes: 0, fingerprint: '' };
    const gpus = [290, 290].map((each) => fakeGpu(new FakeNativeDevice(each * MIB)));
    const how = { path: file, kvCacheType: 'f16', split: 'tensor', ...limits } as const;
    const model = await loadModel(gpus, how, () => undefined);
    expect((model.forward.limits.kvBlocks - 1) * 16).toBe(granted.kvTokens);
    expect(model.kvBytes).toBe(granted.kvBytes);
    model.release();
    expect(gpus.map(({ usedBytes }) => usedBytes)).toEqual([0, 0]);
    // Each has its own heads of keys and values, and one alone no room for the model.
    const whole = await fitReport(file, { memory: 290 * MIB, context, sequences: 8, kvCacheType: 'f16' });
    expect(granted.kvBytesPerToken).toBe(whole.withoutLimit.kvBytesPerToken);
    expect(whole.devices[0]!.granted).toBeNull();
  });

  it.each([
    [['--split', 'layer'], '--split layer requires several GPUs'],
    [['--split', 'tensor'], '--split tensor requires several GPUs'],
    [['--split', 'tensor', '--gpus', '0,1', '--tensor-split', '1,1'], '--tensor-split requires --split layer'],
    [['--tensor-split', '1,2', '--gpus', '0,1'], '--tensor-split requires --split layer'],
    [['--split', 'layer', '--gpus', '0,1', '--tensor-split', '1'], '--tensor-split has 1 shares for 2 GPUs'],
    [['--gpus', '0,1'], '--gpus with several GPUs requires --split'],
    [['--split', 'layer', '--gpus', '0,1', '--tensor-split', '1,0'], 'Give a number above 0.'],
  ])('refuses %j', async (args, message) => {
    const { code, stderr } = await rocmforge('inspect', '--fit', small, '--memory', '300M', ...args);
    expect(code).not.toBe(0);
    expect(stderr).toContain(message);
  });

  it.each(isFull ? RANDOM_FAMILY_NAMES : (['llama', 'gemma3', 'qwen35'] as const))(
    'grants %s what a load with its weights is granted',
    async (family) => {
      const file = writeRandomFamily(family);
      const { devices, context } = await fitReport(file, { memory: 310 * MIB, kvCacheType: 'f16' });
      const limits = { maxContext: context, maxSequences: 0, maxStepTokens: 0, kvMemoryBytes: 0 };
      const gpu = fakeGpu(new FakeNativeDevice(310 * MIB));
      // As a gateway loads it that drafts tokens, which is the default.
      const drafts = { draftTokens: MOST_DRAFT_TOKENS };
      const options = { path: file, kvCacheType: 'f16', fingerprint: '', ...drafts, ...limits } as const;
      const model = await loadModel(gpu, options, () => undefined);
      const { maxSequences, kvBlocks } = model.forward.limits;
      expect(devices[0]!.granted).toMatchObject({ context, sequences: maxSequences, kvTokens: 16 * (kvBlocks - 1) });
      model.release();
    },
  );

  it.each(isFull ? (['gemma3', 'phi3'] as const) : (['gemma3'] as const))(
    'tells of %s with windows what so much memory holds, and no more',
    async (family) => {
      const metadata = family === 'phi3' ? { 'phi3.attention.sliding_window': 24 } : {};
      const file = writeRandomFamily(family, { contextLength: 65_536, metadata });
      const memory = 300 * MIB;
      const report = await fitReport(file, { memory, sequences: 16, context: 8192, kvCacheType: 'f16' });
      const [fit] = report.devices;
      // Two of a window's blocks more than its positions fill, over six layers of 32 elements, or four of 96.
      const windowBytes = 4 * 2 * 16 * 2 * (family === 'gemma3' ? 6 * 32 : 4 * 96);
      expect(report.withoutLimit).toMatchObject({ windowBytes, kvBytesPerToken: family === 'gemma3' ? 2 * 2 * 32 : 0 });
      expect(formatFitReport(report)).toMatch(/^KV cache +.* a token and .* KiB a sequence for windows, f16$/m);
      const { sequences, whole } = fit!.longestContext;
      expect(sequences).toBe(16);
      for (const more of [0, 16]) {
        const options = {
          maxContext: whole + more,
          maxSequences: 16,
          maxStepTokens: 0,
          kvMemoryBytes: 0,
          fingerprint: '',
        };
        const gpu = fakeGpu(new FakeNativeDevice(memory));
        const loading = loadModel(gpu, { path: file, kvCacheType: 'f16', ...options }, () => undefined);
        const limits = await loading.then(
          ({ forward }) => forward.limits,
          () => undefined,
        );
        const isWhole = limits !== undefined && limits.kvBlocks - 1 >= 16 * Math.ceil((whole + more) / 16);
        const holdsWindows = limits !== undefined && limits.windowed!.blocks > 16 * 4 + 2 * (512 / 16);
        expect(isWhole && holdsWindows, `${more} more`).toBe(more === 0);
      }
    },
  );

  it.each([
    [['--fit', small, '--context', '513'], 'INVALID_OPTION: --context 513 is more than the model’s 512'],
    [['--fit', small, '--sequences', '5000'], 'INVALID_OPTION: --sequences is 5000; it must be from 1 to 4096'],
    [['--fit', `${path}.missing`], 'MODEL_FILE_UNREADABLE'],
    [['--fit', writeRandomModel({ metadata: { 'general.architecture': 'mamba' } })], 'MODEL_UNSUPPORTED'],
    [[path, '--memory', '1G'], 'INVALID_OPTION: --memory requires --fit'],
    [[path, '--device-memory', '1G'], 'INVALID_OPTION: --device-memory requires --fit'],
    [
      ['--fit', path, '--memory', '1G', '--device-memory', '1G'],
      'INVALID_OPTION: --memory assumes a GPU, and cannot be combined with --device-memory',
    ],
    [[path, '--state-snapshots', '1'], 'INVALID_OPTION: --state-snapshots requires --fit'],
    [
      ['--fit', small, '--state-snapshots', '1'],
      'INVALID_OPTION: --state-snapshots is 1; it applies only to models with recurrent state',
    ],
    [['--fit', path, '--memory', 'much'], 'Give a size such as 512M or 24GiB.'],
  ])('refuses %j: %s', async (args, message) => {
    const { code, stderr } = await rocmforge('inspect', ...args);
    expect(code).toBe(1);
    expect(stderr.replaceAll("'", '’')).toContain(message);
  });

  it.each([
    ['512', 512],
    ['24GiB', 24 * 2 ** 30],
    ['24gb', 24 * 2 ** 30],
    ['1.5G', 1.5 * 2 ** 30],
    ['100 KiB', undefined],
    ['1iB', undefined],
    ['1T', undefined],
  ])('reads the size %s as %s', (text, bytes) => {
    if (bytes === undefined) expect(() => byteCount(text)).toThrow('Give a size');
    else expect(byteCount(text)).toBe(bytes);
  });
});
