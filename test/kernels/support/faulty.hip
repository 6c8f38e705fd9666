// Kernels with one mistake each, which the lanes target must find. Never built with the product.
#include "forge/reduce.h"
#include "forge/tile.h"

namespace {
using namespace forge;
}

// No mistake: each thread's right neighbour's number.
KERNEL(faultless, float* __restrict out) {
  SHARED(float, parts, BLOCK);
  parts[thread_id()] = static_cast<float>(thread_id());
  block_sync();
  out[thread_id()] = parts[(thread_id() + 1) % BLOCK];
}

KERNEL(no_barrier, float* __restrict out) {
  SHARED(float, parts, BLOCK);
  parts[thread_id()] = static_cast<float>(thread_id());
  out[thread_id()] = parts[(thread_id() + 1) % BLOCK];
}

KERNEL(no_barrier_before_reuse, float* __restrict out) {
  SHARED(float, parts, BLOCK);
  parts[thread_id()] = static_cast<float>(thread_id());
  block_sync();
  out[thread_id()] = parts[(thread_id() + 1) % BLOCK];
  parts[thread_id()] = 0.0f;
}

KERNEL(two_writers, float* __restrict out) {
  SHARED(float, parts, 1);
  parts[0] = 1.0f;
  block_sync();
  out[thread_id()] = parts[0];
}

KERNEL(add_beside_write, float* __restrict out) {
  SHARED(int, parts, 1);
  if (thread_id() == 0) parts[0] = 0;
  shared_add(parts[0], 1);
  block_sync();
  out[thread_id()] = static_cast<float>(parts[0]);
}

KERNEL(leaves_before_barrier, float* __restrict out) {
  if (thread_id() >= 100) return;
  block_sync();
  out[thread_id()] = 1.0f;
}

KERNEL(two_barriers, float* __restrict out) {
  if (thread_id() < 100) {
    out[thread_id()] = 1.0f;
    block_sync();
  } else {
    out[thread_id()] = 2.0f;
    block_sync();
  }
}

KERNEL(half_a_wave_shuffles, float* __restrict out) {
  float value = 1.0f;
  if (lane_id() < WAVE / 2) value = wave_sum(value);
  out[thread_id()] = value;
}

KERNEL(shuffle_masks_differ, float* __restrict out) {
  out[thread_id()] = shuffle_xor(1.0f, lane_id() < WAVE / 2 ? 1 : 2);
}

KERNEL(shuffle_leaves_the_wave, float* __restrict out) { out[thread_id()] = shuffle_xor(1.0f, WAVE); }

KERNEL(half_a_wave_multiplies, float* __restrict out) {
  TileSum sums[1][1];
  Fragment<half_t> a[1] = {}, b[1] = {};
  clear(sums[0][0]);
  if (lane_id() < WAVE / 2) multiply_tiles(sums, a, b);
  out[thread_id()] = sums[0][0].values[0];
}

KERNEL(multiplies_at_two_places, float* __restrict out) {
  TileSum sums[1][1];
  Fragment<half_t> a[1] = {}, b[1] = {};
  clear(sums[0][0]);
  if (lane_id() < WAVE / 2) {
    multiply_tiles(sums, a, b);
  } else {
    multiply_tiles(sums, a, b);
  }
  out[thread_id()] = sums[0][0].values[0];
}

KERNEL(past_the_end, float* __restrict out) {
  SHARED(float, parts, BLOCK - 1);
  parts[thread_id()] = 1.0f;
  block_sync();
  out[thread_id()] = parts[0];
}

KERNEL(too_much, float* __restrict out) {
  SHARED(float, parts, 17000);
  parts[thread_id()] = 1.0f;
  out[thread_id()] = parts[thread_id()];
}

// No error, but what was never written is NaN.
KERNEL(reads_unwritten, float* __restrict out) {
  SHARED(float, parts, BLOCK);
  out[thread_id()] = parts[thread_id()];
}
