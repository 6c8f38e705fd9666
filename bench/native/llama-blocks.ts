/**
 * Writes test/fixtures/llama-blocks.json: a hash of what llama.cpp's own `dequantize_row_*` makes of random blocks of each
 * type, enough of them that every entry of every table is among them.
 *
 *   npx tsc -p tsconfig.json --noEmit false --outDir build/bench --rootDir .
 *   node build/bench/bench/native/llama-blocks.js FOLDER_OF_LIBGGML_BASE
 *
 * node-llama-cpp of bench/peers has the library, in bins of its package for this machine.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { BLOCK_TYPES, blockFormat } from '../../src/executor/kernels/index.js';
import { packageRoot } from '../../src/shared/package.js';
import { ggmlBlocks, hashOf } from '../../test/kernels/support/llama-blocks.js';

const [libraries = ''] = process.argv.slice(2);
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-blocks-'));
try {
  const program = path.join(folder, 'llama-blocks');
  const source = path.join(packageRoot, 'bench', 'native', 'llama-blocks.c');
  execFileSync('cc', ['-O2', '-Wall', '-o', program, source, '-ldl']);
  const hashes = BLOCK_TYPES.map((type) => {
    const { blockBytes, blockElements } = blockFormat(type);
    const args = [
      path.join(libraries, 'libggml-base.so'),
      `dequantize_row_${type.replace('_k', '_K')}`,
      `${blockBytes}`,
      `${blockElements}`,
    ];
    const values = execFileSync(program, args, { input: ggmlBlocks(type), maxBuffer: 1 << 28 });
    return [type, hashOf(new Float32Array(Uint8Array.from(values).buffer))] as const;
  });
  const file = path.join(packageRoot, 'test', 'fixtures', 'llama-blocks.json');
  const madeBy =
    'dequantize_row_* of llama.cpp, libggml-base.so of node-llama-cpp 3.22.1 (bench/native/llama-blocks.ts)';
  writeFileSync(file, `${JSON.stringify({ madeBy, sha256: Object.fromEntries(hashes) }, null, 2)}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
