import { mkdtempSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { type NamedModels, servedModels } from '../../src/cli/serve/served-models.js';

const named = (options: NamedModels) =>
  servedModels(options).map(({ model, modelName, modelAlias }) => [model, modelName, modelAlias]);
const refusal = (options: NamedModels) => {
  try {
    servedModels(options);
  } catch (error) {
    return error;
  }
  throw new Error('it was taken');
};

describe('the models of a command line', () => {
  it('are one by its file, with the options that name it, as long as there is one', () => {
    expect(named({ models: ['a.gguf'] })).toEqual([['a.gguf', undefined, undefined]]);
    expect(named({ models: ['a.gguf'], modelName: 'a', modelAlias: ['b=c', 'd'], chatTemplate: 't' })).toEqual([
      ['a.gguf', 'a', ['b=c', 'd']],
    ]);
    expect(named({ models: ['chat=a.gguf'], modelAlias: ['b'] })).toEqual([['a.gguf', 'chat', ['b']]]);
  });

  it('are several by name, with aliases of each', () => {
    const models = ['chat=/m/a.gguf', 'small=hf.co/OWNER/REPOSITORY:Q4_K_M', 'b.gguf'];
    expect(named({ models, modelAlias: ['gpt-4=chat', 'tiny=small', 'gpt-5=chat'] })).toEqual([
      ['/m/a.gguf', 'chat', ['gpt-4', 'gpt-5']],
      ['hf.co/OWNER/REPOSITORY:Q4_K_M', 'small', ['tiny']],
      ['b.gguf', undefined, undefined],
    ]);
  });

  it('have no name where a slash stands before the first "=", and keep later ones', () => {
    expect(named({ models: ['./a=b.gguf', 'x=a=b.gguf'] })).toEqual([
      ['./a=b.gguf', undefined, undefined],
      ['a=b.gguf', 'x', undefined],
    ]);
    expect(named({ models: ['=a.gguf'] })).toEqual([['=a.gguf', undefined, undefined]]);
  });

  it('may have a slash in their names where a file is behind them', () => {
    const model = path.join(mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-')), 'q=4.gguf');
    writeFileSync(model, '');
    expect(named({ models: [`owner/model:F32=${model}`] })).toEqual([[model, 'owner/model:F32', undefined]]);
    expect(named({ models: ['owner/model=none.gguf'] })).toEqual([['owner/model=none.gguf', undefined, undefined]]);
  });

  it('have no name where all of it is a file that there is', () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-test-'));
    writeFileSync(path.join(folder, 'q=4.gguf'), '');
    const before = process.cwd();
    process.chdir(folder);
    try {
      expect(named({ models: ['q=4.gguf'] })).toEqual([['q=4.gguf', undefined, undefined]]);
    } finally {
      process.chdir(before);
    }
  });

  it.each([
    [{ models: ['chat=a'], modelName: 'b' }, 'model-name', 'the model is called "chat" by --model, and "b"'],
    [
      { models: ['chat=a', 'b=b'], modelName: 'c' },
      'model-name',
      '--model-name applies to one model; name several as --model NAME=FILE, or start a gateway for each',
    ],
    [
      { models: ['chat=a', 'b=b'], chatTemplate: 'c' },
      'chat-template',
      '--chat-template applies to one model; of several give --model-option NAME:chat-template=VALUE',
    ],
    [
      { models: ['chat=a', 'b=b'], toolParser: 'c' },
      'tool-parser',
      'of several give --model-option NAME:tool-parser=VALUE',
    ],
    [{ models: ['a'], modelName: '' }, 'model-name', '--model-name is empty; give a name, or leave it out'],
    [{ models: ['a'], modelName: ' ' }, 'model-name', '--model-name is empty'],
    [{ models: ['a'], modelAlias: ['b', ''] }, 'model-alias', '--model-alias is empty; give a name'],
    [{ models: ['chat=a', 'b=b'], modelAlias: ['c'] }, 'model-alias', 'is not ALIAS=NAME of one of the models'],
    [{ models: ['chat=a', 'b=b'], modelAlias: ['c=d'] }, 'model-alias', 'named: chat, b'],
  ])('are refused as %j, by the option', (options, option, message) => {
    expect(refusal(options)).toMatchObject({ reason: 'INVALID_OPTION', metadata: { option } });
    expect((refusal(options) as Error).message).toContain(message);
  });
});
