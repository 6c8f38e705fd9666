// embedding_gather: y[t] = table[token of row t]
//
// A row's token is the one the step names, or, where the step says -1, the one its slot last sampled: the next step is
// queued before the host knows that token.
#include "forge/grid_blocks.h"
#include "forge/slot.h"

namespace {
using namespace forge;

DEVICE int token_of(int row, const int32_t* row_token, const int32_t* row_slot, const int32_t* slots, int slot_words) {
  const int token = row_token[row];
  return token >= 0 ? token : slots[static_cast<size_t>(row_slot[row]) * slot_words + SLOT_LAST_TOKEN];
}

// One block a row.
template <class W>
DEVICE void embedding_gather(int row, const W* __restrict table, float* __restrict y,
                             const int32_t* __restrict row_token, const int32_t* __restrict row_slot,
                             const int32_t* __restrict slots, int slot_words, int hidden) {
  const W* source = table + static_cast<size_t>(token_of(row, row_token, row_slot, slots, slot_words)) * hidden;
  float* target = y + static_cast<size_t>(row) * hidden;
  for (int i = thread_id(); i < hidden; i += BLOCK) target[i] = to_float(source[i]);
}

template <class F>
DEVICE void embedding_gather_blocks(int row, const uint8_t* __restrict table, float* __restrict y,
                                    const int32_t* __restrict row_token, const int32_t* __restrict row_slot,
                                    const int32_t* __restrict slots, int slot_words, int hidden) {
  const size_t row_bytes = static_cast<size_t>(hidden / F::ELEMENTS) * F::BYTES;
  const uint8_t* source = table + token_of(row, row_token, row_slot, slots, slot_words) * row_bytes;
  float* target = y + static_cast<size_t>(row) * hidden;
  for (int i = thread_id(); i < hidden; i += BLOCK) target[i] = dequantize<F>(source, i);
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

KERNEL(embedding_gather_bf16, const forge::bfloat_t* __restrict table, float* __restrict y,
       const int32_t* __restrict row_token, const int32_t* __restrict row_slot, const int32_t* __restrict slots,
       int slot_words, int hidden) {
  embedding_gather(BLOCK_INDEX.x, table, y, row_token, row_slot, slots, slot_words, hidden);
}

#define EMBEDDING_GATHER_BLOCKS(name, Format)                                                                        \
  KERNEL(name, const uint8_t* __restrict table, /* [vocabulary, hidden / Format::ELEMENTS], Format */                \
         float* __restrict y, const int32_t* __restrict row_token, const int32_t* __restrict row_slot,               \
         const int32_t* __restrict slots, int slot_words, int hidden) {                                              \
    embedding_gather_blocks<forge::Format>(BLOCK_INDEX.x, table, y, row_token, row_slot, slots, slot_words, hidden); \
  }
#define EMBEDDING_GATHER_FORMAT(type, Name) EMBEDDING_GATHER_BLOCKS(embedding_gather_##type, Block##Name)

FORGE_BLOCK_FORMATS(EMBEDDING_GATHER_FORMAT)
