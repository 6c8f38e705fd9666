import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import * as contracts from '../../src/executor/kernels/index.js';
import { SlotWord } from '../../src/executor/model/slot-layout.js';
import { packageRoot } from '../../src/shared/package.js';
import { contractHeader } from '../../tools/contract-header.mjs';
import { SEED_NAMES } from '../support/seed-names.js';
import { operationOf, Target, testTargets } from './support/targets.js';

const { allContracts } = contracts;
const kernels = path.join(packageRoot, 'kernels');
/** Relative to `kernels/`. */
const files = ['', 'hopper', 'twins'].flatMap((folder) =>
  readdirSync(path.join(kernels, folder))
    .filter((file) => file.endsWith('.hip'))
    .map((file) => path.join(folder, file)),
);
const tests = path.join(packageRoot, 'test', 'kernels');
/**
 * Kernels that only Hopper's processors compile: `bench/gpu/linear.cu` checks these against a float64 reference, on such a GPU.
 */
const isHoppers = ({ on }: { on?: unknown }) => on === 'hopper';
const portable = allContracts.filter((contract) => !isHoppers(contract));

const operations = [...new Set(portable.map(operationOf))];

/** Device math that is wrong or missing without a vendor's library; `exp_of` and `log_of` of the prelude are not. */
const FORBIDDEN = /\b(?:__builtin_)?(?:sin|cos|tan|tanh|pow|erf)f?\s*\(/;

/** Operations that a test of several has. */
const TESTED_TOGETHER: Readonly<Record<string, string>> = {
  attention_encoder_rows: 'attention_encoder',
  attention_encoder_tile: 'attention_encoder',
  min_p: 'probability_filters',
  top_p: 'probability_filters',
};

describe('the contracts', () => {
  it('name each symbol once', () => {
    const names = allContracts.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  });

  it('cover every kernel file', () => {
    const named = [...new Set(allContracts.map(({ source }) => source))];
    expect(named.sort()).toEqual(files.sort());
    // Each becomes an object of its own, in one folder.
    expect(new Set(named.map((file) => path.basename(file))).size).toBe(named.length);
  });

  it.each(operations)('%s has a float64 reference and a test', (operation) => {
    expect(existsSync(path.join(tests, 'reference', `${operation}.ts`))).toBe(true);
    const test = path.join(tests, `${TESTED_TOGETHER[operation] ?? operation}.test.ts`);
    expect(existsSync(test)).toBe(true);
    expect(readFileSync(test, 'utf8')).toContain(operation);
  });

  it.each(testTargets())('agree with the $name build about every argument', ({ name }) => {
    const target = new Target(name, 0);
    for (const contract of portable) if (target.has(contract)) target.device.checkKernel(contract);
  });
});

describe('the map of the seed documents’ names', () => {
  const seeds = path.join(packageRoot, '..', 'shared', 'seeds');

  it('names kernels that there are', () => {
    const names = allContracts.map(({ name }) => name);
    for (const { seed, kernels: here } of SEED_NAMES) {
      expect(here.length, seed).toBeGreaterThan(0);
      for (const name of here) expect(names, seed).toContain(name);
    }
  });

  it.skipIf(!existsSync(seeds))('leaves out no kernel and no kernel file of the documents', () => {
    const text = readdirSync(seeds)
      .map((file) => readFileSync(path.join(seeds, file), 'utf8'))
      .join('\n');
    const found = [
      /__global__ void (\w+)/g,
      /\b(\w+_kernel)\b/g,
      /(\w+)\.hip\b/g,
      /\b(rope_kv_append_fused)\b/g,
    ].flatMap((pattern) => [...text.matchAll(pattern)].map((match) => match[1]!));
    // The seeds' own build script has a function of this name.
    const wanted = new Set(found.filter((name) => name !== 'compile_kernel'));
    expect(wanted.size).toBeGreaterThan(25);
    const known = SEED_NAMES.map(({ seed }) => seed);
    expect([...wanted].filter((name) => !known.includes(name) && !known.includes(`${name}_kernel`))).toEqual([]);
  });
});

it('the header of the numbers that kernels and TypeScript share is what the build writes', () => {
  const text = readFileSync(path.join(kernels, 'forge', 'contract.h'), 'utf8');
  expect(text).toBe(contractHeader(contracts, SlotWord));
});

const KERNEL = /\bKERNEL(?:_RESIDENT|_OF)?\(/;

describe('kernel sources', () => {
  const sources = [kernels, path.join(kernels, 'forge'), path.join(kernels, 'twins')].flatMap((folder) =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.join(folder, entry.name)),
  );
  it.each(sources.map((file) => path.relative(kernels, file)))(
    '%s computes no transcendental but e^x and ln',
    (file) => {
      const code = readFileSync(path.join(kernels, file), 'utf8').replace(/\/\/.*/g, '');
      expect(code).not.toMatch(FORBIDDEN);
    },
  );

  it.each(files)('%s asks for no platform', (file) => {
    expect(readFileSync(path.join(kernels, file), 'utf8')).not.toMatch(/^\s*#\s*if/m);
  });

  // If launches overlap, a kernel that does not wait would read what the one before it has not written yet.
  it.each(files)('%s: every kernel waits its turn', (file) => {
    const read = (name: string) => readFileSync(path.join(kernels, name), 'utf8').replace(/\/\/.*/g, '');
    const own = read(file);
    // Some share the text of a kernel with their twins.
    const shared = [...own.matchAll(/"(forge\/[\w/]+\.h)"/g)]
      .map(([, name]) => read(name!))
      .filter((text) => KERNEL.test(text));
    const code = [own, ...shared].join('\n');
    const bodies = code.split(KERNEL).slice(1);
    expect(bodies.length).toBeGreaterThan(0);
    for (const body of bodies) expect(body).toContain('BLOCK_INDEX');
    if (!code.includes('BLOCK_INDEX_AHEAD')) return;
    const headers = [
      'linear_tile.h',
      'linear_many.h',
      'hopper/linear_hopper.h',
      'hopper/linear_decode.h',
      'normed.h',
      'normed_tile.h',
    ]
      .filter((name) => code.includes(`${name}"`))
      .map((name) => read(`forge/${name}`));
    expect([code, ...headers].join()).toContain(' wait_for_inputs();');
  });
});
