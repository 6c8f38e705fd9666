// Instructions of a kernel's machine code by class, all of them and those in loops. Counted, so that a
// change that makes a kernel worse is seen without a card.
import { spawnSync } from 'node:child_process';
import { occupancy } from './kernel-limits.mjs';

/**
 * @typedef {{ all: Readonly<Record<string, number>>, loops: Readonly<Record<string, number>> }} InstructionCounts by class
 * @typedef {{ compiler: string, kernels: ReadonlyMap<string, Readonly<Record<string, number>>> }} CountsTable
 * @typedef {import('./kernel-limits.mjs').Manifest} Manifest
 */

/**
 * Classes of instructions, the first that matches. `v_dual_` is one instruction that does two things.
 *
 * @type {[name: string, pattern: RegExp][]}
 */
const CLASSES = [
  ['matrix', /^v_(s?wmma|s?mfma|smfmac)/],
  ['dot', /^v_dot/],
  ['transcendental', /^v_(exp|log|rcp|rsq|sqrt|sin|cos)_/],
  ['vector', /^v_/],
  ['load', /^(global|flat|buffer|scratch)_load/],
  ['store', /^(global|flat|buffer|scratch)_(store|atomic)/],
  ['lds', /^ds_/],
  ['scalarLoad', /^s_(buffer_)?load/],
  // Those that make caches forget, too.
  ['wait', /^(s_(wait|barrier)|(buffer|global)_(gl[01]_inv|inv|wb|wbl2|wbinv|wbinvl1)$)/],
  ['branch', /^s_(cbranch|branch|endpgm|setpc|swappc)/],
  // Hints and padding, which take no turn of an execution unit.
  ['free', /^s_(delay_alu|clause|nop|code_end|set_inst_prefetch|sendmsg|setprio)/],
  ['scalar', /^s_/],
];
export const CLASS_NAMES = CLASSES.map(([name]) => name);

/** Tolerated growth before a kernel counts as worse. */
const TOLERATED = 1.05;
/** Kernels of so few instructions in loops differ by more than that from one to the next. */
const SLACK = 4;

/**
 * Output of $OBJDUMP, else of llvm-objdump of the compiler's version, for a code object.
 *
 * @param {string} compiler as a manifest names it
 * @param {string} file
 * @throws Error with its words
 */
export function disassemble(compiler, file) {
  const version = /version (\d+)/.exec(compiler)?.[1];
  const command = process.env.OBJDUMP ?? `llvm-objdump-${version}`;
  const { status, stdout, stderr, error } = spawnSync(command, ['-d', '--no-show-raw-insn', file], {
    encoding: 'utf8',
    maxBuffer: 1 << 30,
  });
  if (error || status !== 0) throw new Error(`${command} failed on ${file}: ${error?.message ?? stderr}`);
  return stdout;
}

/**
 * The class of an instruction; `other` where it is none that is known.
 *
 * @param {string} mnemonic
 * @returns {string}
 */
export function classOf(mnemonic) {
  return CLASSES.find(([, pattern]) => pattern.test(mnemonic))?.[0] ?? 'other';
}

/**
 * Counts the instructions of each kernel of a disassembly.
 *
 * @param {string} disassembly what `llvm-objdump -d` prints of a code object
 * @param {readonly string[]} names of the kernels in it
 * @returns {Map<string, InstructionCounts>} by kernel
 * @throws Error for an instruction of no class that is known
 */
export function countInstructions(disassembly, names) {
  return new Map([...instructionsOf(disassembly, names)].map(([name, all]) => [name, summary(name, all)]));
}

/**
 * The instructions of each kernel of a disassembly.
 *
 * @param {string} disassembly
 * @param {readonly string[]} names of the kernels
 * @returns {Map<string, { mnemonic: string, address: number, target: string | undefined }[]>} `target`: where a branch goes, in
 *   hexadecimal digits
 */
export function instructionsOf(disassembly, names) {
  const counted = new Map();
  /** @type {{ mnemonic: string, address: number, target: string | undefined }[] | undefined} */
  let current;
  for (const line of disassembly.split('\n')) {
    const symbol = /^[0-9a-f]+ <(.+)>:$/.exec(line)?.[1];
    if (symbol !== undefined) {
      current = names.includes(symbol) ? [] : undefined;
      if (current !== undefined) counted.set(symbol, current);
      continue;
    }
    const found = /^\t(\S+)(.*)\/\/ ([0-9A-F]+):/.exec(line);
    if (found === null || current === undefined) continue;
    const [, mnemonic, operands, address] = found;
    const target = /<.+\+0x([0-9a-f]+)>/.exec(operands + line)?.[1];
    current.push({ mnemonic, address: Number.parseInt(address, 16), target });
  }
  return counted;
}

