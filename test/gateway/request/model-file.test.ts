import { appendFileSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { ModelFile } from '../../../src/gateway/request/model-file.js';
import { randomModel } from '../../support/random-model.js';

const folder = mkdtempSync(join(tmpdir(), 'model-file-'));
const path = join(folder, 'served.gguf');
const original = randomModel().build();
let file: ModelFile;

afterEach(() => {
  file.close();
  rmSync(path);
});

function open(): ModelFile {
  writeFileSync(path, original);
  file = new ModelFile(path);
  return file;
}

describe('the model file of a gateway', () => {
  it.each<[string, () => void]>([
    ['touched', () => utimesSync(path, new Date(1), new Date(1))],
    ['written with the same content', () => writeFileSync(path, original)],
    [
      'written with the same content and times',
      () => {
        writeFileSync(path, original);
        utimesSync(path, new Date(1), new Date(1));
      },
    ],
  ])('%s is the same model', (_, change) => {
    const opened = open();
    for (let time = 0; time < 2; time++) {
      change();
      expect(() => opened.checkStamp()).not.toThrow();
      expect(() => opened.check()).not.toThrow();
    }
  });

  it.each<[string, () => void]>([
    ['longer', () => appendFileSync(path, 'more')],
    ['shorter', () => writeFileSync(path, original.subarray(0, original.length - 64))],
    ['empty', () => writeFileSync(path, '')],
    ['of other weights', () => writeFileSync(path, randomModel({ seed: 2 }).build())],
  ])('that is %s is another one, and its folder is not told', (_, change) => {
    const opened = open();
    change();
    for (const check of [() => opened.checkStamp(), () => opened.check()]) {
      expect(check).toThrow(expect.objectContaining({ reason: 'MODEL_FILE_CHANGED' }));
      expect(check).not.toThrow(folder);
    }
    writeFileSync(path, original);
    expect(() => opened.checkStamp()).not.toThrow();
  });

  it('is another one once an executor has loaded other bytes, until it is written to again', () => {
    const opened = open();
    opened.confirm(5n);
    opened.confirm(5n);
    const changed = expect.objectContaining({ reason: 'MODEL_FILE_CHANGED' });
    expect(() => opened.confirm(6n)).toThrow(changed);
    expect(() => opened.check()).toThrow(changed);
    expect(() => opened.checkStamp()).toThrow(changed);
    utimesSync(path, new Date(2), new Date(2));
    opened.checkStamp();
    opened.confirm(5n);
  });
});
