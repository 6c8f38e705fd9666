import { type Argument, defineKernel, i32, inout, input, type KernelContract, output } from '../device/contract.js';
import { exact, moved } from '../device/tolerance.js';
import { ORDER } from './reduction-order.js';
import { NORM_PART } from './rms-norm.js';

/** Elements of a row that one block adds, or moves. */
export const SUM_RANKS_PART = 1024;
export const GATHER_RANKS_PART = 1024;

/** Over how many devices a tensor split goes: each has kernels of its own. */
export const RANK_COUNTS = [2, 4, 8] as const;
export type RankCount = (typeof RANK_COUNTS)[number];

/** Words of one meeting of ranks: one for each that may come. */
export const WORDS_A_BARRIER = 8;

/** Arguments of every kernel in which ranks synchronize: parts and words of each, in their order: `p0`, `p1`, ..., `w0`, ... */
function rankArguments(ranks: RankCount, part: string, ...own: readonly Argument[]): readonly Argument[] {
  const numbers = [...Array(ranks).keys()];
  return [
    ...numbers.map((rank) => input(`p${rank}`, 'f32', 'rows', part)),
    ...numbers.map((rank) => inout(`w${rank}`, 'i32', 'barriers', String(WORDS_A_BARRIER))),
    input('pass', 'i32', '1'),
    inout('ended', 'i32', '1'),
    ...own,
    i32('rank'),
    i32('barrier'),
    i32('patience_ms'),
  ];
}

const sums = forEachCount((ranks) =>
  defineKernel({
    name: `sum_ranks_${ranks}`,
    source: 'sum_ranks.hip',
    summary: `y = p0 + ... + p${ranks - 1}, or y += it, when all ranks have come to the barrier; one order of additions`,
    arguments: rankArguments(ranks, 'columns', inout('y', 'f32', 'rows', 'columns'), i32('columns'), i32('accumulate')),
    grid: [{ of: 'columns', per: SUM_RANKS_PART }, { of: 'rows' }],
    multiples: [['columns', '4']],
    order: 'the parts in the order of their ranks, and their sum to y',
    tolerance: exact('each addition rounds as the reference rounds to f32'),
  }),
);

const summed = forEachCount((ranks) =>
  defineKernel({
    name: `sum_ranks_summed_${ranks}`,
    source: 'sum_ranks_summed.hip',
    on: 'gpu',
    summary: `y += p0 + ... + p${ranks - 1} of one row, as sum_ranks_${ranks}, and the sums of the squares of y`,
    arguments: rankArguments(
      ranks,
      'columns',
      inout('y', 'f32', 'rows', 'columns'),
      output('parts', 'f32', 'parts'),
      i32('columns'),
    ),
    grid: [{ of: 'columns', per: SUM_RANKS_PART }],
    multiples: [['columns', String(NORM_PART)]],
    order: ORDER.norm,
    tolerance: exact('the very bits of sum_ranks, and of the sums of rms_norm'),
  }),
);

const gathers = forEachCount((ranks) =>
  defineKernel({
    name: `gather_ranks_${ranks}`,
    source: 'gather_ranks.hip',
    summary: `y = p0, ..., p${ranks - 1} side by side, the last as wide as is left, when all ranks have come to the barrier`,
    arguments: rankArguments(ranks, 'part', output('y', 'f32', 'rows', 'columns'), i32('columns'), i32('part')),
    grid: [{ of: 'columns', per: GATHER_RANKS_PART }, { of: 'rows' }],
    tolerance: moved,
  }),
);

/** Sum of one product's parts, each computed by a rank from some of its columns. */
export const sumRanks = (ranks: RankCount) => sums[ranks];
/** The same of one row, added to what is there. Dimensions `rows`: 1, and `parts`: {@link normParts} of the columns. */
export const sumRanksSummed = (ranks: RankCount) => summed[ranks];
/** Concatenation of one product's parts, each computed by a rank from some of its rows. */
export const gatherRanks = (ranks: RankCount) => gathers[ranks];

function forEachCount(define: (ranks: RankCount) => KernelContract): Readonly<Record<RankCount, KernelContract>> {
  return { 2: define(2), 4: define(4), 8: define(8) };
}

export const rankContracts: readonly KernelContract[] = [
  ...Object.values(sums),
  ...Object.values(summed),
  ...Object.values(gathers),
];
