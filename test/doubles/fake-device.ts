import {
  type ExecuteRequest,
  ExecuteResponse,
  type Slice,
  type SlotOpen,
  type SlotOutput,
  type TokenMask,
} from '../../src/shared/generated/rocmforge/executor/v1/executor.js';
import { decodeSampling } from '../../src/shared/sampling-schema.js';
import { ScriptChoice } from './turn-scripts.js';

const BLOCK_TOKENS = 16;
const EMPTY = 0x811c9dc5;

export interface KvWrite {
  readonly block: number;
  /** Within the block, 0 to 15. */
  readonly offset: number;
  /** Which opening of a slot wrote it, counted from 1. */
  readonly sequence: number;
  readonly position: number;
}

interface Slot {
  readonly sequence: number;
  readonly known: Uint32Array;
  readonly promptTokens: number;
  /** True if log probabilities come with a sampled token. */
  readonly isTold: boolean;
  /** Number of the likeliest tokens that come with a sampled token, and with one of the prompt. */
  readonly top: number;
  readonly given: number;
  readonly promptTop: number;
  readonly blocks: number[];
  /** The next position that was never computed, and the chain of all tokens before it. */
  position: number;
  chain: number;
  lastToken: number;
  /** Positions from here on were computed of draft tokens. */
  draftedFrom: number;
  readonly isConstrained: boolean;
  /** The position of the token whose mask came too late. */
  missing: number | undefined;
}

/** State of a sequence of tokens: the KV content of its last position, and the seed of the token after it. */
function chained(previous: number, token: number): number {
  return (Math.imul(previous ^ (token + 0x9e3779b9), 0x85ebca6b) ^ (previous >>> 13)) >>> 0;
}

/** Which token follows a prefix: never one below `first`, where special tokens lie. */
export interface FakeVocabulary {
  readonly first: number;
  readonly size: number;
}

function tokenOf(chain: number, { first, size }: FakeVocabulary): number {
  return first + (chain % (size - first));
}

/** The tokens that any fake executor generates after a prompt. */
export function fakeTokens(prompt: Iterable<number>, count: number, vocabulary: FakeVocabulary): number[] {
  let state = EMPTY;
  for (const token of prompt) state = chained(state, token);
  return Array.from({ length: count }, () => {
    const token = tokenOf(state, vocabulary);
    state = chained(state, token);
    return token;
  });
}

/**
 * Slots and KV blocks without a model. Each KV position holds the chain of the tokens up to it, so that a block which was
 * overwritten, or found by the wrong prefix, is seen when somebody goes on from it. Any breach throws.
 */
export class FakeDevice {
  /** Rows of all steps so far. */
  rows = 0;
  steps = 0;
  /** Every KV write since this was set to an empty list. */
  writes: KvWrite[] | undefined;
  private readonly slots = new Map<number, Slot>();
  private readonly masks = new Map<number, Uint8Array>();
  private readonly kv: Uint32Array;
  /** The open slots that hold each block. */
  private readonly holders: Uint16Array;
  private sequences = 0;

  constructor(
    private readonly limits: {
      readonly maxSequences: number;
      readonly maxStepTokens: number;
      readonly kvBlocks: number;
    },
    private readonly vocabulary: FakeVocabulary,
    private readonly script = new ScriptChoice([]),
  ) {
    this.kv = new Uint32Array(limits.kvBlocks * BLOCK_TOKENS);
    this.holders = new Uint16Array(limits.kvBlocks);
  }

  /** Masks come with a step, or by themselves. */
  learn(masks: readonly TokenMask[]): void {
    for (const { id, allowed } of masks) this.masks.set(id, allowed);
  }

