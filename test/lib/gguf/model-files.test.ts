import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { formatInspectReport, inspectModel } from '../../../src/cli/inspect/inspect.js';
import { FileByteSource } from '../../../src/lib/gguf/byte-source.js';
import { ModelFiles } from '../../../src/lib/gguf/model-files.js';
import { readGguf } from '../../../src/lib/gguf/reader.js';
import { readServableModel } from '../../../src/lib/gguf/servable-model.js';
import { nameOf } from '../../../src/lib/gguf/split.js';
import { type GgufBuilder, typed } from '../../support/gguf-builder.js';
import { randomModel, writeRandomModel } from '../../support/random-model.js';
import { partName, writeParts } from '../../support/split-model.js';

const openFiles = () => readdirSync('/proc/self/fd').length;

/** The reason and the message of what opening a model ends in; nothing may stay open. */
function refusal(file: string): string {
  const before = openFiles();
  try {
    new ModelFiles(file).close();
    return 'opened';
  } catch (error) {
    const { reason, message } = error as { reason?: string; message: string };
    return `${reason}: ${message.replaceAll(path.dirname(file), 'FOLDER')}`;
  } finally {
    expect(openFiles()).toBe(before);
  }
}

describe('a split model', () => {
  it.each([
    ['two parts', 2, undefined],
    ['five parts', 5, undefined],
    ['three parts, the first without tensors', 3, 0],
  ])('in %s says what the file in one says', (_, count, inFirst) => {
    const whole = randomModel();
    const paths = writeParts(whole.split(count, inFirst));
    const before = openFiles();
    const files = new ModelFiles(paths[0]!);
    expect(openFiles()).toBe(before + count);
    const one = whole.read();
    expect(files.parts).toHaveLength(count);
    expect([...files.model.tensors.keys()]).toEqual([...one.tensors.keys()]);
    expect(files.model.size).toBe(paths.reduce((sum, file) => sum + readFileSync(file).length, 0));
    expect(readServableModel(files.model)).toEqual(readServableModel(one));
    const bytes = whole.build();
    for (const { name, part, offset, bytes: length } of files.model.tensors.values()) {
      const from = one.tensors.get(name)!.offset;
      const data = Buffer.from(files.parts[part]!.source.read(offset, length));
      expect(data.equals(bytes.subarray(from, from + length))).toBe(true);
    }
    files.close();
    expect(openFiles()).toBe(before);
  });

  it('has an identity that each part is in, and that of its name is none', () => {
    const identity = (parts: readonly GgufBuilder[]) => {
      const files = new ModelFiles(writeParts(parts)[0]!);
      const found = { identity: files.identity(), fingerprint: files.model.fingerprint };
      files.close();
      return found;
    };
    const first = identity(randomModel().split(3));
    expect(identity(randomModel().split(3))).toEqual(first);
    for (const index of [0, 1, 2]) {
      const parts = randomModel().split(3);
      parts[index] = randomModel({ seed: 2 }).split(3)[index]!;
      expect(identity(parts).identity).not.toBe(first.identity);
      expect(identity(parts).fingerprint).toBe(first.fingerprint);
    }
  });

  it('that says it has one part is whole, whatever its name', () => {
    for (const count of [0, 1]) {
      const files = new ModelFiles(writeRandomModel({ metadata: { 'split.count': typed.u16(count) } }));
      expect(files.parts).toHaveLength(1);
      files.close();
    }
  });

  test.each([
    [partName(1, 3, 'Llama-3.1-70B.Q4_K_M'), 'Llama-3.1-70B.Q4_K_M'],
    ['model-1-of-3.gguf', 'model-1-of-3'],
    ['demo.gguf', 'demo'],
  ])('in %s is called %s', (file, name) => expect(nameOf(`/models/${file}`)).toBe(name));

  it('is inspected as one, its parts beside it', () => {
    const [first] = writeParts(randomModel().split(2));
    const report = inspectModel(first!);
    expect(report.parts.map(({ path: file }) => path.basename(file))).toEqual([partName(1, 2), partName(2, 2)]);
    expect(report.parts.reduce((sum, { tensors }) => sum + tensors, 0)).toBe(report.tensors.length);
    expect(report).toMatchObject({ problem: null, sizeBytes: report.parts[0]!.sizeBytes + report.parts[1]!.sizeBytes });
    const text = formatInspectReport(report);
    expect(text).toMatch(/^part 2 +random-00002-of-00002\.gguf \(\d+\.\d KiB, 10 tensors\)$/m);
    expect(text).toMatch(/^output\.weight +F32 +64 × 299 +2 +\d+ +74\.8 KiB$/m);
  });
});

