import type { Slice, SlotAppend, SlotOpen } from '../../shared/generated/rocmforge/executor/v1/executor.js';
import { firstSeenBlock } from '../../shared/kv-window.js';
import {
  decodeSampling,
  FIRST_SAMPLING_WORD,
  type SamplingValues,
  slotSamplingWords,
} from '../../shared/sampling-schema.js';
import { KV_BLOCK_TOKENS } from '../kernels/index.js';
import type { Limits } from '../model/limits.js';
import { type SlotArena, SlotWord, slotArena } from '../model/slot-layout.js';
import type { SamplingNeeds } from '../model/step-counts.js';
import { protocolError } from './protocol-error.js';
import { biasesOf, checkIds, type SlotWriter, samplingNeeds, writeBiases, writeHistory } from './slot-adjustments.js';
import { RecurrentStates } from './slot-states.js';
import { checkWindow } from './slot-windows.js';
import { words } from './words.js';

/** Host side of a slot; the block table and the sampling parameters live on the device. */
interface Slot {
  readonly tokenIds: Uint32Array;
  readonly promptTokens: number;
  readonly sampling: SamplingValues;
  /** Logit biases by token id. */
  readonly biases: ReadonlyMap<number, number>;
  readonly suppressedIds: readonly number[];
  /** The first position at which they may be sampled. */
  readonly suppressBefore: number;
  /** Blocks of the table, in its order. */
  readonly blocks: Set<number>;
  /** Blocks of windowed layers that have not left, in the order of their table; the first is its entry `windowStart`. */
  readonly windowBlocks: Set<number>;
  windowStart: number;
  /** The position of the token that was sampled last; before the first, none. */
  sampledPosition: number | undefined;
  /** That token, once its step has ended. */
  sampledToken: number;
  /** It is that of a step before: what the slot sampled behind it has not come about. */
  isPutBack: boolean;
  /** The position of the token that was not sampled because its mask had not come in time. */
  missingPosition: number | undefined;
  /** True if tokens are held down until a position that has not been reached. */
  isSuppressing: boolean;
}

/** One of a slot's block tables as it is extended. */
interface BlockTable {
  /** Name of its blocks in errors. */
  readonly name: string;
  /** Blocks that there are. */
  readonly count: number;
  /** In the order of the table; the first is its entry `first`. */
  readonly held: Set<number>;
  readonly first: number;
  /** Its word in the slots' memory. */
  readonly table: number;
}

/**
 * The slots of one epoch, and the rules of the protocol: every frame is checked here before anything of it reaches
 * the device, so that a wrong gateway gets an error and never another sequence's memory.
 */
export class SlotTable {
  private readonly slots: (Slot | undefined)[];
  /** States of recurrent models. */
  readonly states: RecurrentStates;
  private readonly arena: SlotArena;
  private readonly words: number;
  constructor(
    private readonly limits: Limits,
    private readonly vocabularySize: number,
    hasSnapshots = false,
  ) {
    this.slots = new Array<Slot | undefined>(limits.maxSequences).fill(undefined);
    this.states = new RecurrentStates(limits, hasSnapshots);
    this.arena = slotArena(limits);
    this.words = this.arena.slotWords;
  }

  close(slot: number): void {
    this.get(slot);
    this.slots[slot] = undefined;
  }

  open(message: SlotOpen, write: SlotWriter): void {
    const { slot } = message;
    if (slot >= this.limits.maxSequences) throw protocolError(`slot ${slot} of ${this.limits.maxSequences}`);
    if (this.slots[slot] !== undefined) throw protocolError(`slot ${slot} is open already`);
    const tokenIds = words(message.tokenIds);
    if (tokenIds.length === 0 || tokenIds.length > this.limits.maxContext) {
      throw protocolError(`slot ${slot} holds ${tokenIds.length} tokens`);
    }
    if (message.promptTokens > tokenIds.length) {
      throw protocolError(`slot ${slot} has a prompt of ${message.promptTokens} among ${tokenIds.length} tokens`);
    }
    for (const id of tokenIds) {
      if (id >= this.vocabularySize) throw protocolError(`token id ${id} in slot ${slot}`);
    }
    const sampling = decodeSampling(message.sampling, (what) => throwProtocolError(`${what} of slot ${slot}`));
    const suppressBefore = sampling.minTokens === 0 ? 0 : message.promptTokens + sampling.minTokens;
    const biases = biasesOf(message);
    checkIds(message.slot, sampling, biases.size);
    this.slots[slot] = {
      tokenIds,
      promptTokens: message.promptTokens,
      sampling,
      biases,
      suppressedIds: message.suppressedIds,
      suppressBefore,
      blocks: new Set(),
      windowBlocks: new Set(),
      windowStart: this.windowStartOf(message),
      sampledPosition: undefined,
      sampledToken: 0,
      isPutBack: false,
      missingPosition: undefined,
      isSuppressing: tokenIds.length < suppressBefore,
    };
    this.states.forget(slot);
    const first = slot * this.words + FIRST_SAMPLING_WORD;
    slotSamplingWords(message.sampling).forEach((word, i) => {
      write(first + i, word);
    });
    writeHistory(this.arena, message, sampling, tokenIds, write);
    this.writeBiases(slot, write);
    this.append(message, write);
  }

