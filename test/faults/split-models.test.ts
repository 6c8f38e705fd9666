import {
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import type { LoadOptions } from '../../src/executor/load/load-options.js';
import { loadModel } from '../../src/executor/load/loaded-model.js';
import { openDevice } from '../../src/executor/load/open-device.js';
import { ModelFile } from '../../src/gateway/request/model-file.js';
import { asRocmForgeError } from '../../src/shared/errors.js';
import { FakeNativeDevice, fakeGpu } from '../doubles/native-device.js';
import { damaged, goodHeader } from '../support/damaged-header.js';
import { generate, request, startTestGateway } from '../support/gateway.js';
import { typed } from '../support/gguf-builder.js';
import { Random } from '../support/random.js';
import { randomModel, writeRandomModel } from '../support/random-model.js';
import { runs, seed } from '../support/run-size.js';
import { writeParts } from '../support/split-model.js';
import { reasonOf, stream } from '../support/streamed.js';

const PARTS = 3;
const MUTANTS = runs(600);
const TOKENS = 160;
const LIMITS = { maxContext: 64, maxSequences: 2, maxStepTokens: 64, kvMemoryBytes: 0 };
const PAST = new Date('2026-01-01');

const otherParts = randomModel({ seed: 2 })
  .split(PARTS)
  .map((part) => part.build());
const splitParts = () => writeParts(randomModel().split(PARTS));
const folderOf = (files: readonly string[]) => path.dirname(files[0]!);

/** The files that this process has open: what connections have is theirs to close, in their own time. */
function openFiles(): readonly string[] {
  const targets = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      // The descriptor of the listing itself.
      return '';
    }
  });
  return targets.filter((target) => target.startsWith('/'));
}

/** Descriptors and mappings of this process for files of a folder. */
function heldOf(folder: string): { readonly descriptors: number; readonly mappings: number } {
  const mappings = readFileSync('/proc/self/maps', 'utf8').split('\n');
  return {
    descriptors: openFiles().filter((file) => file.startsWith(folder)).length,
    mappings: mappings.filter((line) => line.includes(folder)).length,
  };
}

const sampled = request({
  tokens: [1, 261, 265],
  sampling: { temperature: 0.8, seed: 11n },
  stop: { maxTokens: TOKENS, ignoreEos: true },
});
const greedy = request({
  tokens: [1, 262, 266, 270],
  sampling: { temperature: 0 },
  stop: { maxTokens: TOKENS, ignoreEos: true },
});