  /**
   * Runs a step.
   *
   * @param came the masks that were pending and have come, by slot
   * @throws Error for the first rule it breaks
   */
  run(step: ExecuteRequest, came: ReadonlyMap<number, number> = new Map()): ExecuteResponse {
    this.learn(step.masks);
    for (const slot of step.closes) this.close(slot);
    for (const open of step.opens) this.open(open);
    for (const { slot, blockIds } of step.appends) this.hold(this.get(slot), words(blockIds));
    const outputs: SlotOutput[] = [];
    const promptOutputs: SlotOutput[] = [];
    const seen = new Set<number>();
    let rows = 0;
    for (const slice of step.slices) {
      if (seen.has(slice.slot)) throw new Error(`two slices of slot ${slice.slot}`);
      seen.add(slice.slot);
      rows += slice.count;
      const slot = this.get(slice.slot);
      const rank = Number(slot.isTold);
      const output = {
        slot: slice.slot,
        logprob: 0,
        rank,
        ...{ nonFinite: false, predictedIds: [] },
        late: false,
        ...likeliest(slot.top, slot.given),
      };
      if (slice.tokenIds !== undefined) {
        if (slot.missing !== undefined && slice.position + 1 !== slot.missing)
          throw new Error(`slot ${slice.slot} lacks token ${slot.missing}`);
        if ((slice.draftTokenMasks?.length ?? 0) !== (slot.isConstrained && slice.count > 1 ? 4 * slice.count : 0))
          throw new Error(
            `${slice.draftTokenMasks?.length} bytes of masks of slot ${slice.slot} for ${slice.count} draftTokens`,
          );
      }
      const mask = (slice.tokenIds?.length ?? 4) > 4 ? undefined : this.maskOf(slot, slice, came);
      if (mask === 'late') {
        if (slice.count > 1 && slot.missing === slice.position + slice.count)
          this.compute(slot, { ...slice, count: slice.count - 1 });
        outputs.push({ ...output, tokenId: 0, rank: 0, ...likeliest(0), late: true });
        continue;
      }
      if (slice.tokenIds !== undefined) {
        slot.missing = undefined;
        const masks = slice.draftTokenMasks ? [...words(slice.draftTokenMasks)].map((id) => this.known(id)) : [mask];
        const sampled = this.draft(slot, slice, words(slice.tokenIds), masks);
        outputs.push(...sampled.map((tokenId) => ({ ...output, tokenId })));
        continue;
      }
      this.compute(slot, slice);
      if (slice.promptLogprobs) promptOutputs.push(...promptOutputsOf(slot, slice));
      if (!slice.sample) continue;
      slot.lastToken = this.allowed(this.sampled(slot, slot.position), mask);
      outputs.push({ ...output, tokenId: slot.lastToken });
    }
    if (rows > this.limits.maxStepTokens) throw new Error(`${rows} rows in a step`);
    const logits = outputs.length + promptOutputs.length;
    if (logits > this.limits.maxSequences) throw new Error(`${logits} rows of logits in a step`);
    this.rows += rows;
    this.steps += 1;
    return ExecuteResponse.fromPartial({ stepId: step.stepId, epoch: step.epoch, outputs, promptOutputs });
  }

  /** By what a slice's token is chosen; late: its last position is computed again. */
  private maskOf(slot: Slot, { slot: index, position, count, sample, mask }: Slice, came: ReadonlyMap<number, number>) {
    if (!sample) return undefined;
    if (slot.isConstrained !== (mask !== undefined)) throw new Error(`slot ${index} and its mask`);
    if (mask === undefined) return undefined;
    const end = position + count;
    if (slot.missing !== undefined && end === slot.missing + 1) return 'late';
    if (slot.missing !== undefined && end !== slot.missing)
      throw new Error(`slot ${index} lacks token ${slot.missing}`);
    const id = mask.id || came.get(index);
    slot.missing = id === undefined ? end : undefined;
    if (id === undefined) return 'late';
    return this.known(id);
  }

  private known(id: number): Uint8Array {
    const bits = this.masks.get(id);
    if (bits === undefined) throw new Error(`mask ${id} is not there`);
    return bits;
  }

  /** The token, or the next one that the mask allows. */
  private allowed(token: number, mask: Uint8Array | undefined): number {
    if (mask === undefined) return token;
    for (let i = 0; i < this.vocabulary.size; i++) {
      const id = (token + i) % this.vocabulary.size;
      if (((mask[id >> 3] as number) >> (id & 7)) & 1) return id;
    }
    throw new Error('a mask allows nothing');
  }

  private open({ slot, tokenIds, blockIds, promptTokens, sampling }: SlotOpen): void {
    if (this.slots.has(slot)) throw new Error(`slot ${slot} is open already`);
    if (slot >= this.limits.maxSequences) throw new Error(`slot ${slot} does not exist`);
    this.sequences += 1;
    const { logprobs, chosenLogprobs, promptLogprobs, constrained } = decodeSampling(sampling, (what) => {
      throw new Error(what);
    });
    const opened: Slot = {
      sequence: this.sequences,
      known: words(tokenIds),
      promptTokens,
      isTold: logprobs > 0,
      top: Math.max(0, logprobs - 1),
      given: chosenLogprobs,
      promptTop: Math.max(0, promptLogprobs - 1),
      blocks: [],
      position: 0,
      chain: EMPTY,
      lastToken: -1,
      draftedFrom: 0,
      isConstrained: constrained === 1,
      missing: undefined,
    };
    this.hold(opened, words(blockIds));
    this.slots.set(slot, opened);
  }

  private close(slot: number): void {
    for (const block of this.get(slot).blocks) this.holders[block]! -= 1;
    this.slots.delete(slot);
  }

