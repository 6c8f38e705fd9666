import { BLOCK_TOKENS } from '../../src/gateway/replica/scheduler/block-manager.js';

/** State of a chain of tokens: the KV content of its last position, and the seed of the token after it. */
export function chain(previous: number, token: number): number {
  return (Math.imul(previous ^ (token + 0x9e3779b9), 0x85ebca6b) ^ (previous >>> 13)) >>> 0;
}

/** Content of a block's first rows as one number. */
export const contentOf = (kv: Uint32Array, block: number, rows = BLOCK_TOKENS): number =>
  kv.subarray(block * BLOCK_TOKENS, block * BLOCK_TOKENS + rows).reduce(chain, 0);

/** Writes to some blocks: to every other one another's content, to the rest a wrong number. */
export function damageBlocks(kv: Uint32Array, isHit: (block: number) => boolean): void {
  for (let block = 1; block < kv.length / BLOCK_TOKENS; block++) {
    if (!isHit(block)) continue;
    if (block % 2 === 0) kv.copyWithin(block * BLOCK_TOKENS, (block - 1) * BLOCK_TOKENS, block * BLOCK_TOKENS);
    else kv[block * BLOCK_TOKENS + (block % BLOCK_TOKENS)]! ^= 1;
  }
}
