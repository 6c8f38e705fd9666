// embedding_gather: y[t] = table[token of row t]
//
// A row's token is the one the step names, or, where the step says -1, the one its slot last sampled: the next step is
// queued before the host knows that token.
#include "forge/dot.h"
#include "forge/slot.h"

namespace {
using namespace forge;

// One block a row.
template <class W>
DEVICE void embedding_gather(int row, const W* __restrict table, float* __restrict y,
                             const int32_t* __restrict row_token, const int32_t* __restrict row_slot,
                             const int32_t* __restrict slots, int slot_words, int hidden) {
  int token = row_token[row];
  if (token < 0) token = slots[static_cast<size_t>(row_slot[row]) * slot_words + SLOT_LAST_TOKEN];
  const W* source = table + static_cast<size_t>(token) * hidden;
  float* target = y + static_cast<size_t>(row) * hidden;
  for (int i = thread_id(); i < hidden; i += BLOCK) target[i] = to_float(source[i]);
}
}  // namespace

KERNEL(embedding_gather_f32, const float* __restrict table,  // [vocabulary, hidden]
       float* __restrict y,                                  // [tokens, hidden]
       const int32_t* __restrict row_token,                  // [tokens], -1: the slot's last sample
       const int32_t* __restrict row_slot,                   // [tokens]
       const int32_t* __restrict slots,                      // [slots, slot_words]
       int slot_words, int hidden) {
  embedding_gather(BLOCK_INDEX.x, table, y, row_token, row_slot, slots, slot_words, hidden);
}

KERNEL(embedding_gather_f16, const forge::half_t* __restrict table, float* __restrict y,
       const int32_t* __restrict row_token, const int32_t* __restrict row_slot, const int32_t* __restrict slots,
       int slot_words, int hidden) {
  embedding_gather(BLOCK_INDEX.x, table, y, row_token, row_slot, slots, slot_words, hidden);
}