/** A split model, spoilt after it was written or before. */
interface Spoilt {
  readonly name?: number;
  readonly parts?: (parts: GgufBuilder[]) => void;
  readonly files?: (files: string[]) => void;
  readonly message: string;
}

describe('a split model is refused', () => {
  const [one, two, three] = [1, 2, 3].map((number) => partName(number, 3));
  const swap = (a: string, b: string) => {
    renameSync(a, `${a}.moved`);
    renameSync(b, a);
    renameSync(`${a}.moved`, b);
  };
  const cases: Record<string, Spoilt> = {
    'when its second part is named': {
      name: 1,
      message: `INVALID_OPTION: FOLDER/${two} is part 2 of 3 of a split model; name its first part, FOLDER/${one}`,
    },
    'when a part is missing': {
      files: (files) => rmSync(files[2]!),
      message: `MODEL_FILE_UNREADABLE: FOLDER/${three} does not exist; it is part 3 of the 3 of FOLDER/${one}`,
    },
    'when a part is a folder': {
      files: (files) => {
        rmSync(files[1]!);
        mkdirSync(files[1]!);
      },
      message: `MODEL_FILE_UNREADABLE: FOLDER/${two} is a directory; give the path of a .gguf file; it is part 2 of the 3 of FOLDER/${one}`,
    },
    'when a part is empty': {
      files: (files) => truncateSync(files[1]!, 0),
      message: `GGUF_INVALID: FOLDER/${two}: the magic number is cut off: 4 bytes are needed and the file ends at byte 0 (at byte 0)`,
    },
    'when a part ends within its last tensor': {
      files: (files) => truncateSync(files[2]!, readFileSync(files[2]!).length - 64),
      message: `GGUF_INVALID: FOLDER/${three}: tensor "output.weight" occupies bytes`,
    },
    'when a part is of a model in other parts': {
      parts: (parts) => parts.splice(1, 1, randomModel().split(4)[1]!),
      message: `GGUF_INVALID: FOLDER/${two}: metadata key "split.count" is 4, not 3 as ${one} says`,
    },
    'when a part is a model in one file': {
      parts: (parts) => parts.splice(1, 1, randomModel()),
      message: `GGUF_INVALID: FOLDER/${two}: metadata key "split.count" does not say 3 as ${one} says: it is not a part of it`,
    },
    'when a part is of a model with more tensors': {
      parts: (parts) => parts.splice(1, 1, randomModel({ layers: 3 }).split(3)[1]!),
      message: `GGUF_INVALID: FOLDER/${two}: metadata key "split.tensors.count" is 30, not 21 as ${one} says: it belongs to another model`,
    },
    'when a part is another part': {
      parts: (parts) => parts[1]!.set('split.no', typed.u16(2)),
      message: `GGUF_INVALID: FOLDER/${two}: metadata key "split.no" is 2 instead of 1: this is another part`,
    },
    'when two parts are swapped': {
      files: (files) => swap(files[1]!, files[2]!),
      message: `GGUF_INVALID: FOLDER/${two}: metadata key "split.no" is 2 instead of 1: this is another part`,
    },
    'when the first part is swapped with another': {
      files: (files) => swap(files[0]!, files[2]!),
      message: `INVALID_OPTION: FOLDER/${one} is part 3 of 3 of a split model; name its first part, FOLDER/${one}`,
    },
    'when a tensor is in two parts': {
      parts: (parts) => parts[2]!.tensor('blk.0.attn_q.weight', { dims: [64, 64] }),
      message: `GGUF_INVALID: FOLDER/${three}: tensor "blk.0.attn_q.weight" is in FOLDER/${one}, too; each is in one part`,
    },
    'when a tensor is in no part': {
      parts: (parts) => parts[1]!.without(parts[1]!.tensorNames[0]!),
      message: `GGUF_INVALID: FOLDER/${one}: metadata key "split.tensors.count" is 21, but its 3 parts hold 20 tensors`,
    },
    'when it has a tensor too many': {
      parts: (parts) => parts[1]!.tensor('blk.9.attn_q.weight', { dims: [64] }),
      message: `GGUF_INVALID: FOLDER/${one}: metadata key "split.tensors.count" is 21, but its 3 parts hold 22 tensors`,
    },
    'when a later part says something else of the model': {
      parts: (parts) => parts[2]!.set('llama.rope.freq_base', typed.f32(5e5)),
      message: `GGUF_INVALID: FOLDER/${three}: metadata key "llama.rope.freq_base" is not what ${one} says`,
    },
    'when a key of its split is missing': {
      parts: (parts) => parts[0]!.set('split.tensors.count', undefined),
      message: `GGUF_INVALID: FOLDER/${one}: metadata key "split.tensors.count" is missing beside 3 parts`,
    },
    'when a key of its split is not a number': {
      parts: (parts) => parts[0]!.set('split.count', 'three'),
      message: `GGUF_INVALID: FOLDER/${one}: metadata key "split.count" is not a number`,
    },
    'when a key of its split is no whole number': {
      parts: (parts) => parts[0]!.set('split.count', typed.f32(2.5)),
      message: `GGUF_INVALID: FOLDER/${one}: metadata key "split.count" is 2.5, no whole number`,
    },
    'when its parts are fewer than its number': {
      parts: (parts) => parts[0]!.set('split.no', typed.u16(3)),
      message: `GGUF_INVALID: FOLDER/${one}: metadata key "split.no" is 3, beyond the 3 parts that "split.count" says`,
    },
  };
  it.each(Object.entries(cases))('%s', (_, { name = 0, parts: spoil, files: spoilFiles, message }) => {
    const parts = randomModel().split(3);
    spoil?.(parts);
    const files = writeParts(parts);
    spoilFiles?.(files);
    expect(refusal(files[name]!)).toContain(message);
  });

  it('when its first part is not named as one', () => {
    const [first] = writeParts(randomModel().split(3));
    for (const name of ['model.gguf', 'model-00001-of-00004.gguf', 'model-00002-of-00003.gguf']) {
      const renamed = path.join(path.dirname(first!), name);
      writeFileSync(renamed, readFileSync(first!));
      expect(refusal(renamed)).toContain(
        `GGUF_INVALID: FOLDER/${name} is the first of 3 parts of a split model but is`,
      );
    }
  });

  it('when it is opened through other files than it has', () => {
    const [first, second] = writeParts(randomModel().split(2));
    const before = openFiles();
    expect(() => new ModelFiles(first!, [first!])).toThrow(expect.objectContaining({ reason: 'MODEL_FILE_CHANGED' }));
    expect(() => new ModelFiles(first!, [first!, second!, second!])).toThrow(
      expect.objectContaining({ reason: 'MODEL_FILE_CHANGED' }),
    );
    expect(openFiles()).toBe(before);
  });

  it('a part read alone is a GGUF file all the same', () => {
    const source = new FileByteSource(writeParts(randomModel().split(2))[1]!);
    expect(readGguf(source).tensors.size).toBe(10);
    source.close();
  });
});
