// Builds kernels with a mistake in one of them, for tests of what happens then.
//
//   node tools/plant-mistake.mjs --output DIR [--mistake NAME] [--target host|sm_90|gfx1100] [--position N]
//
//   out-of-range-store  (default) rope_kv_append stores terabytes past the cache for the value of position N
//   wrong-norm          rms_norm is a thousandth too large
//   wrong-activation    swiglu activates up instead of the gate
//   uneven-rows         matmul's sums are a hundred-thousandth larger for rows that it takes several at once
//   wrong-replay        gather_rows takes the row before where the first sampled row is the 26th to 111th, as when a stream is
//                       computed again
//
// DIR then serves as --kernels of an executor. Only the one file is built anew; it takes its place in front of what
// build/kernels/<target> holds, which must be there.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({
  options: {
    target: { type: 'string', default: 'host' },
    mistake: { type: 'string', default: 'out-of-range-store' },
    position: { type: 'string', default: '100' },
    output: { type: 'string' },
  },
});
const MISTAKES = {
  'out-of-range-store': {
    source: 'rope_kv_append.hip',
    file: 'forge/rope_append.h',
    from: 'kv_offset(row.block_table, row.position, row.kv_heads, (head - row.heads) % row.kv_heads, row.head_dim)',
    to: `kv_offset(row.block_table, row.position, row.kv_heads, (head - row.heads) % row.kv_heads, row.head_dim) + (row.position == ${Number(options.position)} ? size_t{1} << 42 : 0)`,
  },
  'wrong-norm': {
    source: 'rms_norm.hip',
    file: 'forge/norm.h',
    from: '* scale * weight[i]',
    to: '* scale * weight[i] * 1.001f',
  },
  'wrong-activation': {
    source: 'swiglu.hip',
    file: 'forge/swiglu.h',
    from: 'element(to_float(gate[i]), to_float(up[i]))',
    to: 'element(to_float(up[i]), to_float(gate[i]))',
  },
  'uneven-rows': {
    source: 'matmul.hip',
    file: 'forge/matmul.h',
    from: 'wave_sum(sums[i]);',
    to: 'wave_sum(sums[i]) * 1.00001f;',
    onHost: {
      file: 'forge/host_dots.h',
      from: 'n + r] = sums[r][t];',
      to: 'n + r] = sums[r][t] * 1.00001f;',
    },
  },
  'wrong-replay': {
    source: 'gather_rows.hip',
    from: 'static_cast<size_t>(index[row]) * hidden;',
    to: 'static_cast<size_t>(*index > 24 && *index < 111 ? index[row] - 1 : index[row]) * hidden;',
  },
};

/**
 * Ends with one line on stderr.
 *
 * @param {string} message
 * @returns {never}
 */
function fail(message) {
  console.error(`plant-mistake: ${message}`);
  process.exit(1);
}

const mistake = MISTAKES[options.mistake] ?? fail(`known mistakes are ${Object.keys(MISTAKES).join(', ')}`);
const { target, output = fail('give --output') } = options;
const folder = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-planted-'));
const good = path.join(root, 'build', 'kernels', target);
if (!existsSync(good)) fail(`${good} is missing; run "npm run build:kernels -- --target ${target}"`);
const sha256 = (file) => createHash('sha256').update(readFileSync(file)).digest('hex');

/** Builds the one source with the mistake in it. @returns the folder of what came out */
function buildPlanted() {
  const kernels = path.join(folder, 'kernels');
  cpSync(path.join(root, 'kernels'), kernels, { recursive: true });
  const { file: name = mistake.source, from, to } = { ...mistake, ...(target === 'host' && mistake.onHost) };
  const file = path.join(kernels, name);
  const source = readFileSync(file, 'utf8');
  if (!source.includes(from)) fail(`${file} holds no "${from}"`);
  writeFileSync(file, source.replace(from, to));
  const built = path.join(folder, 'build');
  const args = ['--target', target, '--only', mistake.source, '--kernels', kernels, '--output', built];
  const { status } = spawnSync(process.execPath, [path.join(root, 'tools', 'build-kernels.mjs'), ...args], {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  if (status !== 0) fail('the kernels do not build');
  return path.join(built, target);
}

/** For each level a library that is empty but for needing two: what both hold is found in the planted one first. */
function overlayLibraries(planted, into, files) {
  const compiler = process.env.CXX ?? 'g++';
  return files.map(({ file }) => {
    const mistaken = path.join(into, `planted-${file}`);
    cpSync(path.join(planted, file), mistaken);
    const args = ['-shared', '-Wl,--no-as-needed', '-o', path.join(into, file), mistaken, path.join(good, file)];
    execFileSync(compiler, args, { stdio: 'inherit' });
    return { file, sha256: sha256(path.join(into, file)) };
  });
}

/** A copy of the good code objects in which the one is replaced. */
function replaceCodeObject(planted, into, files) {
  const [mistaken] = JSON.parse(readFileSync(path.join(planted, 'manifest.json'), 'utf8')).files;
  if (!files.some(({ file }) => file === mistaken.file)) fail(`${good} holds no ${mistaken.file}`);
  for (const { file } of files) cpSync(path.join(file === mistaken.file ? planted : good, file), path.join(into, file));
  return files.map((entry) => (entry.file === mistaken.file ? mistaken : entry));
}

try {
  const planted = buildPlanted();
  const into = path.resolve(output, target);
  rmSync(into, { recursive: true, force: true });
  mkdirSync(into, { recursive: true });
  const manifest = JSON.parse(readFileSync(path.join(good, 'manifest.json'), 'utf8'));
  const place = target === 'host' ? overlayLibraries : replaceCodeObject;
  const files = place(planted, into, manifest.files);
  writeFileSync(path.join(into, 'manifest.json'), `${JSON.stringify({ ...manifest, key: 'planted', files })}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${output}: ${mistake.source} for ${target} has the mistake ${options.mistake}`);
