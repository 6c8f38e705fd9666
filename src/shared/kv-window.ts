// Rule by which gateway and executor count KV blocks that leave: a key at p0 is hidden from position p on when
// p − p0 ≥ window.

/** Index in a block table of the first block with a key that some position from `position` on sees. */
export function firstSeenBlock(position: number, window: number, blockTokens: number): number {
  return Math.floor(Math.max(0, position - window + 1) / blockTokens);
}

/** The most blocks that keys of `rows` positions in a row and those that they see can lie in. */
export function mostSeenBlocks(rows: number, window: number, blockTokens: number): number {
  return Math.ceil((window + rows - 2) / blockTokens) + 1;
}
