/** In which order kernels add up. Each order depends on a row's own length or context alone: never on its batch. */
export const ORDER = {
  norm:
    'the squares of each sixteen elements by halves, of these sums a lane of 32 its own, rising, then the lanes by halves; ' +
    'of other lengths than multiples of 4 up to 16,384 as a row',
  row: 'a thread its own elements of the row, rising; then the lanes of a wave by halves; then the waves in order',
  dot: 'a lane its own elements, rising; then the lanes by halves',
  rising: 'one chain in rising order',
  risingTiles: 'one chain in rising order; inside a product of tiles the hardware’s',
  packed:
    'lane l of 32 the blocks l, l + 32, … (of a wave of 64, the sums of l and l + 32 first); then the lanes in order',
  tile: 'eight runs of whole chunks, each in rising order; then the runs in order; inside a product of tiles the hardware’s',
  halves:
    'eight runs of whole chunks of 64, each in rising order; then the runs of each half in order; then the halves; inside ' +
    'a product of tiles the hardware’s',
  context:
    'a wave its own KV blocks of a split of 128 positions, rising, then the waves in order; then the splits in order',
  sixteens: 'a wave its own sixteens of positions, rising; then the waves in order',
  keys: 'keys in tiles of 16, rising; dot products as lanes by halves',
  chunks: 'the sixteens of a split of 128 positions, rising, inside a product the hardware’s; then the splits in order',
  splits: 'the splits in order',
  positions: 'one chain in f64 for each element, in the order of positions over all slices of a sequence',
} as const;
