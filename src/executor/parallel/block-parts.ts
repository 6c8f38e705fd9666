import { KV_BLOCK_TOKENS, SUMMED_PART_WORDS } from '../kernels/index.js';
import { writePartRow } from '../model/device-sums.js';
import type { BlockPart } from '../model/kv-cache.js';
import type { BlockKind } from './block-checksums.js';
import type { Stage } from './model-devices.js';

/** Words of a part that one block of threads takes: large parts are cut. */
const MOST_PART_WORDS = 1 << 14;

const NO_ROWS: readonly [number, number] = [0, 0];

/** Parts of blocks, of which large ones are cut, as kernels have them. */
export interface PartTable {
  /** `[parts, SUMMED_PART_WORDS]` */
  readonly rows: Int32Array;
  /** Words of a block in each. */
  readonly words: readonly number[];
  /** `[parts, 2]`: words of a row of one head, its elements and its scales; zeros where a part has no rows. */
  readonly rowWords: Int32Array;
}

/** The kernels' table of all parts, cut between heads. */
export function tableOf(parts: readonly BlockPart[]): PartTable {
  const cut = parts.flatMap(({ address, bytes, rowWords = NO_ROWS }) => {
    const stride = bytes / Int32Array.BYTES_PER_ELEMENT;
    const head = KV_BLOCK_TOKENS * (rowWords[0] + rowWords[1]) || 1;
    const most = Math.max(head, MOST_PART_WORDS - (MOST_PART_WORDS % head));
    return Array.from({ length: Math.ceil(stride / most) }, (_, i) => {
      const first = i * most;
      const from = address + Int32Array.BYTES_PER_ELEMENT * first;
      return { from, stride, words: Math.min(most, stride - first), rowWords };
    });
  });
  const rows = new Int32Array(SUMMED_PART_WORDS * cut.length);
  for (const [row, { from, stride, words }] of cut.entries()) writePartRow(rows, row, from, stride, words);
  return {
    rows,
    words: cut.map(({ words }) => words),
    rowWords: Int32Array.from(cut.flatMap((part) => part.rowWords)),
  };
}

/** Bytes of a block of each kind over all devices. */
export function blockBytes(stages: readonly Pick<Stage, 'forward'>[]): Readonly<Record<BlockKind, number>> {
  const parts = stages.map(({ forward }) => forward.blockParts);
  const of = (kind: BlockKind): number => parts.flatMap((own) => own[kind]).reduce((sum, { bytes }) => sum + bytes, 0);
  return { blocks: of('blocks'), windowBlocks: of('windowBlocks'), states: of('states') };
}
