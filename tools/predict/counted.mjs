// Instructions of launches, counted by the emulator and sorted by class; and tables of that and of predictions.
import path from 'node:path';
import { CLASS_NAMES, classOf, disassemble, instructionsOf } from '../kernel-counts.mjs';
import { occupancy } from '../kernel-limits.mjs';
import { BLOCK } from './emulator.mjs';
import { predictLaunch, predictToken } from './hardware.mjs';

const product = (dims) => dims.reduce((made, dim) => made * dim, 1);

export class Counter {
  /** Classes of each kernel's instructions by offset. */
  #classes = new Map();

  /**
   * @param {object} of
   * @param {string} of.target
   * @param {import('./hardware.mjs').Card} of.card the target's
   * @param {string} of.compiler as manifests name it
   * @param {import('./emulator.mjs').Emulator} of.emulator
   */
  constructor({ target, card, compiler, emulator }) {
    this.target = target;
    this.card = card;
    this.compiler = compiler;
    this.emulator = emulator;
  }

  /** @param launch as Emulator.run() takes it, or count(): with `words` @returns the same with what predictLaunch() takes */
  async count(launch) {
    const { kernel, grid, block = [BLOCK, 1, 1], dynamicLds = 0 } = launch;
    const { vgprs, lds, wave } = this.emulator.kernels[kernel];
    const latency = this.card.latency;
    const census = await (launch.words ? this.emulator.count(launch, latency) : this.emulator.run(launch, latency));
    const classes = this.#classesOf(kernel);
    const perBlock = Object.fromEntries(CLASS_NAMES.map((name) => [name, 0]));
    for (const [offset, times] of Object.entries(census.executed)) {
      const name = classes.get(Number(offset));
      if (name === undefined) throw new Error(`${kernel}: nothing is at ${offset}`);
      perBlock[name] += times;
    }
    const threads = product(block);
    const { blocks: resident } = occupancy(this.target, { vgprs, lds: lds + dynamicLds, threads });
    return { ...launch, ...census, perBlock, resident, blocks: product(grid), waves: Math.ceil(threads / wave) };
  }

  #classesOf(kernel) {
    if (!this.#classes.has(kernel)) {
      const { folder, kernels } = this.emulator;
      const text = disassemble(this.compiler, path.join(folder, kernels[kernel].file));
      const all = instructionsOf(text, [kernel]).get(kernel);
      if (all === undefined) throw new Error(`${kernels[kernel].file} holds no ${kernel}`);
      const start = all[0].address;
      this.#classes.set(kernel, new Map(all.map(({ mnemonic, address }) => [address - start, classOf(mnemonic)])));
    }
    return this.#classes.get(kernel);
  }
}

/** Table of counted launches: numbers of a block, but `waits` of a wave and what is in flight of a SIMD. */
export function printCounts(card, rows) {
  const lines = ['lines asked for', 'KB touched', 'KB of all blocks'];
  printHead([
    'kernel',
    'blocks',
    'fit',
    ...CLASS_NAMES,
    ...lines,
    ...['LDS passes', 'of them conflicts', 'waits'],
    'alone, µs',
    'KB in flight',
  ]);
  for (const { kernel, grid, perBlock, resident, waves, ...census } of rows) {
    const counts = CLASS_NAMES.map((name) => Math.round(perBlock[name]));
    const kb = (bytes) => (bytes / 1024).toFixed(1);
    const lds = [Math.round(census.ldsPasses), Math.round(census.ldsConflicts), (census.waits / waves).toFixed(1)];
    const onUnit = Math.min(resident, Math.ceil(census.blocks / card.units));
    const inFlight = census.chain === 0 ? 0 : (census.farBytes * card.latency.far * onUnit) / census.chain / 4;
    const memory = [Math.round(census.asked), kb(census.touched), kb(census.shared)];
    printRow([
      kernel,
      grid.join(' × '),
      resident,
      ...counts,
      ...memory,
      ...lds,
      (census.chain / 1000).toFixed(2),
      kb(inFlight),
    ]);
  }
}

/**
 * Prints what a card would take for counted launches, each with how many `times`, and for a token.
 *
 * @param what words before the numbers of a token
 * @param promptRows of a step of a prompt, whose rate is told in place of a token's; 0: it is one token
 * @returns `rates`, tokens a second for each time of a node that the card has, and by kernel `launches` and `us` of all together
 */
export function printPrediction(card, rows, what, promptRows = 0) {
  const predicted = rows.map((row) => ({ ...row, ...predictLaunch(card, row) }));
  printHead([
    'kernel',
    'blocks',
    'times',
    'longest part, µs',
    'by',
    'waiting, µs',
    'estimate, µs',
    'lost a token, µs',
    'memory, MB',
  ]);
  for (const { kernel, grid, times, longest, by, waiting, estimate, memoryBytes } of predicted) {
    const us = [
      longest.toFixed(2),
      by,
      waiting.toFixed(2),
      estimate.toFixed(2),
      (times * (estimate - longest)).toFixed(0),
    ];
    printRow([kernel, grid.join(' × '), times, ...us, (memoryBytes / 1e6).toFixed(2)]);
  }
  const total = (of) => predicted.reduce((sum, row) => sum + row.times * of(row), 0);
  const bytes = total(({ memoryBytes }) => memoryBytes);
  const roofUs = bytes / (card.memoryGBs * 1000);
  const rates = card.nodeUs.map((nodeUs) => {
    const us = predictToken(predicted, nodeUs);
    const launched = `\n${what}, ${card.name}, nodes of ${nodeUs} µs: ${total(() => 1)} launches, `;
    const told =
      promptRows > 0
        ? `${us.toFixed(0)} µs, ${((1e6 * promptRows) / us).toFixed(0)} rows/s`
        : `${(bytes / 1e9).toFixed(2)} GB, ${us.toFixed(0)} µs a token, ${(1e6 / us).toFixed(1)} tokens/s, ` +
          `${((100 * roofUs) / us).toFixed(0)} % of the roof of ${(1e6 / roofUs).toFixed(1)}`;
    process.stdout.write(`${launched}${told}\n`);
    return 1e6 / us;
  });
  const kernels = {};
  for (const { kernel, times, estimate } of predicted) {
    const { launches = 0, us = 0 } = kernels[kernel] ?? {};
    kernels[kernel] = { launches: launches + times, us: Number((us + times * estimate).toFixed(1)) };
  }
  return { rates, kernels };
}

function printHead(cells) {
  printRow(cells);
  printRow(cells.map(() => '---'));
}

function printRow(cells) {
  process.stdout.write(`| ${cells.join(' | ')} |\n`);
}
