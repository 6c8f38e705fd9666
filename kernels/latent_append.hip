// latent_append: norms the latent part of each row, rotates what follows it, and stores both as the row's key
//
// Multi-head latent attention in its absorbed form: DeepSeek-V2 (2024). All heads share one key, [latent | rotary],
// whose first part is the value, too. The row is changed in place.
#include "forge/kv_q8.h"
#include "forge/norm.h"
#include "forge/rope.h"

namespace {
using namespace forge;

template <class T>
DEVICE void store_key(T* cache, const int32_t* block_table, int position, const float* key, int width) {
  T* target = cache + kv_offset(block_table, position, 1, 0, width);
  for (int i = thread_id(); i < width; i += BLOCK) store(target + i, key[i]);
}
DEVICE void store_key(KvQ8* cache, const int32_t* block_table, int position, const float* key, int width) {
  store_kv_q8(cache + kv_q8_offset(block_table, position, 1, 0, width), position % KV_BLOCK_TOKENS, key, width);
}

// Grid: x = tokens.
template <class T>
DEVICE void latent_append(int row, float* x, const float* __restrict weight, T* __restrict cache,
                          const float* __restrict cosine, const float* __restrict sine,
                          const int32_t* __restrict row_position, const int32_t* __restrict row_slot,
                          const int32_t* __restrict slots, int slot_words, int latent, int rotary, int adjacent,
                          float eps) {
  const int width = latent + rotary, position = row_position[row];
  float* key = x + static_cast<size_t>(row) * width;
  const float scale = inv_rms(key, latent, eps);
  SIMD
  for (int i = thread_id(); i < latent; i += BLOCK) key[i] = key[i] * scale * weight[i];
  const size_t angles = static_cast<size_t>(position) * (rotary / 2);
  rotate(key + latent, key + latent, cosine + angles, sine + angles, rotary, rotary, adjacent);
  block_sync();
  store_key(cache, block_table_of(slots, row_slot[row], slot_words), position, key, width);
}
}  // namespace

#define LATENT_APPEND(name, type)                                                                                   \
  KERNEL(name, float* x,                 /* [tokens, latent + rotary] */                                            \
         const float* __restrict weight, /* [latent] */                                                             \
         type* __restrict cache,         /* [blocks, 1, KV_BLOCK_TOKENS, latent + rotary]; q8_0: kv_q8.h */         \
         const float* __restrict cosine, /* [max_position, rotary / 2] */                                           \
         const float* __restrict sine,   /* the same */                                                             \
         const int32_t* __restrict row_position, const int32_t* __restrict row_slot, /* [tokens] */                 \
         const int32_t* __restrict slots,                                            /* [slots, slot_words] */      \
         int slot_words, int latent, int rotary, int adjacent, float eps) {                                         \
    latent_append(BLOCK_INDEX.x, x, weight, cache, cosine, sine, row_position, row_slot, slots, slot_words, latent, \
                  rotary, adjacent, eps);                                                                           \
  }

LATENT_APPEND(latent_append_f32, float)
LATENT_APPEND(latent_append_f16, forge::half_t)
LATENT_APPEND(latent_append_q8_0, forge::KvQ8)