describe('a split model', () => {
  it('generates what the model in one file does, through an executor that is killed once', async () => {
    const whole = await startTestGateway(writeRandomModel());
    const expected = [await generate(whole.client, sampled), await generate(whole.client, greedy)];
    await whole.stop();
    const [first] = splitParts();
    const split = await startTestGateway(first!, { stepDelayMs: 4 });
    try {
      expect(split.gateway.modelName).toBe('random');
      const streamed = await stream(split.client, sampled, {
        tokens: 40,
        call: () => process.kill(split.gateway.executorPid()!, 'SIGKILL'),
      });
      expect(streamed).toEqual({ tokenIds: expected[0]!.tokenIds, reason: undefined });
      expect(streamed.tokenIds).toHaveLength(TOKENS);
      expect((await generate(split.client, greedy)).tokenIds).toEqual(expected[1]!.tokenIds);
      expect(split.gateway.executorEpoch()).toBe(2);
    } finally {
      await split.stop();
    }
  });

  it('is open once a part for as long as a gateway serves it, and no longer', async () => {
    const files = splitParts();
    const before = openFiles();
    const gateway = await startTestGateway(files[0]!);
    expect(heldOf(folderOf(files))).toEqual({ descriptors: PARTS, mappings: 0 });
    await gateway.stop();
    expect(heldOf(folderOf(files))).toEqual({ descriptors: 0, mappings: 0 });
    expect(openFiles()).toEqual(before);
  });

  async function scene(change: (files: readonly string[]) => void, kill: 'after' | 'never' = 'after') {
    const files = splitParts();
    for (const file of files) utimesSync(file, PAST, PAST);
    const gateway = await startTestGateway(files[0]!, { stepDelayMs: 4, maxRestarts: 3 });
    try {
      const undisturbed = await generate(gateway.client, sampled);
      const streamed = await stream(gateway.client, sampled, {
        tokens: 40,
        call: () => {
          change(files);
          if (kill === 'after') process.kill(gateway.gateway.executorPid()!, 'SIGKILL');
        },
      });
      return {
        reason: streamed.reason,
        whole: streamed.tokenIds.length === TOKENS,
        same: streamed.tokenIds.every((id, i) => id === undisturbed.tokenIds[i]),
        next: await reasonOf(generate(gateway.client, sampled)),
      };
    } finally {
      await gateway.stop();
    }
  }

  const replace = (file: string, content: Uint8Array) => {
    writeFileSync(`${file}.new`, content);
    renameSync(`${file}.new`, file);
  };
  it.each<[string, (files: readonly string[]) => void]>([
    ['is deleted', (files) => rmSync(files[1]!)],
    ['is replaced by another model’s', (files) => replace(files[1]!, otherParts[1]!)],
    ['and all others are deleted', (files) => rmSync(folderOf(files), { recursive: true })],
  ])('goes on from the files that were opened when a part %s', async (_, change) => {
    expect(await scene(change)).toEqual({ reason: undefined, whole: true, same: true, next: 'served' });
  });

  it.each<[string, (files: readonly string[]) => void]>([
    ['overwritten in place', (files) => writeFileSync(files[1]!, otherParts[1]!)],
    // Nothing is missing meanwhile: who does not look computes other tokens.
    ['overwritten byte by byte', (files) => writeFileSync(files[1]!, otherParts[1]!, { flag: 'r+' })],
    ['truncated', (files) => truncateSync(files[2]!, 4096)],
  ])('ends by that reason when a part is %s', async (_, change) => {
    for (const kill of ['after', 'never'] as const) {
      const ended = { reason: 'MODEL_FILE_CHANGED', whole: false, same: true, next: 'MODEL_FILE_CHANGED' };
      expect(await scene(change, kill)).toEqual(ended);
    }
  });

  it('overwritten in place, the time of the part put back: its content tells at the next start', async () => {
    const forge = (files: readonly string[]) => {
      writeFileSync(files[1]!, otherParts[1]!);
      utimesSync(files[1]!, PAST, PAST);
    };
    expect(await scene(forge)).toMatchObject({ reason: 'MODEL_FILE_CHANGED', same: true });
  });
});

describe('a gateway’s split model', () => {
  const opened = () => {
    const files = splitParts();
    for (const file of files) utimesSync(file, PAST, PAST);
    return { files, model: new ModelFile(files[0]!) };
  };
  const changed = (file: string) =>
    expect.objectContaining({
      reason: 'MODEL_FILE_CHANGED',
      message: expect.stringContaining(`file ${path.basename(file)} was written to`),
    });

  it('is not changed when a part is written with the content that it has', () => {
    for (const part of [0, 1, 2]) {
      const { files, model } = opened();
      writeFileSync(files[part]!, readFileSync(files[part]!), { flag: 'r+' });
      model.checkStamp();
      model.check();
      model.close();
    }
  });

  it('is changed when a part is written with another content', () => {
    for (const part of [0, 1, 2]) {
      const { files, model } = opened();
      model.checkStamp();
      writeFileSync(files[part]!, otherParts[part]!, { flag: 'r+' });
      expect(() => model.checkStamp()).toThrow(changed(files[0]!));
      expect(() => model.check()).toThrow(changed(files[0]!));
      model.close();
    }
  });

  it('is changed when a part holds something else, whatever its time says', () => {
    for (const part of [0, 1, 2]) {
      const { files, model } = opened();
      writeFileSync(files[part]!, otherParts[part]!);
      utimesSync(files[part]!, PAST, PAST);
      model.checkStamp();
      expect(() => model.check()).toThrow(changed(files[0]!));
      model.close();
      expect(heldOf(folderOf(files)).descriptors).toBe(0);
    }
  });
});