  append(message: SlotAppend, write: SlotWriter): void {
    const { kvBlocks, windowed } = this.limits;
    const { blocks, windowBlocks, windowStart } = this.get(message.slot);
    const table = message.slot * this.words + SlotWord.blockTable;
    const own = { name: 'block', count: kvBlocks, held: blocks, first: 0, table };
    this.extend(message.slot, message.blockIds, own, write);
    this.extend(
      message.slot,
      message.windowBlockIds,
      {
        name: 'windowed block',
        count: windowed?.blocks ?? 0,
        held: windowBlocks,
        first: windowStart,
        table: table + this.arena.windowTable,
      },
      write,
    );
  }

  /**
   * A step goes on with the slice: what its first position does not see leaves the table of windowed layers, and may be another
   * slot's from this step on. Comes before the step's opens and appends, so that no word is written twice.
   */
  advance({ slot: index, position }: Slice, write: SlotWriter): void {
    const slot = this.slots[index];
    const { windowed } = this.limits;
    if (slot === undefined || windowed === undefined) return;
    const table = index * this.words + SlotWord.blockTable + this.arena.windowTable;
    // The token before a constrained slot's slice may turn out to be missing, and is then computed for again.
    const from = Math.max(0, position - slot.sampling.constrained);
    const first = firstSeenBlock(from, windowed.window, KV_BLOCK_TOKENS);
    for (const block of slot.windowBlocks) {
      if (slot.windowStart >= first) break;
      write(table + slot.windowStart, 0);
      slot.windowBlocks.delete(block);
      slot.windowStart += 1;
    }
  }

  /**
   * True if the slice was sent before the gateway knew that the token it goes on from was not sampled. Nothing comes of it.
   * A slice that makes up for the missing token goes on from the one before, which is put back.
   */
  isVoid({ slot: index, position, count, tokenIds: ids }: Slice): boolean {
    const slot = this.get(index);
    const { missingPosition: missing, tokenIds } = slot;
    if (missing === undefined) return false;
    if (position === missing && count === 1) return true;
    const sampled = position + (ids === undefined ? count : 1);
    // States are those before the slice that was late, which may be cut now.
    if (this.limits.isRecurrent && sampled < missing) return false;
    if (sampled !== missing) {
      throw protocolError(
        `positions ${position} to ${position + count} of slot ${index}, whose token ${missing} is missing`,
      );
    }
    slot.missingPosition = undefined;
    slot.isPutBack = position >= tokenIds.length;
    slot.sampledPosition = slot.isPutBack ? position : undefined;
    return false;
  }

  /** No token was sampled for this position, which {@link beforeSample} was told of. */
  missed(slot: number, position: number): void {
    this.get(slot).missingPosition = position;
  }

  /** Hears of the token that the slot, as it is open now, samples, once its step has ended. */
  sampledBy(slot: number): (tokenId: number) => void {
    const state = this.get(slot);
    return (tokenId) => {
      state.sampledToken = tokenId;
    };
  }

  /** True if what the slot samples needs a mask. */
  isConstrained(slot: number): boolean {
    return this.get(slot).sampling.constrained !== 0;
  }

  /**
   * Calls `row` for each position of the slice with its token id, or -1 for the token that the slot sampled last.
   */
  rows(slice: Slice, row: (tokenId: number, position: number) => void): void {
    const slot = this.get(slice.slot);
    const last = slot.isPutBack ? slot.sampledToken : -1;
    slot.isPutBack = false;
    const end = slice.position + slice.count;
    // The last block may reach past the context; the tables of positions do not.
    if (slice.count === 0 || end > Math.min(slot.blocks.size * KV_BLOCK_TOKENS, this.limits.maxContext)) {
      throw protocolError(
        `positions ${slice.position} to ${end} of slot ${slice.slot} with ${slot.blocks.size} blocks`,
      );
    }
    if (this.limits.windowed !== undefined) checkWindow(slot, slice, this.limits.windowed);
    if (slice.tokenIds !== undefined) {
      this.draftTokens(slot, slice, slice.tokenIds).forEach((tokenId, i) => {
        row(tokenId, slice.position + i);
      });
      return;
    }
    if (slice.position === slot.missingPosition) {
      // As good as any: nobody reads what is computed.
      row(0, slice.position);
      return;
    }
    if (end > slot.tokenIds.length && (slice.count !== 1 || slice.position !== slot.sampledPosition)) {
      throw protocolError(
        `slot ${slice.slot} knows ${slot.tokenIds.length} tokens and sampled that of ${slot.sampledPosition ?? 'none'}, the ` +
          `slice is from ${slice.position} to ${end}`,
      );
    }
    for (let position = slice.position; position < end; position++) row(slot.tokenIds[position] ?? last, position);
  }

