// A slot: the executor's memory of one sequence, on the device. An array of int32 words a slot: SlotWord, then
// the block table. The executor writes it only through slot_write; sample and sample_pick alone write SLOT_LAST_TOKEN,
// which is token 0 where none could be drawn: the next position is computed from it although nobody will want it.
#pragma once

#include "contract.h"
#include "device.h"

namespace forge {

// Address of token `position` of a slot for one head: [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim].
DEVICE size_t kv_offset(const int32_t* block_table, int position, int kv_heads, int kv_head, int head_dim) {
  const size_t block = block_table[position / KV_BLOCK_TOKENS];
  return ((block * kv_heads + kv_head) * KV_BLOCK_TOKENS + position % KV_BLOCK_TOKENS) * head_dim;
}

// The block table of a row's slot.
DEVICE const int32_t* block_table_of(const int32_t* slots, int slot, int slot_words) {
  return slots + static_cast<size_t>(slot) * slot_words + SLOT_BLOCK_TABLE;
}

DEVICE float as_float(int word) {
  float value;
  __builtin_memcpy(&value, &word, 4);
  return value;
}

}  // namespace forge
