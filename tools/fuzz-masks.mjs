// Runs random grammars and texts through the mask engine under AddressSanitizer and UndefinedBehaviorSanitizer.
//   node tools/fuzz-masks.mjs [--grammars 100000] [--seed N]
import { execFileSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { mkdirSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: { grammars: { type: 'string', default: '100000' }, seed: { type: 'string' } },
});
const engine = path.join(root, 'native', 'constraints');
// The part that knows JavaScript is not needed.
const sources = readdirSync(engine).filter((name) => name.endsWith('.cc') && !name.endsWith('_object.cc'));
const program = path.join(root, 'build', 'fuzz-masks');
mkdirSync(path.dirname(program), { recursive: true });
const flags = ['-std=c++20', '-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all', '-pthread'];
const files = [path.join(root, 'test', 'native', 'fuzz_masks.cc'), ...sources.map((name) => path.join(engine, name))];
execFileSync(process.env.CXX ?? 'g++', [...flags, ...files, '-o', program], { stdio: 'inherit' });
const seed = options.seed ?? String(randomInt(2 ** 32));
console.log(`seed ${seed}`);
execFileSync(program, [seed, options.grammars], { stdio: 'inherit' });