  /**
   * The token after each position of a slice, as far as it is known, and positions in the slot's blocks from the slice's start on:
   * inputs of a prediction block.
   */
  following({ slot: index, position, count }: Slice): {
    readonly tokens: readonly (number | undefined)[];
    readonly room: number;
  } {
    const { tokenIds, blocks } = this.get(index);
    const tokens = Array.from({ length: count }, (_, i) => tokenIds[position + 1 + i]);
    return { tokens, room: Math.min(blocks.size * KV_BLOCK_TOKENS, this.limits.maxContext) - position };
  }

  /** The tokens that a slice brings itself. */
  private draftTokens(slot: Slot, { slot: index, position, count, sample }: Slice, tokenIds: Uint8Array): Uint32Array {
    const ids = words(tokenIds);
    if (!sample || ids.length !== count || position < slot.tokenIds.length) {
      throw protocolError(`${ids.length} tokens for ${count} positions from ${position} on of slot ${index}`);
    }
    for (const id of ids) if (id >= this.vocabularySize) throw protocolError(`token id ${id} in slot ${index}`);
    // Suppressed tokens are biases of the slot: the same for all of its rows.
    const { isSuppressing, suppressBefore } = slot;
    if (isSuppressing && position + 1 < suppressBefore && position + count >= suppressBefore) {
      throw protocolError(`draft tokens of slot ${index} beyond position ${suppressBefore}, where tokens are let go`);
    }
    return ids;
  }

  /** Which of the sampled tokens the gateway accepts is unknown here: the next slice states it. */
  drafted(slot: number): void {
    this.get(slot).sampledPosition = undefined;
  }

  /** The slot is about to sample the token of this position, and maybe more: what is held down until then is let go. */
  beforeSample(slot: number, position: number, write: SlotWriter): void {
    const { isSuppressing, suppressBefore } = this.get(slot);
    this.get(slot).sampledPosition = position;
    if (!isSuppressing || position < suppressBefore) return;
    this.get(slot).isSuppressing = false;
    this.writeBiases(slot, write);
  }

  /**
   * Calls `row` for each position of the slice whose next token is in the prompt, with its row within the slice, that token
   * and how many of the likeliest are wanted.
   */
  promptRows(slice: Slice, row: (index: number, target: number, top: number) => void): void {
    const { tokenIds, promptTokens, sampling } = this.get(slice.slot);
    if (sampling.promptLogprobs === 0) throw protocolError(`prompt logprobs of slot ${slice.slot}, which has none`);
    const top = sampling.promptLogprobs - 1;
    const end = slice.position + slice.count;
    if (end > promptTokens) throw protocolError(`prompt logprobs up to ${end} of a prompt of ${promptTokens}`);
    for (let next = slice.position + 1; next < Math.min(end + 1, promptTokens); next++) {
      row(next - 1 - slice.position, tokenIds[next] as number, top);
    }
  }

  /** Sampling needs of the slot's next token. */
  needsOf(slot: number): SamplingNeeds {
    const { sampling, biases, suppressedIds, isSuppressing } = this.get(slot);
    return samplingNeeds(sampling, biases.size > 0 || (isSuppressing && suppressedIds.length > 0));
  }

  /** Number of log probabilities with a token that the slot samples: its own and those of the likeliest, and of chosen ones. */
  logprobsOf(slot: number): { readonly logprobs: number; readonly given: number } {
    const { logprobs, chosenLogprobs } = this.get(slot).sampling;
    return { logprobs, given: chosenLogprobs };
  }

  /** Adds blocks at the end of one of a slot's tables. */
  private extend(slot: number, blockIds: Uint8Array, blocks: BlockTable, write: SlotWriter): void {
    const { name, count, held, first, table } = blocks;
    for (const block of words(blockIds)) {
      if (block === 0 || block >= count) throw protocolError(`${name} ${block} in slot ${slot}`);
      const index = first + held.size;
      if (index * KV_BLOCK_TOKENS >= this.limits.maxContext) {
        throw protocolError(`slot ${slot} has more ${name}s than the context holds`);
      }
      if (held.has(block)) throw protocolError(`${name} ${block} twice in slot ${slot}`);
      write(table + index, block);
      held.add(block);
    }
  }

  /** First position of the windowed layers' table of a slot that opens. */
  private windowStartOf({ slot, windowStart }: SlotOpen): number {
    const { windowed, maxContext } = this.limits;
    if (windowed === undefined ? windowStart === 0 : windowStart * KV_BLOCK_TOKENS < maxContext) return windowStart;
    throw protocolError(`windowed blocks from ${windowStart} on in slot ${slot}`);
  }

  private writeBiases(slot: number, write: SlotWriter): void {
    const { biases: lasting, suppressedIds, isSuppressing } = this.get(slot);
    const suppressed = isSuppressing ? suppressedIds : [];
    const biases = new Map([...lasting, ...suppressed.map((id) => [id, Number.NEGATIVE_INFINITY] as const)]);
    writeBiases(this.arena, slot, biases, this.vocabularySize, write);
  }

  private get(slot: number): Slot {
    return this.slots[slot] ?? throwProtocolError(`slot ${slot} is not open`);
  }
}

function throwProtocolError(what: string): never {
  throw protocolError(what);
}
