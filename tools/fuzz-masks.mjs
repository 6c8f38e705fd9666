// Runs random grammars and texts through the mask engine under AddressSanitizer and UndefinedBehaviorSanitizer.
//   node tools/fuzz-masks.mjs [--grammars 100000] [--seed N] [--fresh]
// A run resumes: batches that passed with the same sources are not run again, unless --fresh is given. The seed of a batch is printed
// where it fails; `build/fuzz-masks SEED 1000` repeats it.
import { execFileSync } from 'node:child_process';
import { createHash, randomInt } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** Grammars of one process. */
const BATCH = 1000;

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    grammars: { type: 'string', default: '100000' },
    seed: { type: 'string' },
    fresh: { type: 'boolean', default: false },
  },
});
const engine = path.join(root, 'native', 'constraints');
// The part that knows JavaScript is not needed.
const sources = readdirSync(engine).filter((name) => name.endsWith('.cc') && !name.endsWith('_object.cc'));
const headers = readdirSync(engine).filter((name) => name.endsWith('.h'));
const files = [path.join(root, 'test', 'native', 'fuzz_masks.cc'), ...sources.map((name) => path.join(engine, name))];
const program = path.join(root, 'build', 'fuzz-masks');
const stateFile = path.join(root, 'build', 'fuzz-masks.json');
mkdirSync(path.dirname(program), { recursive: true });
const hash = createHash('sha256');
for (const file of [...files, ...headers.map((name) => path.join(engine, name))]) hash.update(readFileSync(file));
const key = hash.digest('hex');

/** @typedef {{ key: string, seed: number, totals: Record<string, number> }} State */
/** @type {State | undefined} */
const kept = existsSync(stateFile) ? JSON.parse(readFileSync(stateFile, 'utf8')) : undefined;
const seed = options.seed === undefined ? undefined : Number(options.seed);
const resumes = kept !== undefined && !options.fresh && kept.key === key && (seed === undefined || seed === kept.seed);
const state = resumes ? kept : { key, seed: seed ?? randomInt(2 ** 31), totals: { grammars: 0 } };
const grammars = Number(options.grammars);
console.log(`seed ${state.seed}${resumes ? `, from grammar ${state.totals.grammars}` : ''}`);
const flags = ['-std=c++20', '-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-pthread'];
if ((state.totals.grammars ?? 0) < grammars)
  execFileSync(process.env.CXX ?? 'g++', [...flags, ...files, '-o', program], { stdio: 'inherit' });
for (let done = state.totals.grammars ?? 0; done < grammars; done = state.totals.grammars ?? 0) {
  const count = Math.min(BATCH, grammars - done);
  const batchSeed = state.seed + done / BATCH;
  let line = '';
  try {
    line = execFileSync(program, [String(batchSeed), String(count)], { encoding: 'utf8' });
  } catch (error) {
    if (error instanceof Error && 'stdout' in error) console.log(String(error.stdout));
    console.error(`fuzz-masks: the batch with seed ${batchSeed} failed`);
    process.exit(1);
  }
  for (const [, number, name = ''] of line.matchAll(/(\d+) ([a-z ]+)/g))
    state.totals[name] = (state.totals[name] ?? 0) + Number(number);
  writeFileSync(stateFile, `${JSON.stringify(state, null, 2)}\n`);
}
console.log(
  Object.entries(state.totals)
    .map(([name, number]) => `${number} ${name}`)
    .join(', '),
);