  private hold(slot: Slot, blocks: Uint32Array): void {
    for (const block of blocks) {
      if (block === 0 || block >= this.limits.kvBlocks) throw new Error(`block ${block} of ${this.limits.kvBlocks}`);
      this.holders[block]! += 1;
      slot.blocks.push(block);
    }
  }

  private compute(slot: Slot, { slot: index, position, count }: Slice): void {
    if (slot.position === 0 && position > 0) this.skip(slot, position);
    if (position !== slot.position) throw new Error(`slot ${index} is at ${slot.position}, not ${position}`);
    if (position > 0 && this.kv[this.place(slot, position - 1)] !== slot.chain) {
      throw new Error(`what slot ${index} holds before position ${position} is not its own`);
    }
    for (let p = position; p < position + count; p++) {
      const token = slot.known[p] ?? (count === 1 ? slot.lastToken : -1);
      if (token < 0) throw new Error(`slot ${index} knows no token at ${p}`);
      slot.chain = chained(slot.chain, token);
      this.write(slot, p);
    }
    slot.position = position + count;
    slot.draftedFrom = slot.position;
  }

  /** The token of a position, of what the chain holds before it. */
  private sampled({ chain, known, promptTokens }: Slot, position: number): number {
    return this.script.of(known, promptTokens)[position - promptTokens] ?? tokenOf(chain, this.vocabulary);
  }

  /** A slice that says its tokens: draft tokens of the last such slice that were wrong are forgotten. */
  private draft(
    slot: Slot,
    { slot: index, position, count, sample }: Slice,
    ids: Uint32Array,
    masks: readonly (Uint8Array | undefined)[],
  ): number[] {
    if (!sample || ids.length !== count)
      throw new Error(`${ids.length} tokens for ${count} positions of slot ${index}`);
    if (position < slot.known.length || position > slot.position || position < slot.draftedFrom) {
      throw new Error(
        `slot ${index} is at ${slot.position}, of which ${slot.draftedFrom} are certain, not ${position}`,
      );
    }
    slot.chain = this.kv[this.place(slot, position - 1)] as number;
    const sampled = Array.from(ids, (token, i) => {
      slot.chain = chained(slot.chain, token);
      this.write(slot, position + i);
      return this.allowed(this.sampled(slot, position + i + 1), masks[i]);
    });
    slot.position = position + count;
    slot.draftedFrom = position + 1;
    slot.lastToken = count === 1 ? (sampled[0] as number) : -1;
    return sampled;
  }

  /** Positions that are in shared blocks already: their content must be what this slot would have computed. */
  private skip(slot: Slot, end: number): void {
    for (let p = 0; p < end; p++) {
      slot.chain = chained(slot.chain, slot.known[p] as number);
      if (this.kv[this.place(slot, p)] !== slot.chain)
        throw new Error(`position ${p} of a found prefix is not its own`);
    }
    slot.position = end;
  }

  private write(slot: Slot, position: number): void {
    const place = this.place(slot, position);
    const block = Math.floor(place / BLOCK_TOKENS);
    if (this.holders[block] !== 1) throw new Error(`block ${block} of ${this.holders[block]} sequences is written`);
    this.kv[place] = slot.chain;
    this.writes?.push({ block, offset: place % BLOCK_TOKENS, sequence: slot.sequence, position });
  }

  private place(slot: Slot, position: number): number {
    const block = slot.blocks[Math.floor(position / BLOCK_TOKENS)];
    if (block === undefined) throw new Error(`position ${position} has no block`);
    return block * BLOCK_TOKENS + (position % BLOCK_TOKENS);
  }

  private get(index: number): Slot {
    const slot = this.slots.get(index);
    if (slot === undefined) throw new Error(`slot ${index} is not open`);
    return slot;
  }
}

/** A prompt's next tokens, all with the same probability: there is no model. */
function promptOutputsOf({ known, promptTokens, promptTop }: Slot, { slot, position, count }: Slice): SlotOutput[] {
  const end = Math.min(position + count + 1, promptTokens);
  const ids = known.subarray(position + 1, end);
  return Array.from(ids, (tokenId) => ({
    slot,
    tokenId,
    logprob: -1,
    rank: 1,
    ...{ nonFinite: false, predictedIds: [] },
    late: false,
    ...likeliest(promptTop),
  }));
}

function likeliest(
  count: number,
  given = 0,
): Pick<SlotOutput, 'topIds' | 'topLogprobs' | 'chosenLogprobs' | 'chosenRanks'> {
  return {
    topIds: Array.from({ length: count }, (_, i) => i),
    topLogprobs: new Array<number>(count).fill(-1),
    chosenLogprobs: new Array<number>(given).fill(-1),
    chosenRanks: new Array<number>(given).fill(2),
  };
}

function words(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(Uint8Array.from(bytes).buffer);
}
