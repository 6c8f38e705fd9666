import { asRocmForgeError, RocmForgeError } from '../../../shared/errors.js';
import { type ExecuteRequest, Pooling, SlotOpen } from '../../../shared/generated/rocmforge/executor/v1/executor.js';
import { encodeSampling } from '../../../shared/sampling-schema.js';
import type { SequenceOptions } from '../../request/sequence.js';
import type { StepMasks } from '../masking.js';
import type { BlockKind, PlannedChecksums } from '../scheduler/block-checksums.js';
import type { PlannedOpenBlock } from '../scheduler/open-blocks.js';
import type { StepPlan } from '../scheduler/step-plan.js';

const NOTHING = Buffer.alloc(0);

const POOLINGS = { mean: Pooling.MEAN, cls: Pooling.FIRST, last: Pooling.LAST, none: Pooling.NONE } as const;

/**
 * The frame that tells the executor of one epoch to run a plan.
 *
 * @param model hiddenSize: elements of a hidden state that the executor can return; 0: it returns none
 */
export function encodeStep(
  plan: StepPlan,
  epoch: bigint,
  masks?: StepMasks,
  { hiddenSize } = { hiddenSize: 0 },
): ExecuteRequest {
  return {
    stepId: BigInt(plan.stepId),
    epoch,
    closes: plan.closes as number[],
    opens: plan.opens.map(({ sequence, slot, blocks, windowStart, windowBlocks }) => {
      return {
        ...requestOf(sequence.options),
        slot,
        tokenIds: bytesOf(sequence.tokens()),
        blockIds: bytesOf(Uint32Array.from(blocks)),
        windowStart,
        windowBlockIds: bytesOf(Uint32Array.from(windowBlocks)),
      };
    }),
    appends: plan.appends.map(({ slot, blocks, windowBlocks }) => ({
      slot,
      blockIds: bytesOf(Uint32Array.from(blocks)),
      windowBlockIds: bytesOf(Uint32Array.from(windowBlocks)),
    })),
    slices: plan.slices.map((slice, i) => ({
      slot: slice.slot,
      position: slice.position,
      count: slice.count,
      sample: slice.sample,
      promptLogprobs: slice.promptLogprobs,
      mask: masks?.slices[i],
      tokenIds: slice.tokens && bytesOf(Uint32Array.from(slice.tokens)),
      draftTokenMasks: slice.draftTokenMasks && bytesOf(Uint32Array.from(masks?.draftTokens[i] ?? [])),
      fromSnapshot: slice.fromSnapshot,
      toSnapshot: slice.toSnapshot,
      predictedTokens: slice.predictedTokens,
      pooling: slice.pooling && hiddenSize > 0 ? POOLINGS[slice.pooling] : undefined,
      score: (slice.pooling && hiddenSize > 0 && slice.sequence.options.returns?.isScored) || undefined,
    })),
    masks: masks?.masks ?? [],
    slotMasks: masks?.before ?? [],
    ...checksumsOf(plan.checksums),
  };
}

/** A frame that is no step. */
export const emptyFrame = (stepId: bigint, epoch: bigint): ExecuteRequest => ({
  ...{ stepId, epoch, closes: [], opens: [], appends: [], slices: [], masks: [], slotMasks: [] },
  ...checksumsOf(undefined),
});

/** The fields of a frame that ask for checksums, and for copies of these blocks. */
function checksumsOf(
  checksums: PlannedChecksums | undefined,
): Pick<
  ExecuteRequest,
  | ('checksumBlocks' | 'checksumWindowBlocks' | 'checksumSnapshots' | 'saveAt' | 'restoreAt')
  | ('openBlocks' | 'openWindowBlocks' | 'openRows')
> {
  const numbers = (kind: BlockKind): Buffer => {
    const blocks = checksums?.[kind] ?? [];
    return blocks.length === 0 ? NOTHING : bytesOf(Uint32Array.from(blocks, ({ block }) => block));
  };
  const { open = [] } = checksums ?? {};
  const ofOpen = (wordOf: (block: PlannedOpenBlock) => number | undefined): Buffer =>
    open.length === 0 ? NOTHING : bytesOf(Uint32Array.from(open.flatMap((block) => wordOf(block) ?? [])));
  return {
    checksumBlocks: numbers('blocks'),
    checksumWindowBlocks: numbers('windowBlocks'),
    checksumSnapshots: numbers('snapshots'),
    saveAt: offset(checksums?.saveAt),
    restoreAt: offset(checksums?.restoreAt),
    openBlocks: ofOpen(({ block }) => block),
    openWindowBlocks: ofOpen(({ windowBlock }) => windowBlock),
    openRows: ofOpen(({ rows }) => rows),
  };
}

const offset = (at: number | undefined): bigint | undefined => (at === undefined ? undefined : BigInt(at));

/**
 * The part of a request in a frame is written once before any step has it: one that cannot be written would end the stream of
 * steps, and look like a fault of the executor to everybody in it.
 *
 * @throws RocmForgeError `INTERNAL`: the request should have been refused before
 */
export function checkEncodable(options: SequenceOptions): void {
  try {
    SlotOpen.encode(SlotOpen.fromPartial(requestOf(options))).finish();
  } catch (error) {
    const { message } = asRocmForgeError(error);
    throw new RocmForgeError('INTERNAL', `no frame holds this request: ${message}`, {}, { cause: error });
  }
}

/** The part of a slot's opening that the request decides. */
function requestOf({ promptIds, sampling }: SequenceOptions) {
  return {
    promptTokens: promptIds.length,
    sampling: encodeSampling(sampling),
    biasIds: sampling.logitBias.map(([id]) => id),
    biasValues: sampling.logitBias.map(([, bias]) => bias),
    suppressedIds: sampling.suppressedIds as number[],
  };
}

/** Little-endian, as every machine that Node runs on is. */
function bytesOf(words: Uint32Array): Buffer {
  return Buffer.from(words.buffer, words.byteOffset, words.byteLength);
}
