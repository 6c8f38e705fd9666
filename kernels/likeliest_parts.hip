// likeliest_parts: the likeliest tokens of each part of each sampled row whose slot asks for log probabilities
//
// For log_softmax_merge; one block alone would look through the whole vocabulary for each of them.
#include "forge/log_softmax.h"
#include "forge/sampling.h"

// Grid: x = SAMPLE_PARTS, y = samples.
KERNEL(likeliest_parts, const float* __restrict logits,  // [samples, vocabulary]
       const int32_t* __restrict sample_row,             // [samples]
       const int32_t* __restrict row_slot,               // [tokens]
       const int32_t* __restrict slots,                  // [slots, slot_words]
       int32_t* __restrict likeliest,                    // [samples, SAMPLE_PARTS, top_max], ids, likeliest first
       int slot_words, int top_max, int vocabulary) {
  using namespace forge;
  const int part = BLOCK_INDEX.x, sample = BLOCK_INDEX.y;
  const int wanted = slots[static_cast<size_t>(row_slot[sample_row[sample]]) * slot_words + SLOT_LOGPROBS] - 1;
  if (wanted <= 0) return;

  const float* l = logits + static_cast<size_t>(sample) * vocabulary;
  int32_t* ids = likeliest + (static_cast<size_t>(sample) * SAMPLE_PARTS + part) * top_max;
  const PartRange range = part_range(part, vocabulary);
  const int count = range.end - range.first, most = min_of(wanted, top_max);
  const auto element = [&](int i) { return Indexed{l[range.first + i], range.first + i}; };
  const auto store = [&](int n, const Indexed& best) { ids[n] = best.index; };
  // Elements that a thread holds; a part of more is looked through anew for each of its likeliest.
  constexpr int FEW = 8, HELD = 16;
  if (count <= FEW * BLOCK) {
    likeliest_held<FEW>(count, most, element, store);
  } else if (count <= HELD * BLOCK) {
    likeliest_held<HELD>(count, most, element, store);
  } else {
    likeliest_of(count, most, element, store);
  }
}
