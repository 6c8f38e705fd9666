// A slot: the executor's memory of one sequence, on the device. An array of int32 words a slot: the fields below, then
// the block table. The executor writes it only through slot_write; sample and sample_pick alone write SLOT_LAST_TOKEN.
// src/executor/model/slot-layout.ts holds the same numbers, and a test holds the two together.
#pragma once

#include "device.h"

namespace forge {

enum SlotWord {
  SLOT_LAST_TOKEN = 0,
  SLOT_TEMPERATURE = 1,  // f32 bits; 0: argmax
  SLOT_TOP_K = 2,        // 0: all
  SLOT_TYPICAL_P = 3,    // f32 bits; 1: all
  SLOT_TOP_P = 4,        // f32 bits; 1: all
  SLOT_MIN_P = 5,        // f32 bits; 0: all
  SLOT_SEED = 6,         // two words, the lower first
  SLOT_SAMPLE_INDEX = 8,
  SLOT_LOGPROBS = 9,             // 0: none; n + 1: the sampled token's and the n likeliest
  SLOT_REPETITION_PENALTY = 10,  // f32 bits; 1: no penalty
  SLOT_FREQUENCY_PENALTY = 11,   // f32 bits; 0: no penalty
  SLOT_PRESENCE_PENALTY = 12,    // f32 bits; 0: no penalty
  SLOT_BLOCK_TABLE = 16,
};

// Set in the token of an output row that no token could be drawn for: its logits hold NaN, or none of them is finite.
// The other bits are token 0 then, which the slot's next position is computed from although nobody will want it.
constexpr int32_t OUTPUT_NON_FINITE = static_cast<int32_t>(0x80000000u);

// Tokens a KV block holds.
constexpr int KV_BLOCK_TOKENS = 16;

// Where token `position` of a slot lies for one head: [blocks, kv_heads, KV_BLOCK_TOKENS, head_dim].
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
