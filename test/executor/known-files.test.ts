import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkKvCache } from '../../src/executor/model/kv-cache.js';
import { readGraph } from '../../src/executor/models/index.js';
import { readServableModel } from '../../src/lib/gguf/servable-model.js';
import { createTokenizer } from '../../src/lib/tokenizer/tokenizer.js';
import { typedError } from '../../src/shared/errors.js';
import { packageRoot } from '../../src/shared/package.js';
import { headerOf, KNOWN_FILES, type KnownFile, knownFilesTable } from '../support/known-files.js';

/** Refusal of its header, with its real head size, by gateway or executor; `undefined`: none. */
function refusalOf(known: KnownFile): string | undefined {
  const file = headerOf(known).read();
  try {
    const model = readServableModel(file);
    readGraph(file, model);
    createTokenizer(file.metadata);
    checkKvCache({ ...model, headDim: known.headDim }, { kvCacheType: 'f16', attention: 'fused' });
    return undefined;
  } catch (error) {
    const typed = typedError(error);
    if (typed === undefined) throw error;
    expect(typed.reason).toMatch(/_UNSUPPORTED$/);
    return typed.message;
  }
}

describe('of well-known files, by architecture, pre-tokenizer, types and heads', () => {
  it.each(KNOWN_FILES.map((known) => [known.name, known] as const))('%s', (_name, known) => {
    const refusal = refusalOf(known);
    if (known.refused === undefined) expect(refusal).toBeUndefined();
    else expect(refusal).toContain(known.refused);
  });

  it('a pre-tokenizer that is not known is refused', () => {
    const [llama] = KNOWN_FILES;
    expect(refusalOf({ ...llama!, preTokenizer: 'of-next-year' })).toContain('"of-next-year" is not supported');
  });

  it('docs/models.md has this table', () => {
    expect(readFileSync(path.join(packageRoot, 'docs', 'models.md'), 'utf8')).toContain(knownFilesTable());
  });
});
