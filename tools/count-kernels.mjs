// Holds the machine code of build/kernels/ against the counts in test/fixtures/kernel-counts/: instructions by class,
// registers, LDS, waves that fit. Ends with 1 when a kernel is more than 5 % worse, new or gone, until the counts are written
// anew. Counts are of one compiler: of another they are printed, and not compared.
//
//   node tools/count-kernels.mjs --target gfx1100,gfx942 [--output DIR] [--write]
//
// Disassembler: $OBJDUMP, else llvm-objdump of the compiler's version.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { countInstructions, countsTable, disassemble, readCounts, worsened } from './kernel-counts.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: 'gfx1100,gfx942' },
    output: { type: 'string', default: path.join(root, 'build', 'kernels') },
    write: { type: 'boolean', default: false },
  },
});

/**
 * Ends with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`count-kernels: ${message}`);
  process.exit(1);
}

let isWorse = false;
for (const target of options.target.split(',')) {
  const folder = path.join(options.output, target);
  const manifestFile = path.join(folder, 'manifest.json');
  if (!existsSync(manifestFile)) fail(`${manifestFile} is missing; run "npm run build:kernels -- --target ${target}"`);
  const manifest = JSON.parse(readFileSync(manifestFile, 'utf8'));
  const counted = new Map(
    manifest.files.flatMap(({ file, kernels }) => [
      ...countInstructions(
        disassemble(manifest.compiler, path.join(folder, file)),
        kernels.map(({ name }) => name),
      ),
    ]),
  );
  const table = countsTable(manifest, counted);
  const fixture = path.join(root, 'test', 'fixtures', 'kernel-counts', `${target}.tsv`);
  if (options.write) {
    mkdirSync(path.dirname(fixture), { recursive: true });
    writeFileSync(fixture, table);
    console.log(`count-kernels: ${target}: ${counted.size} kernels written`);
    continue;
  }
  if (!existsSync(fixture)) fail(`${fixture} is missing; write it with --write`);
  const [before, after] = [readCounts(readFileSync(fixture, 'utf8')), readCounts(table)];
  if (before.compiler !== after.compiler) {
    console.log(`count-kernels: ${target}: counts are of ${before.compiler}, this is ${after.compiler}: not compared`);
    continue;
  }
  const lines = worsened(before, after);
  for (const line of lines) console.error(`count-kernels: ${target}: ${line}`);
  console.log(`count-kernels: ${target}: ${after.kernels.size} kernels, ${lines.length} worse, new or gone`);
  isWorse ||= lines.length > 0;
}
if (isWorse) fail('if that is meant, write the counts anew: npm run count:kernels -- --write');
