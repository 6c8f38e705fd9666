// Holds predictions to account on a card that was measured: what bench/gpu/replay.cu timed of each kernel of a step of one row on an H200,
// beside what the same model says of what a profiler counted there.
//
//   node tools/predict-h200.mjs FOLDER [--write]
//
// FOLDER: times.tsv (replay time), ex-PLAN.json (executed.py), the listings NAME.sass (cuobjdump -sass). --write: what is counted, and what was
// measured, into test/fixtures/h200-kernels.tsv, which a test holds the model against.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { CARDS, predictLaunch } from './predict/hardware.mjs';
import { clockOf, functionsOf } from './predict/sass.mjs';

const [folder, write] = process.argv.slice(2);
const card = CARDS.sm_90;
const SECTOR = 32;
/** Bytes that stay in the second cache, of 60 MB, if all launches of a kernel read less than this. */
const L2_HOLDS = 40e6;
/** Share of a launch's memory reads from which on an instruction counts as one that reads memory. */
const FAR_SHARE = 0.02;
/** @type {[name: string, pattern: RegExp][]} */
const CLASSES = [
  ['matrix', /^[HIQ]MMA/],
  ['transcendental', /^MUFU/],
  ['vector', /^(IADD|LOP|SHF|LEA|PRMT|SEL|ISETP|PLOP|IMNMX|I2F|F2I|FSETP|FMNMX|POPC|FLO|IDP|IMAD)/],
];
const COLUMNS = [
  ...['blocks', 'resident', 'vector', 'matrix', 'transcendental', 'scalar', 'ldsPasses', 'asked', 'touched', 'cached'],
  ...['chain', 'head', 'drain'],
];

const listings = readdirSync(folder).filter((file) => file.endsWith('.sass'));
const functions = new Map(listings.flatMap((file) => [...functionsOf(readFileSync(path.join(folder, file), 'utf8'))]));
const rows = readFileSync(path.join(folder, 'times.tsv'), 'utf8')
  .trim()
  .split('\n')
  .map((line) => line.split('\t'))
  .map(([plan, kernel, , times, us]) => ({ plan, kernel, times: Number(times), us: Number(us) }));

/** Input of predictLaunch() from a launch that a profiler saw. @param times launches of it in a step */
function counted({ kernel, grid, metrics, executed }, times) {
  const blocks = grid.reduce((product, dim) => product * dim, 1);
  const of = (name) => Object.entries(metrics).find(([metric]) => metric.includes(name))?.[1] ?? 0;
  const instructions = functions.get(kernel);
  if (instructions === undefined) throw new Error(`no listing has ${kernel}`);
  const warps = executed[0][1];
  const perBlock = { vector: 0, dot: 0, transcendental: 0, matrix: 0, scalar: 0, branch: 0, wait: 0, scalarLoad: 0 };
  for (const [offset, count] of executed) {
    const name = CLASSES.find(([, pattern]) => pattern.test(instructions[offset / 16].opcode))?.[0];
    if (name !== undefined) perBlock[name] += count / blocks;
    perBlock.scalar += count / blocks;
  }
  const bytes = of('dram__bytes_read');
  const isHot = bytes * times < L2_HOLDS;
  const byIndex = new Map(executed.map(([offset, count, sectors]) => [offset / 16, { count: count / warps, sectors }]));
  const isFar = (i) => !isHot && (byIndex.get(i)?.sectors ?? 0) * SECTOR >= FAR_SHARE * bytes;
  const latencyOf = (i) => {
    const { opcode } = instructions[i];
    const { far, near, lds, scalar } = card.latency;
    if (opcode.startsWith('LDG') && opcode !== 'LDGDEPBAR') return isFar(i) ? far : near;
    if (/^(LDS|SHFL|LDSM|ATOMS|MUFU)/.test(opcode)) return lds;
    return /^(S2R|S2UR|LDC|ULDC)/.test(opcode) ? scalar : undefined;
  };
  const frequency = instructions.map((_, i) => byIndex.get(i)?.count ?? 0);
  const limits = ['registers', 'shared_mem', 'warps', 'blocks'].map((name) => of(`occupancy_limit_${name}`));
  return {
    ...{ blocks, resident: Math.min(...limits.filter((limit) => limit > 0)), perBlock, shared: 0 },
    ldsPasses: of('wavefronts_mem_shared') / blocks,
    asked: Math.max(0, of('pipe_lsu_wavefronts.') - of('wavefronts_mem_shared')) / blocks,
    ...{ touched: isHot ? 0 : bytes / blocks, cached: (of('srcunit_tex_op_read') * SECTOR) / blocks },
    ...clockOf(instructions, frequency, { latencyOf, isFar, card }),
  };
}

