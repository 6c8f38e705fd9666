import type { NativeStep } from '../device/addon.js';
import type { Device, DeviceBuffer, DeviceScope } from '../device/device.js';
import { gatherBlocks, SUMMED_PART_WORDS, scatterBlocks } from '../kernels/index.js';
import { LaunchPlanRecorder } from '../kernels/launch-plan.js';
import { type BlockKind, KINDS } from './block-checksums.js';
import { blockBytes, type PartTable, tableOf } from './block-parts.js';
import { NO_BYTES, type Stage } from './model-devices.js';

/** Words of blocks that go over the bus at once. */
const STAGING_WORDS = 1 << 22;
/** The most blocks at once. */
const MOST_BLOCKS = 256;
/** Copies to the store that are queued at once: one is on its way while the other's bytes are written here. */
const QUEUED = 2;

const WORD = Int32Array.BYTES_PER_ELEMENT;

/** Memory of the host in which blocks lie one behind the other. */
export interface BlockStore {
  /** The descriptor of a file from which it can be read. */
  readonly descriptor: number;
  /** @throws StoreError */
  write(bytes: Uint8Array, at: number): void;
}

/** Numbers of blocks of each kind. */
type BlockNumbers = Readonly<Record<BlockKind, Int32Array>>;

type CopiedParts = Pick<PartTable, 'rows' | 'words'>;

/** Copies of some of a device's parts of blocks of one kind. */
class PartCopies {
  private readonly most: number;
  private readonly device: Device;
  private readonly staging: DeviceBuffer;
  private readonly gather: number;
  private readonly scatter: number;

  /**
   * @param staging MOST_BLOCKS numbers of blocks, then STAGING_WORDS of their words
   * @param words of a block in these parts
   * @param at where these parts of a block begin among all its bytes
   */
  constructor(
    memory: DeviceScope,
    staging: DeviceBuffer,
    table: CopiedParts,
    private readonly words: number,
    readonly at: number,
  ) {
    this.device = memory.device;
    this.staging = staging;
    this.most = Math.min(MOST_BLOCKS, Math.floor(STAGING_WORDS / words));
    let end = 0;
    const offsets = Int32Array.from(table.words, (count) => {
      const offset = end;
      end += count;
      return offset;
    });
    const values = {
      blocks: { ...staging, elements: this.most },
      parts: memory.upload(table.rows),
      offsets: memory.upload(offsets),
      block_words: words,
    };
    const copied = { ...staging, address: staging.address + WORD * MOST_BLOCKS, elements: this.most * words };
    const sizes = { count: { index: 0, max: this.most }, part_count: table.words.length };
    const gathering = new LaunchPlanRecorder(memory.device, 1);
    gathering.launch(gatherBlocks, { ...values, y: copied }, sizes);
    this.gather = memory.plan(gathering.finish());
    const scattering = new LaunchPlanRecorder(memory.device, 1);
    scattering.launch(scatterBlocks, { ...values, x: copied }, sizes);
    this.scatter = memory.plan(scattering.finish());
  }

  /** @param place of a block by its index, in the store */
  async save(blocks: Int32Array, store: BlockStore, place: (index: number) => number): Promise<void> {
    const queued: Promise<void>[] = [];
    for (let first = 0; first < blocks.length; first += this.most) {
      if (queued.length === QUEUED) await queued.shift();
      const saving = this.saveSome(blocks.subarray(first, first + this.most), store, (i) => place(first + i));
      // The first of several failures is reported.
      saving.catch(() => undefined);
      queued.push(saving);
    }
    await Promise.all(queued);
  }

  /** The same the other way round. Everything is queued when it returns: no later step comes in between. */
  async restore(blocks: Int32Array, { descriptor }: BlockStore, place: (index: number) => number): Promise<void> {
    const queued: Promise<number>[] = [];
    for (let first = 0; first < blocks.length; first += this.most) {
      const some = blocks.subarray(first, first + this.most);
      const numbers = new Uint8Array(WORD * MOST_BLOCKS);
      numbers.set(bytesOf(some));
      const pieces: number[] = [];
      this.eachPiece(
        some.length,
        (i) => place(first + i),
        (from, to, at) => pieces.push(at, to - from),
      );
      const file = { descriptor, ranges: Float64Array.from(pieces) };
      queued.push(this.run(this.scatter, some.length, { input: numbers, file, output: NO_BYTES }));
    }
    await Promise.all(queued);
  }

