/** Orders in which kernels add. Each depends only on a row's own length or context, never on its batch. */
export const ORDER = {
  norm:
    'the squares of each 16 elements in a tree; then lane l of 32 adds the sums l, l + 32, … in ascending order; then the lanes ' +
    'in a tree; rows longer than 16,384, or not a multiple of 4 long, as `row`',
  row: 'each thread its own elements in ascending order; then the lanes of a wave in a tree; then the waves in order',
  dot: 'each lane its own elements in ascending order; then the lanes in a tree',
  rising: 'one chain in ascending order',
  risingTiles: 'one chain in ascending order; inside a product of tiles the hardware’s',
  packed:
    'lane l of 32 the blocks l, l + 32, … (of a wave of 64, the sums of l and l + 32 first); then the lanes in order',
  tile: 'eight runs of whole chunks, each in ascending order; then the runs in order; inside a product of tiles the hardware’s',
  halves:
    'eight runs of whole chunks of 64, each in ascending order; then the runs of each half in order; then the halves; inside ' +
    'a product of tiles the hardware’s',
  context:
    'each wave its own KV blocks of a split of 128 positions in ascending order; then the waves in order; then the splits in order',
  sixteens: 'each wave its own tiles of 16 positions in ascending order; then the waves in order',
  keys: 'keys in tiles of 16 in ascending order; dot products as lanes in a tree',
  chunks:
    'the tiles of 16 positions of a split of 128 in ascending order, inside a product the hardware’s; then the splits in order',
  splits: 'the splits in order',
  positions: 'one chain in f64 for each element, in the order of positions over all slices of a sequence',
} as const;
