import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { type ParityCase, readParityCases } from '../../src/cli/verify/teacher-forced.js';
import { packageRoot } from '../../src/shared/package.js';
import { RANDOM_FAMILIES, type RandomFamilyName } from './random-families.js';
import type { RandomFamily } from './random-family.js';
import { writeRandomFamily } from './random-model.js';

const FIXTURES = path.join('test', 'fixtures', 'families');
const MADE = path.join('build', 'families');
const STEPS = 64;

/**
 * True of families whose GELU llama.cpp takes from a table of f16, by the gate in f16: its log probabilities are up to 1e-3 from
 * those of double precision. Where a gate lies between two f16, the order of sums decides which it becomes, and what follows from it is
 * another f16 elsewhere: layers, and positions, multiply that.
 */
export const isTabled = (family: RandomFamilyName): boolean =>
  /^(gemma|starcoder2|codeshell|phi2|falcon(-\d+b)?$|gptneox)/.test(family);

/** True of families that llama.cpp does not have: double precision is their reference. */
export const isFloat64Only = (family: RandomFamilyName): boolean => {
  const { reference }: RandomFamily = RANDOM_FAMILIES[family];
  return reference === 'float64';
};

/**
 * llama.cpp's answers, made by bench/peers/make-parity.mjs of the very files that the seed gives; those of llama where llama.cpp does
 * not have the family.
 *
 * @throws Error where there are none yet: the model and the prompts are in build/families/ then, and the message has the command
 */
export function llamaCases(family: RandomFamilyName | 'gemma-1-layer'): readonly ParityCase[] {
  const isOwn = family === 'gemma-1-layer' || !isFloat64Only(family);
  const answers = path.join(FIXTURES, `${isOwn ? family : 'llama'}.json`);
  if (existsSync(path.join(packageRoot, answers)) || family === 'gemma-1-layer') {
    return readParityCases(path.join(packageRoot, answers));
  }
  const [model, prompts] = [path.join(MADE, `${family}.gguf`), path.join(MADE, 'prompts.json')];
  mkdirSync(path.join(packageRoot, MADE), { recursive: true });
  copyFileSync(writeRandomFamily(family), path.join(packageRoot, model));
  const { cases } = JSON.parse(readFileSync(path.join(packageRoot, FIXTURES, 'llama.json'), 'utf8'));
  writeFileSync(path.join(packageRoot, prompts), JSON.stringify(cases.map(({ prompt }: { prompt: string }) => prompt)));
  throw new Error(
    `${family} has no answers of llama.cpp; run: ` +
      `node bench/peers/make-parity.mjs --model ${model} --prompts ${prompts} --steps ${STEPS} -o ${answers}`,
  );
}