  private async saveSome(some: Int32Array, store: BlockStore, place: (index: number) => number): Promise<void> {
    const output = new Uint8Array(WORD * this.words * some.length);
    await this.run(this.gather, some.length, { input: bytesOf(some), output });
    this.eachPiece(some.length, place, (from, to, at) => store.write(output.subarray(from, to), at));
  }

  /** Calls with each range of the copied bytes that is one piece in the store. */
  private eachPiece(
    count: number,
    place: (index: number) => number,
    call: (from: number, to: number, at: number) => void,
  ): void {
    const bytes = WORD * this.words;
    let begin = 0;
    for (let i = 1; i <= count; i++) {
      if (i < count && place(i) === place(begin) + bytes * (i - begin)) continue;
      call(bytes * begin, bytes * i, place(begin) + this.at);
      begin = i;
    }
  }

  private run(plan: number, count: number, transfers: Pick<NativeStep, 'input' | 'file' | 'output'>): Promise<number> {
    const { address } = this.staging;
    const fixed = { plan, counts: Int32Array.of(count), recurring: false, deviceInput: address };
    return this.device.native.run({ ...fixed, ...transfers, deviceOutput: address + WORD * MOST_BLOCKS });
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Int32Array): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Ranges of rows of a table whose words fit in the staging memory. */
function groupsOf({ rows, words }: PartTable): readonly CopiedParts[] {
  const groups: CopiedParts[] = [];
  let begin = 0;
  let sum = 0;
  for (const [i, count] of [...words, STAGING_WORDS].entries()) {
    if (sum + count > STAGING_WORDS && i > begin) {
      const own = rows.slice(SUMMED_PART_WORDS * begin, SUMMED_PART_WORDS * i);
      groups.push({ rows: own, words: words.slice(begin, i) });
      begin = i;
      sum = 0;
    }
    sum += count;
  }
  return groups;
}

/** Copies of KV blocks and of snapshots over all devices of a model to memory of the host, and back. */
export class BlockCopies {
  /** Bytes of a block of each kind. */
  readonly bytes: Readonly<Record<BlockKind, number>>;
  private readonly parts: Readonly<Record<BlockKind, readonly PartCopies[]>>;

  /** @param memory the scope of each stage's device */
  constructor(
    stages: readonly Stage[],
    memory: readonly DeviceScope[],
    private readonly store: BlockStore,
  ) {
    const ends = { blocks: 0, windowBlocks: 0, states: 0 };
    const parts: Record<BlockKind, PartCopies[]> = { blocks: [], windowBlocks: [], states: [] };
    for (const [i, { forward }] of stages.entries()) {
      const scope = memory[i] as DeviceScope;
      const staging = scope.allocate('i32', MOST_BLOCKS + STAGING_WORDS);
      // The first request after a load waits for blocks: not for pinned memory, too.
      scope.device.native.reserve(WORD * (MOST_BLOCKS + STAGING_WORDS), 0);
      for (const kind of KINDS) {
        for (const group of groupsOf(tableOf(forward.blockParts[kind]))) {
          const words = group.words.reduce((sum, count) => sum + count, 0);
          parts[kind].push(new PartCopies(scope, staging, group, words, ends[kind]));
          ends[kind] += WORD * words;
        }
      }
    }
    this.parts = parts;
    this.bytes = blockBytes(stages);
  }

  /**
   * Queues copies to the store behind the steps that were queued before: of each kind one block behind the other, from `at` on.
   *
   * @throws StoreError
   */
  async save(blocks: BlockNumbers, at: number): Promise<void> {
    for (const { parts, numbers, place } of this.copiesOf(blocks, at)) await parts.save(numbers, this.store, place);
  }

  /** Queues copies from the store: all of them when it returns. */
  async restore(blocks: BlockNumbers, at: number): Promise<void> {
    const copies = this.copiesOf(blocks, at);
    await Promise.all(copies.map(({ parts, numbers, place }) => parts.restore(numbers, this.store, place)));
  }

  private copiesOf(blocks: BlockNumbers, at: number) {
    let from = at;
    return KINDS.flatMap((kind) => {
      const [first, size, numbers] = [from, this.bytes[kind], blocks[kind]];
      from += numbers.length * size;
      const place = (index: number): number => first + index * size;
      return this.parts[kind].map((parts) => ({ parts, numbers, place }));
    });
  }
}
