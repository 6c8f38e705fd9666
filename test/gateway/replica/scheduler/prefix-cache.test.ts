import { describe, expect, it } from 'vitest';
import { BlockManager, hashOf } from '../../../../src/gateway/replica/scheduler/block-manager.js';
import { Scheduler } from '../../../../src/gateway/replica/scheduler/scheduler.js';
import { NO_PREFIX } from '../../../../src/gateway/request/prefix.js';
import { GREEDY, Sequence } from '../../../../src/gateway/request/sequence.js';

/** Two blocks of different tokens and one hash, found among 2^27 in seconds. */
const [FIRST, SECOND] = [
  [375, 401, 161],
  [407, 399, 503],
].map((end) => Uint32Array.of(...Array.from({ length: 13 }, (_, i) => i + 1), ...end)) as [Uint32Array, Uint32Array];

describe('a collision of hashes', () => {
  const next = Uint32Array.from({ length: 16 }, (_, i) => 100 + i);

  it('gives nobody the block that was computed behind another prompt', () => {
    expect(hashOf(NO_PREFIX, FIRST)).toBe(hashOf(NO_PREFIX, SECOND));
    const blocks = new BlockManager(3);
    const [first] = blocks.allocate(1) as [number];
    const prefix = blocks.register(first, NO_PREFIX, FIRST);
    const [behind] = blocks.allocate(1) as [number];
    blocks.register(behind, prefix, next);
    expect(blocks.find(prefix, next)?.block).toBe(behind);

    // The first block is taken for the other prompt; the one behind it stays.
    blocks.release(first);
    const [second] = blocks.allocate(1) as [number];
    const other = blocks.register(second, NO_PREFIX, SECOND);
    expect(blocks.find(NO_PREFIX, SECOND)).toEqual({ block: second, prefix: other });
    expect(blocks.find(NO_PREFIX, FIRST)).toBeUndefined();
    expect(blocks.find(other, next)).toBeUndefined();
  });

  it('leaves the block that came first findable, and the other one unfound', () => {
    const blocks = new BlockManager(4);
    const [first, second, behind] = blocks.allocate(3) as [number, number, number];
    const prefix = blocks.register(first, NO_PREFIX, FIRST);
    const other = blocks.register(second, NO_PREFIX, SECOND);
    expect(blocks.find(NO_PREFIX, FIRST)).toEqual({ block: first, prefix });
    expect(blocks.find(NO_PREFIX, SECOND)).toBeUndefined();
    blocks.register(behind, other, next);
    expect(blocks.find(prefix, next)).toBeUndefined();
    blocks.check([[first, second, behind]]);
  });
});

/** Blocks given back in the order of the prompt find 54.7 % there, the last first 59.3 %. */
const LEAST_SHARE = 0.58;

describe('conversations that take turns', () => {
  /** Part of the prompts' tokens that are found in a cache too small for all of the conversations. */
  function hitShare(kvBlocks: number): number {
    const scheduler = new Scheduler({ maxSequences: 4, maxStepTokens: 4096, kvBlocks });
    const conversations = Array.from({ length: 12 }, (_, i) => Array.from({ length: 200 }, (_, k) => i * 10_000 + k));
    let random = 1;
    let prompts = 0;
    for (let turn = 0; turn < 400; turn++) {
      random = (Math.imul(random, 1_103_515_245) + 12_345) >>> 0;
      const i = (random >>> 16) % conversations.length;
      let conversation = conversations[i] as number[];
      if (conversation.length > 2400) conversation = conversation.slice(0, 200);
      const sequence = new Sequence({
        promptIds: Uint32Array.from(conversation),
        sampling: GREEDY,
        maxTokens: 60,
        priority: 0,
      });
      prompts += conversation.length;
      scheduler.add(sequence);
      while (sequence.state !== 'ended') {
        scheduler.plan();
        scheduler.complete([i * 10_000 + 5000 + turn]);
        if (sequence.emitted.length === 60) scheduler.end(sequence);
      }
      conversations[i] = [...conversation, ...sequence.emitted, ...Array.from({ length: 40 }, (_, k) => turn * 50 + k)];
    }
    return scheduler.counters.cachedTokens / prompts;
  }

  it('find most of what they share with their last turn, because the ends of prompts go first', () => {
    const share = hitShare(600);
    console.log(`12 conversations in 600 blocks: ${(100 * share).toFixed(1)} % of the prompts' tokens are found`);
    expect(share).toBeGreaterThan(LEAST_SHARE);
  });
});
