// A slot: the executor's memory of one sequence, on the device. An array of int32 words a slot: the fields below, then
// the block table. The executor writes it only through slot_write; sample.hip alone writes SLOT_LAST_TOKEN.
// src/executor/model/slot-layout.ts holds the same numbers, and a test holds the two together.
#pragma once

#include "device.h"

namespace forge {

enum SlotWord {
  SLOT_LAST_TOKEN = 0,
  SLOT_TEMPERATURE = 1,  // f32 bits; 0: argmax
  SLOT_TOP_K = 2,        // 0: all
  SLOT_TOP_P = 3,        // f32 bits; 1: all
  SLOT_MIN_P = 4,        // f32 bits; 0: all
  SLOT_SEED_LOW = 5,
  SLOT_SEED_HIGH = 6,
  SLOT_SAMPLE_INDEX = 7,
  SLOT_LOGPROBS = 8,  // 0: none; n + 1: the sampled token's and the n likeliest
  SLOT_BLOCK_TABLE = 16,
};

// Tokens a KV block holds.
constexpr int KV_BLOCK_TOKENS = 16;

DEVICE float as_float(int word) {
  float value;
  __builtin_memcpy(&value, &word, 4);
  return value;
}

}  // namespace forge
