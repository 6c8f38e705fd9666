// attention_tile_split, and attention_combine of the heads of a block by the last of their blocks to end. In the order
// of the splits, whoever is last: the bits are those of the two launches.
//
// One block combines what attention_combine has many for: for contexts of so many splits that it takes less time than
// another launch (COMBINED_SPLITS).
#pragma once

#include "attention_tile_splits.h"
#include "last_block.h"
#include "quantize.h"

namespace forge {

// Splits of all heads together of which the factors are known at a time, and those whose largest are looked for
// together.
constexpr int COMBINED = 128, LARGEST_GROUP = 8;
static_assert(COMBINED >= TILE * LARGEST_GROUP, "a group of each head");
// Splits whose values a thread asks for at a time.
constexpr int COMBINED_ASKED = 16;

// Destinations of heads, in the encoding that the next product takes. A thread has HELD neighbouring elements.
struct CombinedQuants {
  static constexpr int HELD = Q8_HELD;
  uint8_t* out;
};
DEVICE void store_combined(const CombinedQuants& to, int row, int columns, int element, const float (&values)[Q8_HELD],
                           bool stores) {
  quantize_block(values, to.out + row * q8_row_bytes(columns), columns, element / Q8_BLOCK, stores);
}
// Averages of values that f16 holds are in its range.
template <class T>
struct CombinedHalves {
  static constexpr int HELD = Q8_HELD;
  T* out;
};
template <class T>
DEVICE void store_combined(const CombinedHalves<T>& to, int row, int columns, int element,
                           const float (&values)[Q8_HELD], bool stores) {
  struct alignas(8) Halves {
    T values[Q8_HELD];
  } halves;
  UNROLL
  for (int i = 0; i < Q8_HELD; i++) store(halves.values + i, values[i]);
  if (stores) store_aligned(to.out + static_cast<size_t>(row) * columns + element, halves);
}

// Combines `count` heads of a row from first_head on: all threads of a block together.
template <int HEAD_DIM, class To>
DEVICE void combine_heads(const To& to, const float* parts, int row, int first_head, int count, int heads, int splits,
                          int used, const float* sinks) {
  constexpr int HELD = To::HELD, OWNERS = HEAD_DIM / HELD;  // threads of a head
  SHARED(float, largest, COMBINED);
  SHARED(float, sums, COMBINED);
  SHARED(float, largest_yet, COMBINED);  // of the splits of a group up to each
  // Factors and additions of each step of the combine, and its addition to the sum.
  SHARED(Floats2, factors, COMBINED);
  SHARED(float, terms, COMBINED);
  SHARED(float, most, TILE);  // of a head's splits before these
  const int turn = COMBINED / count / LARGEST_GROUP * LARGEST_GROUP, groups = turn / LARGEST_GROUP;
  const float* first = parts + (static_cast<size_t>(row) * heads + first_head) * splits * (HEAD_DIM + 2);
  const auto part = [&](int head, int split) {
    return first + static_cast<size_t>(head * splits + split) * (HEAD_DIM + 2);
  };
  for (int from = 0; from < count * OWNERS; from += BLOCK) {
    // Threads past the last head take part in barriers and shuffles.
    const int owner = min_of(from + thread_id(), count * OWNERS - 1);
    const int head = owner / OWNERS, e = owner % OWNERS * HELD;
    float total[HELD], sum = 0.0f;
    UNROLL
    for (int i = 0; i < HELD; i++) total[i] = 0.0f;
    for (int i = thread_id(); i < count; i += BLOCK) most[i] = LOWEST;
    for (int s = 0; s < used; s += turn) {
      const int here = min_of(turn, used - s);
      Floats2 asked[COMBINED_ASKED][HELD / 2];
      const auto ask = [&](int t) {
        UNROLL
        for (int a = 0; a < COMBINED_ASKED; a++) {
          const float* values = part(head, s + min_of(t + a, here - 1)) + 2 + e;
          UNROLL
          for (int i = 0; i < HELD / 2; i++) asked[a][i] = load_aligned<Floats2>(values + 2 * i);
        }
      };
      ask(0);
      // Behind the last split stands the last, which no maximum minds.
      for (int i = thread_id(); i < count * turn; i += BLOCK) {
        const auto known = load_aligned<Floats2>(part(i / turn, s + min_of(i % turn, here - 1)));
        largest[i] = known.f[0];
        sums[i] = known.f[1];
      }
      block_sync();
      // The largest of all before a split is what combining them in order would have left: that of the groups before
      // its own, and of its own group. A maximum is the same in any order.
      for (int i = thread_id(); i < count * turn; i += BLOCK) {
        float yet = largest[i];
        UNROLL
        for (int back = 1; back < LARGEST_GROUP; back++) {
          if (back <= i % LARGEST_GROUP) yet = larger_of(yet, largest[i - back]);
        }
        largest_yet[i] = yet;
      }
      block_sync();
      const auto largest_of = [&](int of, int before) {
        float yet = most[of];
        for (int g = 0; g < before; g++) yet = larger_of(yet, largest_yet[of * turn + (g + 1) * LARGEST_GROUP - 1]);
        return yet;
      };
      for (int i = thread_id(); i < count * turn; i += BLOCK) {
        float before = largest_of(i / turn, i % turn / LARGEST_GROUP);
        if (i % LARGEST_GROUP > 0) before = larger_of(before, largest_yet[i - 1]);
        const float next = largest[i], now = larger_of(before, next), factor = exp_of(next - now);
        factors[i] = Floats2{{exp_of(before - now), factor}};
        terms[i] = sums[i] * factor;
      }
      block_sync();
      for (int i = thread_id(); i < count; i += BLOCK) most[i] = largest_of(i, groups);
      for (int t = 0; t < here; t += COMBINED_ASKED) {
        if (t > 0) ask(t);
        UNROLL
        for (int a = 0; a < COMBINED_ASKED; a++) {
          if (t + a >= here) continue;
          const Floats2 by = factors[head * turn + t + a];
          sum = multiply_add(sum, by.f[0], terms[head * turn + t + a]);
          UNROLL
          for (int i = 0; i < HELD; i++) total[i] = multiply_add(total[i], by.f[0], asked[a][i / 2].f[i % 2] * by.f[1]);
        }
      }
    }
    // The sink last, as one split more.
    block_sync();
    const float before = most[head], now = larger_of(before, sinks[first_head + head]);
    const Floats2 by{{exp_of(before - now), exp_of(sinks[first_head + head] - now)}};
    sum = multiply_add(sum, by.f[0], by.f[1]);
    const float inverse = inverse_of(sum);
    float values[HELD];
    UNROLL
    for (int i = 0; i < HELD; i++) values[i] = multiply_add(total[i], by.f[0], 0.0f * by.f[1]) * inverse;
    store_combined(to, row, heads * HEAD_DIM, first_head * HEAD_DIM + owner * HELD, values,
                   from + thread_id() == owner);
    // Before the next heads' turn.
    block_sync();
  }
}

// Parts that the last block combines.
template <class To>
struct CombinedParts {
  static constexpr bool IS_WHOLE = false;
  float* parts;
  int splits;
  int32_t* arrivals;  // [tokens, KV heads * tiles of their query heads]: 0 between launches
  To to;
  const float* sinks;  // [heads]
};
template <int HEAD_DIM, class To>
DEVICE void finish_split(const CombinedParts<To>& out, const SplitPlace& at, int heads) {
  if (!is_last_block(out.arrivals + at.group, at.splits)) return;
  combine_heads<HEAD_DIM>(out.to, out.parts, at.row, at.first_head, at.count, heads, out.splits, at.splits, out.sinks);
}

}  // namespace forge
