// Combining what attention_split left of each row, split by split, in order, and a head's sink last: a score of its
// own, whose value is zero. Heads without one have LOWEST, which changes no bit.
//
// A few splits are combined by a thread an element. Those of a long context are brought to LDS by all threads of a
// block, and several blocks share a head's elements out. Either way each element is combined in the same order.
#pragma once

#include "attention.h"
#include "words.h"

namespace forge {

// Rows of f32. What else attention may be written as says so by a store_attended of its own, which takes an element,
// and a finish_attended, which all threads of a block call when they have stored the elements first .. end - 1 of a
// row.
struct AttendedRows {
  float* out;
};
DEVICE void store_attended(const AttendedRows& rows, int row, int columns, int element, float value) {
  rows.out[static_cast<size_t>(row) * columns + element] = value;
}

template <class Out>
DEVICE void finish_attended(const Out&, int, int, int, int) {}

// Elements that a block combines at a time, and splits that it brings to LDS for them.
constexpr int COMBINE_WIDTH = BLOCK < 32 ? BLOCK : 32, COMBINE_BATCH = 128;
// Splits of a batch whose largest scores are searched together.
constexpr int COMBINE_GROUP = 16;
// Splits whose values a thread asks for before it combines them.
constexpr int COMBINE_ASKED = 8;

template <class Out>
DEVICE void combine_few(const float* parts, const float* sinks, const Out& out, int row, int first_head, int heads,
                        int head_dim, int splits, int used) {
  const int last_head = min_of(first_head + COMBINE_HEADS, heads);
  for (int i = thread_id(); i < (last_head - first_head) * head_dim; i += BLOCK) {
    const int head = first_head + i / head_dim, e = i % head_dim;
    const float* first = parts + (static_cast<size_t>(row) * heads + head) * splits * (head_dim + 2);
    const float sink = sinks[head];
    Partial<1> total;
    clear(total);
    for (int s = 0; s < used; s += COMBINE_ASKED) {
      Partial<1> next[COMBINE_ASKED];
      UNROLL
      for (int a = 0; a < COMBINE_ASKED; a++) {
        const float* part = first + static_cast<size_t>(min_of(s + a, used - 1)) * (head_dim + 2);
        next[a] = Partial<1>{part[0], part[1], {part[2 + e]}};
      }
      UNROLL
      for (int a = 0; a < COMBINE_ASKED; a++) {
        if (s + a < used) combine(total, next[a]);
      }
    }
    if (sink == LOWEST) {
      // As combining it would leave them: none is -0.
      total.values[0] += 0.0f;
    } else {
      combine(total, Partial<1>{sink, 1.0f, {0.0f}});
    }
    store_attended(out, row, heads * head_dim, head * head_dim + e, total.values[0] * inverse_of(total.sum));
  }
  finish_attended(out, row, heads * head_dim, first_head * head_dim, last_head * head_dim);
}

// The elements element .. element + COMBINE_WIDTH - 1 of a head: all threads of a block together.
template <class Out>
DEVICE void combine_shared(const float* first, float sink, const Out& out, int row, int columns, int head, int element,
                           int head_dim, int used) {
  // Pairs of splits that a thread holds an element of.
  constexpr int HELD = COMBINE_BATCH / 2 * COMBINE_WIDTH / BLOCK;
  SHARED(float, largest, COMBINE_BATCH);
  SHARED(float, sums, COMBINE_BATCH);
  SHARED(float, largest_yet, COMBINE_BATCH);  // of the splits of a group up to each
  SHARED(float, next_factors, COMBINE_BATCH);
  // Factors of each step of the combine, and its additions to the sum and to the values.
  SHARED(Floats2, terms, COMBINE_BATCH);
  SHARED(Floats2, values, (COMBINE_BATCH / 2 * COMBINE_WIDTH));
  const int width = min_of(COMBINE_WIDTH, head_dim - element), e = thread_id();
  float most = LOWEST, sum = 0.0f, total = 0.0f;
  for (int s = 0; s < used; s += COMBINE_BATCH) {
    const int count = min_of(COMBINE_BATCH, used - s);
    const auto part = [&](int t) { return first + static_cast<size_t>(s + min_of(t, count - 1)) * (head_dim + 2); };
    Floats2 held[HELD];
    UNROLL
    for (int h = 0; h < HELD; h++) {
      const int i = thread_id() + h * BLOCK, at = 2 + element + min_of(i % COMBINE_WIDTH, width - 1);
      held[h] = Floats2{{part(i / COMBINE_WIDTH * 2)[at], part(i / COMBINE_WIDTH * 2 + 1)[at]}};
    }
    for (int t = thread_id(); t < COMBINE_BATCH; t += BLOCK) {
      largest[t] = part(t)[0];
      sums[t] = part(t)[1];
    }
    block_sync();
    // The largest of all before a split is what combining them in order would have left: that of the groups before its
    // own, and of its own group. A maximum is the same in any order.
    for (int t = thread_id(); t < count; t += BLOCK) {
      float yet = largest[t];
      UNROLL
      for (int back = 1; back < COMBINE_GROUP; back++) {
        if (back <= t % COMBINE_GROUP) yet = larger_of(yet, largest[t - back]);
      }
      largest_yet[t] = yet;
    }
    block_sync();
    const auto largest_before = [&](int t) {
      float before = t % COMBINE_GROUP == 0 ? most : larger_of(most, largest_yet[t - 1]);
      UNROLL
      for (int group = 1; group <= COMBINE_BATCH / COMBINE_GROUP; group++) {
        if (group <= t / COMBINE_GROUP) before = larger_of(before, largest_yet[group * COMBINE_GROUP - 1]);
      }
      return before;
    };
    for (int t = thread_id(); t < count; t += BLOCK) {
      const float before = largest_before(t), next = largest[t], now = larger_of(before, next);
      const float next_factor = exp_of(next - now);
      next_factors[t] = next_factor;
      terms[t] = Floats2{{exp_of(before - now), sums[t] * next_factor}};
    }
    most = largest_before(count);
    block_sync();
    UNROLL
    for (int h = 0; h < HELD; h++) {
      const int i = thread_id() + h * BLOCK, t = i / COMBINE_WIDTH * 2;
      if (t >= count) continue;
      const float second = t + 1 < count ? held[h].f[1] * next_factors[t + 1] : 0.0f;
      values[i] = Floats2{{held[h].f[0] * next_factors[t], second}};
    }
    block_sync();
    if (e < width) {
      for (int t = 0; t < count; t += COMBINE_ASKED) {
        Floats2 asked[COMBINE_ASKED / 2], asked_terms[COMBINE_ASKED];
        UNROLL
        for (int a = 0; a < COMBINE_ASKED; a++) {
          const int at = min_of(t + a, count - 1);
          asked_terms[a] = terms[at];
          if (a % 2 == 0) asked[a / 2] = values[at / 2 * COMBINE_WIDTH + e];
        }
        UNROLL
        for (int a = 0; a < COMBINE_ASKED; a++) {
          if (t + a < count) {
            total = multiply_add(total, asked_terms[a].f[0], asked[a / 2].f[a % 2]);
            sum = multiply_add(sum, asked_terms[a].f[0], asked_terms[a].f[1]);
          }
        }
      }
    }
    block_sync();
  }
  // The sink last, as one split more.
  const float highest = larger_of(most, sink), factor = exp_of(most - highest), sink_factor = exp_of(sink - highest);
  total = multiply_add(total, factor, 0.0f * sink_factor);
  sum = multiply_add(sum, factor, sink_factor);
  const int place = head * head_dim + element;
  if (e < width) store_attended(out, row, columns, place + e, total * inverse_of(sum));
  finish_attended(out, row, columns, place, place + width);
}

// Block x: COMBINE_HEADS of the heads; y: the row; z: of the blocks that share those heads.
template <class Out>
DEVICE void attention_combine(Dim3 block, const float* parts, const float* sinks, const Out& out,
                              const int32_t* row_position, int heads, int head_dim, int splits, int window) {
  const int row = block.y, used = splits_attended(row_position[row], window), first_head = block.x * COMBINE_HEADS;
  const bool is_few = used <= COMBINE_FEW;
  // Blocks that share the heads; where strips are an element each one block takes them all, in order.
  const int blocks =
      is_few || COMBINE_WIDTH == 1 ? 1 : min_of((used + COMBINE_SPLITS - 1) / COMBINE_SPLITS, COMBINE_BLOCKS);
  if (block.z >= blocks) return;
  if (is_few) {
    combine_few(parts, sinks, out, row, first_head, heads, head_dim, splits, used);
    return;
  }
  const int strips = (head_dim + COMBINE_WIDTH - 1) / COMBINE_WIDTH;
  for (int i = block.z; i < strips * min_of(COMBINE_HEADS, heads - first_head); i += blocks) {
    const int head = first_head + i / strips;
    const size_t place = static_cast<size_t>(row) * heads + head;
    combine_shared(parts + place * splits * (head_dim + 2), sinks[head], out, row, heads * head_dim, head,
                   i % strips * COMBINE_WIDTH, head_dim, used);
  }
}

}  // namespace forge
