// group_by_expert: rows sorted by their experts: a run for each expert that has any, in the order of ids, and in a run
// the rows in theirs
//
// A row sent to several experts is in several runs. Runs begin at multiples of `align`.
#include "forge/experts.h"

// Grid: x = experts: the block of an expert counts all of them, and places its own rows.
KERNEL(group_by_expert, const int32_t* __restrict ids,  // [rows, used], rising in each row
       const int32_t* __restrict tokens,                // [1]: rows that count
       int32_t* __restrict runs,                        // [experts, 3]: expert, first, count
       int32_t* __restrict row_of,                      // [places]: of a place in a run
       int32_t* __restrict place_of,                    // [rows, used]
       int experts, int used, int align) {
  using namespace forge;
  SHARED(int, counts, MOST_EXPERTS);
  SHARED(int, is_mine, BLOCK);
  SHARED(int, totals, 3);
  const int expert = BLOCK_INDEX.x, rows = *tokens;
  for (int e = thread_id(); e < experts; e += BLOCK) counts[e] = 0;
  if (thread_id() == 0) totals[0] = totals[1] = totals[2] = 0;
  block_sync();
  for (int i = thread_id(); i < rows * used; i += BLOCK) shared_add(counts[ids[i]], 1);
  block_sync();

  // Places and runs before this expert's, and runs in all.
  int places = 0, before_it = 0, in_all = 0;
  for (int e = thread_id(); e < experts; e += BLOCK) {
    const int count = counts[e];
    if (e < expert) places += (count + align - 1) / align * align;
    if (e < expert && count > 0) before_it += 1;
    if (count > 0) in_all += 1;
  }
  if (in_all > 0) {
    shared_add(totals[0], places);
    shared_add(totals[1], before_it);
    shared_add(totals[2], in_all);
  }
  block_sync();
  const int first = totals[0], runs_before = totals[1], runs_in_all = totals[2];
  const int own = counts[expert];
  if (thread_id() == 0) {
    // Those without rows are behind all others.
    int32_t* run = runs + (own > 0 ? runs_before : runs_in_all + expert - runs_before) * RUN_WORDS;
    run[0] = expert;
    run[1] = first;
    run[2] = own;
  }
  if (own == 0) return;

  // A row has an expert once at most.
  int placed = 0;
  for (int start = 0; start < rows; start += BLOCK) {
    const int row = start + thread_id();
    int pair = -1;
    for (int i = 0; row < rows && i < used; i++) {
      if (ids[row * used + i] == expert) pair = row * used + i;
    }
    is_mine[thread_id()] = pair < 0 ? 0 : 1;
    block_sync();
    int before = 0, here = 0;
    for (int i = 0; i < min_of(BLOCK, rows - start); i++) {
      if (i < thread_id()) before += is_mine[i];
      here += is_mine[i];
    }
    if (pair >= 0) {
      row_of[first + placed + before] = row;
      place_of[pair] = first + placed + before;
    }
    placed += here;
    block_sync();
  }
}