/** Loads a model where nothing is computed, or on the host. @returns how it ended; nothing may be held then */
async function outcomeOf(files: readonly string[], options: Partial<LoadOptions> = {}, onHost = false) {
  const native = new FakeNativeDevice(1 << 29);
  const device = onHost ? openDevice({ kind: 'host', threads: 1 }) : fakeGpu(native);
  const before = openFiles();
  const load = { path: files[0]!, kvCacheType: 'f16', fingerprint: '', ...LIMITS, ...options } as const;
  try {
    const model = await loadModel(device, load, () => undefined);
    expect(heldOf(folderOf(files)).mappings).toBe(PARTS);
    model.release();
    return 'served';
  } catch (error) {
    const { reason, message } = asRocmForgeError(error);
    if (reason !== 'INTERNAL') return `${reason}: ${message}`;
    return `untyped: ${String((error as Error).stack)}`;
  } finally {
    expect(native.held).toEqual({ bytes: 0, plans: 0, graphs: 0 });
    expect(heldOf(folderOf(files))).toEqual({ descriptors: 0, mappings: 0 });
    expect(openFiles()).toEqual(before);
  }
}

describe('an executor that loads a split model', () => {
  it('gives everything back, on the host and on a GPU', async () => {
    const files = splitParts();
    for (const onHost of [true, false]) expect(await outcomeOf(files, {}, onHost)).toBe('served');
  });

  it('refuses a part that is not the one that the gateway reads', async () => {
    const files = splitParts();
    const parts = randomModel().split(PARTS);
    parts[2] = randomModel({ seed: 2 }).split(PARTS)[2]!;
    const opened = new ModelFile(files[0]!);
    const { identity } = opened;
    opened.close();
    expect(await outcomeOf(files, { fingerprint: identity })).toBe('served');
    expect(await outcomeOf(writeParts(parts), { fingerprint: identity })).toMatch(/^MODEL_FILE_CHANGED: .*differ/);
  });

  it('refuses a part that is written to while it is loaded', async () => {
    for (const part of [0, 1, 2]) {
      const files = splitParts();
      let isTouched = false;
      const load = { path: files[0]!, kvCacheType: 'f16', fingerprint: '', ...LIMITS } as const;
      const loaded = loadModel(fakeGpu(), load, () => {
        if (!isTouched) utimesSync(files[part]!, PAST, PAST);
        isTouched = true;
      });
      await expect(loaded).rejects.toMatchObject({
        reason: 'MODEL_FILE_CHANGED',
        message: `the model file ${path.basename(files[part]!)} was written to while its weights were in use`,
      });
      expect(heldOf(folderOf(files))).toEqual({ descriptors: 0, mappings: 0 });
    }
  });

  it(`${MUTANTS} damaged headers of a second part: each is served or refused by a reason, and nothing stays behind`, async () => {
    const files = splitParts();
    const part = randomModel().split(PARTS)[1]!;
    const good = goodHeader(Buffer.from(part.build()), part.read().dataOffset, /split\.[a-z.]+|blk\.[a-z0-9_.]+/g);
    const outcomes = new Map<string, number>();
    for (let number = 0; number < MUTANTS; number++) {
      writeFileSync(files[1]!, damaged(new Random(seed(number)), good));
      const outcome = await outcomeOf(files);
      expect(outcome, `mutant ${number}`).not.toMatch(/^untyped/);
      const [reason] = outcome.split(':') as [string];
      outcomes.set(reason, (outcomes.get(reason) ?? 0) + 1);
    }
    console.log([...outcomes].map(([reason, count]) => `${reason}: ${count}`).join('\n'));
    expect(outcomes.get('GGUF_INVALID')).toBeGreaterThan(MUTANTS / 4);
    expect(outcomes.get('served')).toBeGreaterThan(0);
  });

  it('refuses a part that lacks a tensor, by its name', async () => {
    const parts = randomModel().split(PARTS);
    parts[1]!.without('blk.1.attn_q.weight');
    for (const part of parts) part.set('split.tensors.count', typed.i32(20));
    expect(await outcomeOf(writeParts(parts))).toMatch(
      /^GGUF_INVALID: .*-00001-of-00003\.gguf holds no tensor blk\.1\.attn_q/,
    );
  });
});