const errors = [];
const tokens = [];
const fixture = [
  `# one H200, node of ${card.nodeUs[0]} us; of a block, chain, head and drain in ns`,
  ['plan', 'kernel', 'times', 'us', ...COLUMNS].join('\t'),
];
process.stdout.write(
  '| plan | kernel | blocks | longest part, µs | by | waiting, µs | predicted, µs | measured, µs | error |\n',
);
process.stdout.write(`|${' --- |'.repeat(9)}\n`);
for (const plan of new Set(rows.map((row) => row.plan))) {
  const launches = JSON.parse(readFileSync(path.join(folder, `ex-${plan}.json`), 'utf8'));
  // Both are in the order of the launches.
  const timed = rows.filter((row) => row.plan === plan && row.kernel !== 'token');
  if (timed.length !== launches.length) throw new Error(`${plan}: ${timed.length} timed, ${launches.length} profiled`);
  let token = 0;
  launches.forEach((launch, i) => {
    const { kernel, times, us } = timed[i];
    if (kernel !== launch.kernel) throw new Error(`${plan}: ${kernel} timed, ${launch.kernel} profiled`);
    const counts = counted(launch, times);
    const { longest, by, waiting, estimate } = predictLaunch(card, counts);
    const predicted = estimate + card.nodeUs[0];
    const error = predicted / us - 1;
    errors.push({ plan, kernel, error });
    token += times * predicted;
    const numbers = [longest.toFixed(2), by, ...[waiting, predicted, us].map((value) => value.toFixed(2))];
    const percent = `${(100 * error).toFixed(0)} %`;
    process.stdout.write(`| ${[plan, kernel, launch.grid.join(' × '), ...numbers, percent].join(' | ')} |\n`);
    const values = COLUMNS.map((name) => (counts[name] ?? counts.perBlock[name]).toFixed(1));
    fixture.push([plan, kernel, times, us, ...values].join('\t'));
  });
  const us = rows.find((row) => row.plan === plan && row.kernel === 'token')?.us;
  if (us === undefined) throw new Error(`${plan}: times.tsv has no token`);
  const error = `${(100 * (token / us - 1)).toFixed(0)} %`;
  tokens.push(`${plan}: a token ${token.toFixed(0)} µs predicted, ${us.toFixed(0)} measured: ${error}`);
}
const sizes = errors.map(({ error }) => Math.abs(error)).sort((a, b) => a - b);
const worst = errors.reduce((most, of) => (Math.abs(of.error) > Math.abs(most.error) ? of : most));
process.stdout.write(`\n${tokens.join('\n')}\n`);
process.stdout.write(
  `\n${errors.length} kernels: median error ${(100 * sizes[Math.floor(sizes.length / 2)]).toFixed(0)} %, ` +
    `worst ${(100 * worst.error).toFixed(0)} % (${worst.kernel} of ${worst.plan})\n`,
);
if (write === '--write') {
  const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
  writeFileSync(path.join(root, 'test', 'fixtures', 'h200-kernels.tsv'), `${fixture.join('\n')}\n`);
}
