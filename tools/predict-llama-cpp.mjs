// Holds predictions to account: llama.cpp's own kernels, compiled here, of a token whose speed somebody published for an RX 7900 XTX
// (llama.cpp#26284), by the same counting and the same constants as ours. Nothing of llama.cpp is in this repository.
//
//   LLAMA_CPP=CHECKOUT TINYGRAD_DIR=CHECKOUT node tools/predict-llama-cpp.mjs
//
// Needs clang of the version that built ours ($CLANG, else clang-19), llvm-objdump of it, HIP's headers (Debian: libamdhip64-dev).
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { COUNTED_BASE } from '../dist/executor/load/counting-device.js';
import { occupancy } from './kernel-limits.mjs';
import { Counter, printPrediction } from './predict/counted.mjs';
import { describe, Emulator } from './predict/emulator.mjs';
import { CARDS } from './predict/hardware.mjs';
import { launchesOfToken } from './predict/llama-cpp/launches.mjs';

const TARGET = 'gfx1100';
/** tokens/s that llama.cpp#26284 prints of "llama 8B" on an RX 7900 XTX, master, batches of 512: tg64 and tg64@d4096. */
const PUBLISHED = [
  { file: 'Q4_K_M', position: 32, rate: 105.75 },
  { file: 'Q4_K_M', position: 4096 + 32, rate: 98.67 },
  { file: 'Q5_K_M', position: 32, rate: 100.63 },
];
const SOURCES = {
  norm: 'norm.cu',
  quantize: 'quantize.cu',
  rope: 'rope.cu',
  'set-rows': 'set-rows.cu',
  'fattn-tile': 'template-instances/fattn-tile-instance-dkq128-dv128.cu',
};
const MEMORY_BYTES = 2 ** 35;

const here = path.dirname(fileURLToPath(import.meta.url));
const checkout = process.env.LLAMA_CPP;
if (!checkout) throw new Error('LLAMA_CPP is not set: a checkout of llama.cpp');
const clang = process.env.CLANG ?? 'clang-19';
const card = CARDS[TARGET];
const scratch = mkdtempSync(path.join(os.tmpdir(), 'rocmforge-predict-'));
try {
  await main();
} finally {
  rmSync(scratch, { recursive: true });
}

async function main() {
  const compiler = execFileSync(clang, ['--version'], { encoding: 'utf8' });
  compile(checkout);
  const described = describe(scratch);
  const names = demangled(Object.keys(described));
  const memory = path.join(scratch, 'memory');
  writeFileSync(memory, '');
  truncateSync(memory, MEMORY_BYTES);
  const emulator = new Emulator(scratch, described, { file: memory, address: COUNTED_BASE, bytes: MEMORY_BYTES });
  const fullName = (start) => {
    const found = [...names].find(([mangled, name]) => name.startsWith(start) || mangled.startsWith(start));
    if (found === undefined) throw new Error(`no kernel of llama.cpp begins with ${start}`);
    return found[0];
  };
  const canHold = (start, threads) => occupancy(TARGET, { ...described[fullName(start)], threads }).blocks;
  const counter = new Counter({ target: TARGET, card, compiler, emulator });
  const errors = [];
  for (const { file, position, rate } of PUBLISHED) {
    const rows = [];
    for (const launch of launchesOfToken({ file, position, units: card.units, canHold })) {
      rows.push({ ...(await counter.count({ ...launch, kernel: fullName(launch.kernel) })), kernel: launch.kernel });
    }
    const {
      rates: [predicted],
    } = printPrediction(card, rows, `llama.cpp's 8B ${file} behind ${position} positions`);
    const error = `${(100 * (predicted / rate - 1)).toFixed(1)} %`;
    errors.push(error);
    process.stdout.write(`${rate} tokens/s published: predicted ${error} too high\n\n`);
  }
  emulator.close();
  process.stdout.write(`errors: ${errors.join(', ')}\n`);
}

/** Compiles the files, mmvq.cu without what chooses among its kernels: of all types and numbers of rows it would take long. */
function compile(checkout) {
  const cuda = path.join(checkout, 'ggml', 'src', 'ggml-cuda');
  const headers = path.join(scratch, 'headers');
  for (const folder of ['hip', 'hipblas']) mkdirSync(path.join(headers, folder), { recursive: true });
  writeFileSync(path.join(headers, 'hipblas', 'hipblas.h'), '');
  copyFileSync(path.join(here, 'predict', 'llama-cpp', 'missing.h'), path.join(headers, 'hip', 'hip_bf16.h'));
  const mmvq = readFileSync(path.join(cuda, 'mmvq.cu'), 'utf8');
  const end = mmvq.indexOf('template<ggml_type type>\nstatic std::pair<dim3, dim3> calc_launch_params');
  if (end < 0) throw new Error('another version of llama.cpp: mmvq.cu has no calc_launch_params');
  const wanted = ['Q4_K', 'Q5_K', 'Q6_K'].flatMap((type) =>
    ['false', 'true'].map((fused) => `(void *) mul_mat_vec_q<GGML_TYPE_${type}, 1, ${fused}>`),
  );
  const cut = path.join(scratch, 'mmvq.cu');
  const kernels = mmvq.slice(0, end).replaceAll('static __global__', '__global__');
  writeFileSync(cut, `${kernels}\nvoid * wanted[] = { ${wanted.join(', ')} };\n`);
  const files = { mmvq: cut, ...Object.fromEntries(Object.entries(SOURCES).map(([n, f]) => [n, path.join(cuda, f)])) };
  for (const [name, file] of Object.entries(files)) {
    execFileSync(clang, [
      ...[
        '-x',
        'hip',
        `--offload-arch=${TARGET}`,
        '--offload-device-only',
        '-O3',
        '-std=c++17',
        '-nogpulib',
        '-w',
        '--no-gpu-bundle-output',
      ],
      ...['-D__HIP_PLATFORM_AMD__', '-DGGML_USE_HIP', '-DNDEBUG', '-mcode-object-version=5', `-I${headers}`],
      ...['include', 'src', 'src/ggml-cuda'].map((folder) => `-I${path.join(checkout, 'ggml', folder)}`),
      ...['-o', path.join(scratch, `${name}.hsaco`), file],
    ]);
  }
}

function demangled(mangled) {
  const names = execFileSync('c++filt', { input: mangled.join('\n'), encoding: 'utf8' }).split('\n');
  return new Map(mangled.map((name, i) => [name, names[i]]));
}
