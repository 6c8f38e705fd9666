// Holds the code objects of build/kernels/ against the hardware's limits, by their own metadata: wave size, LDS, no spilled
// registers in matrix products and attention. Writes the registers and static occupancy of every kernel to
// build/docs/registers.md. Ends with 1 when one breaks a limit. (Arguments were held against the contracts when they were built.)
//
//   node tools/check-kernels.mjs --target gfx1100,gfx942 [--output DIR]       --target all: every AMD target that is supported
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { AMD_TARGETS } from './amd-targets.mjs';
import { complaints, registerTable } from './kernel-limits.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: 'gfx1100,gfx942' },
    output: { type: 'string', default: path.join(root, 'build', 'kernels') },
  },
});

const targets = options.target === 'all' ? AMD_TARGETS.map(({ target }) => target) : options.target.split(',');
const manifests = targets.map((target) => {
  const file = path.join(options.output, target, 'manifest.json');
  if (!existsSync(file)) {
    console.error(`check-kernels: ${file} is missing; run "npm run build:kernels -- --target ${target}"`);
    process.exit(1);
  }
  return JSON.parse(readFileSync(file, 'utf8'));
});
const found = manifests.flatMap(complaints);
const tables = manifests.flatMap(registerTable).join('\n');
for (const complaint of found) console.error(`check-kernels: ${complaint}`);
const introduction = [
  '# Registers and static occupancy',
  '',
  'Written by `npm run check:kernels` from what the code objects say of themselves. Static: how many blocks of 256 threads',
  'fit at one time by their registers and LDS, not how many a launch has. Scratch is bytes a thread. The register file of a',
  'SIMD holds 1536 vector registers a lane on gfx1100, gfx1101, gfx1151 and gfx12, 1024 on the other RDNA, 256 on gfx906, and 512 on',
  'CDNA, where accumulation registers count among them.',
  '',
];
const page = path.join(root, 'build', 'docs', 'registers.md');
mkdirSync(path.dirname(page), { recursive: true });
writeFileSync(page, `${[...introduction, tables].join('\n').trimEnd()}\n`);
const count = manifests.reduce((sum, { files }) => sum + files.flatMap(({ kernels }) => kernels).length, 0);
console.log(
  `check-kernels: ${count} kernels of ${targets}, ${found.length} beyond a limit; registers in ${path.relative(root, page)}`,
);
process.exit(found.length === 0 ? 0 : 1);