function summary(name, instructions) {
  const start = instructions[0]?.address ?? 0;
  const loops = instructions
    .filter(({ mnemonic, target }) => /branch/.test(mnemonic) && target !== undefined)
    .map(({ address, target }) => [start + Number.parseInt(target, 16), address])
    .filter(([first, last]) => first <= last);
  const none = () => Object.fromEntries(CLASS_NAMES.map((className) => [className, 0]));
  const counts = { all: none(), loops: none() };
  for (const { mnemonic, address } of instructions) {
    const className = classOf(mnemonic);
    if (className === 'other') throw new Error(`${name}: ${mnemonic} is of no class that is counted`);
    counts.all[className] += 1;
    if (loops.some(([first, last]) => address >= first && address <= last)) counts.loops[className] += 1;
  }
  return counts;
}

const COLUMNS = [
  'kernel',
  ...['vgprs', 'sgprs', 'lds', 'scratch', 'waves'],
  ...CLASS_NAMES,
  ...CLASS_NAMES.map((name) => `${name} in loops`),
];

/**
 * The counts of a manifest's kernels as a table, a line each.
 *
 * @param {Manifest} manifest
 * @param {ReadonlyMap<string, InstructionCounts>} counted by kernel
 * @returns {string}
 */
export function countsTable({ target, compiler, files }, counted) {
  const kernels = files.flatMap(({ kernels: held }) => held).sort((a, b) => (a.name < b.name ? -1 : 1));
  const rows = kernels.map((kernel) => {
    const instructions = counted.get(kernel.name);
    if (instructions === undefined) throw new Error(`the instructions of ${kernel.name} were not counted`);
    const { all, loops } = instructions;
    const { vgprs, sgprs, lds, scratch } = kernel;
    const { waves } = occupancy(target, kernel);
    const counts = [all, loops].flatMap((of) => CLASS_NAMES.map((name) => of[name]));
    return [kernel.name, vgprs, sgprs, lds, scratch, waves, ...counts].join('\t');
  });
  return `# ${target}, ${compiler}\n${[COLUMNS.join('\t'), ...rows].join('\n')}\n`;
}

/**
 * A table as it was written: who compiled, and the numbers of each kernel by column.
 *
 * @param {string} text
 * @returns {CountsTable}
 */
export function readCounts(text) {
  const [head = '', columns = '', ...lines] = text.trimEnd().split('\n');
  const names = columns.split('\t').slice(1);
  const kernels = lines.map((line) => {
    const [kernel, ...values] = line.split('\t');
    return /** @type {const} */ ([kernel, Object.fromEntries(values.map((value, i) => [names[i], Number(value)]))]);
  });
  return { compiler: head.replace(/^# [^,]+, /, ''), kernels: new Map(kernels) };
}

/**
 * Kernels that a change made worse by more than 5 %: instructions that take a turn of an execution unit, all or in loops, and
 * waves that fit. A line each, also of kernels that only one of the two has.
 *
 * @param {CountsTable} before
 * @param {CountsTable} after
 * @returns {string[]}
 */
export function worsened(before, after) {
  const lines = [];
  for (const [name, now] of after.kernels) {
    const then = before.kernels.get(name);
    if (then === undefined) {
      lines.push(`${name} is new`);
      continue;
    }
    for (const [what, suffix] of [
      ['instructions', ''],
      ['instructions in loops', ' in loops'],
    ]) {
      const [was, is] = [work(then, suffix), work(now, suffix)];
      if (is > was * TOLERATED + SLACK) lines.push(`${name}: ${is} ${what}, ${was} before`);
    }
    if (now.waves * TOLERATED < then.waves) lines.push(`${name}: ${now.waves} waves a SIMD fit, ${then.waves} before`);
    if (now.scratch > then.scratch) lines.push(`${name}: ${now.scratch} bytes of scratch, ${then.scratch} before`);
  }
  for (const name of before.kernels.keys()) if (!after.kernels.has(name)) lines.push(`${name} is gone`);
  return lines;
}

function work(numbers, suffix) {
  return CLASS_NAMES.filter((name) => name !== 'free').reduce((sum, name) => sum + numbers[`${name}${suffix}`], 0);
}
