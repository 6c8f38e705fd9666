import type { NativeStep } from '../device/addon.js';
import type { Device, DeviceBuffer, DeviceScope } from '../device/device.js';
import { blockSums, KV_BLOCK_TOKENS, PART_SUM_WORDS } from '../kernels/index.js';
import { LaunchPlanRecorder } from '../kernels/launch-plan.js';
import type { BlockParts } from '../layers/forward-pass.js';
import type { BlockPart } from '../model/kv-cache.js';
import { tableOf } from './block-parts.js';
import type { Stage } from './model-devices.js';

/** Kinds of memory that has numbered blocks. */
export type BlockKind = keyof BlockParts;
export const KINDS = ['blocks', 'windowBlocks', 'states'] as const satisfies readonly BlockKind[];

/** Words of sums that a device holds at once. */
const SUM_WORDS = 1 << 16;

/** Sums of a device's parts of blocks of one kind. */
class PartSums {
  /** Number of blocks that are summed at once. */
  readonly most: number;
  private readonly parts: number;
  private readonly device: Device;
  /** Numbers of blocks, then the rows that are summed of each. */
  private readonly asked: DeviceBuffer;
  private readonly y: DeviceBuffer;
  private readonly plan: number;

  /** @param parts at least one */
  constructor(memory: DeviceScope, parts: readonly BlockPart[]) {
    const { rows, words, rowWords } = tableOf(parts);
    this.device = memory.device;
    this.parts = words.length;
    this.most = Math.max(1, Math.floor(SUM_WORDS / (PART_SUM_WORDS * this.parts)));
    this.asked = memory.allocate('i32', 2 * this.most);
    this.y = memory.allocate('i32', this.most * PART_SUM_WORDS * this.parts);
    const recorder = new LaunchPlanRecorder(memory.device, 1);
    const values = {
      blocks: { ...this.asked, elements: this.most },
      rows: {
        ...this.asked,
        address: this.asked.address + Int32Array.BYTES_PER_ELEMENT * this.most,
        elements: this.most,
      },
      parts: memory.upload(rows),
      row_words: memory.upload(rowWords),
      y: this.y,
      part_count: this.parts,
    };
    recorder.launch(blockSums, values, { count: { index: 0, max: this.most } });
    this.plan = memory.plan(recorder.finish());
  }

  /** @param rows of each block. @returns `[blocks, parts, PART_SUM_WORDS]` */
  async of(blocks: Int32Array, rows: Int32Array): Promise<Int32Array> {
    const sums = new Int32Array(blocks.length * this.parts * PART_SUM_WORDS);
    const asked = new Int32Array(this.most + blocks.length);
    asked.set(blocks);
    asked.set(rows, this.most);
    const step: NativeStep = {
      ...{ plan: this.plan, counts: Int32Array.of(blocks.length), recurring: false },
      ...{ input: new Uint8Array(asked.buffer) },
      ...{ deviceInput: this.asked.address, output: new Uint8Array(sums.buffer), deviceOutput: this.y.address },
    };
    await this.device.native.run(step);
    return sums;
  }
}

/**
 * Checksums of KV blocks and of snapshots over all devices of a model. Not cryptographic: they find what was overwritten. A gateway
 * compares those of a block before and after a fault of an executor.
 */
export class BlockChecksums {
  /** True if the first rows of a block can be summed alone. */
  readonly sumsRows: boolean;
  private readonly sums: Readonly<Record<BlockKind, readonly PartSums[]>>;

  /** @param memory the scope of each stage's device */
  constructor(stages: readonly Stage[], memory: readonly DeviceScope[]) {
    const of = (kind: BlockKind): readonly PartSums[] =>
      stages.flatMap(({ forward }, i) => {
        const parts = forward.blockParts[kind];
        return parts.length === 0 ? [] : [new PartSums(memory[i] as DeviceScope, parts)];
      });
    const parts = stages.flatMap(({ forward }) => [...forward.blockParts.blocks, ...forward.blockParts.windowBlocks]);
    this.sumsRows = parts.every(({ rowWords }) => rowWords !== undefined);
    this.sums = { blocks: of('blocks'), windowBlocks: of('windowBlocks'), states: of('states') };
  }

  /**
   * Queues the computation behind the steps that were queued before.
   *
   * @param blocks numbers of blocks, or of states
   * @param rows of each block that are summed; default all
   * @returns eight bytes for each, as frames have them
   */
  async of(
    kind: BlockKind,
    blocks: Int32Array,
    rows: Int32Array = new Int32Array(blocks.length).fill(KV_BLOCK_TOKENS),
  ): Promise<Uint8Array> {
    const sums = this.sums[kind];
    const combined = new Uint32Array(blocks.length * 2);
    const most = Math.min(...sums.map((device) => device.most));
    const firsts = Array.from({ length: sums.length === 0 ? 0 : Math.ceil(blocks.length / most) }, (_, i) => i * most);
    await Promise.all(
      firsts.map(async (first) => {
        const some = blocks.subarray(first, first + most);
        const someRows = rows.subarray(first, first + most);
        const results = await Promise.all(sums.map((device) => device.of(some, someRows)));
        const ofSome = combined.subarray(2 * first, 2 * (first + some.length));
        for (const words of results) combine(words, ofSome);
      }),
    );
    return new Uint8Array(combined.buffer);
  }
}

/**
 * Combines the sums of blocks' parts, in their order, to two words a block.
 *
 * @param words `[blocks, …]` of one device
 * @param combined `[blocks, 2]`: of the devices before it, zeros at first
 */
function combine(words: Int32Array, combined: Uint32Array): void {
  const blocks = combined.length / 2;
  const size = words.length / blocks;
  // Two at a time, because each word of a block waits for the one before it. The last one may be combined twice.
  for (let block = 0; block < blocks; block += 2)
    combineTwo(words, size, combined, block, Math.min(block + 1, blocks - 1));
}

function combineTwo(words: Int32Array, size: number, combined: Uint32Array, a: number, b: number): void {
  let [a0, a1] = [(combined[2 * a] as number) | 0, (combined[2 * a + 1] as number) | 0];
  let [b0, b1] = [(combined[2 * b] as number) | 0, (combined[2 * b + 1] as number) | 0];
  for (let i = 0; i < size; i++) {
    const ofA = words[a * size + i] as number;
    const ofB = words[b * size + i] as number;
    a0 = (Math.imul(a0 ^ ofA, 0x01000193) + 1) | 0;
    b0 = (Math.imul(b0 ^ ofB, 0x01000193) + 1) | 0;
    a1 = Math.imul((a1 + ofA) | 0, 0x85ebca6b) ^ (a0 >>> 15);
    b1 = Math.imul((b1 + ofB) | 0, 0x85ebca6b) ^ (b0 >>> 15);
  }
  combined[2 * a] = a0;
  combined[2 * a + 1] = a1;
  combined[2 * b] = b0;
  combined[2 * b + 1] = b1;
}
