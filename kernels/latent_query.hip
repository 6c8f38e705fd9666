// latent_query: of each head of q its plain part, heads first, and its rotated part, behind where the other's product
// with the head's key matrix goes
//
// Multi-head latent attention in its absorbed form: DeepSeek-V2 (2024).
#include "forge/rope.h"

// Grid: x = heads, y = rows.
KERNEL(latent_query, const float* __restrict query,  // [rows, heads, plain + rotary]
       const float* __restrict cosine,               // [max_position, rotary / 2]
       const float* __restrict sine,                 // the same
       const int32_t* __restrict row_position,       // [rows]
       const int32_t* __restrict tokens,             // [1]
       float* __restrict plain_parts,                // [heads, tokens, plain]
       float* __restrict absorbed,                   // [rows, heads + 2, latent + rotary]
       int heads, int plain, int latent, int rotary, int adjacent) {
  using namespace forge;
  const int head = BLOCK_INDEX.x, row = BLOCK_INDEX.y;
  const float* own = query + (static_cast<size_t>(row) * heads + head) * (plain + rotary);
  float* to = plain_parts + (static_cast<size_t>(head) * *tokens + row) * plain;
  for (int i = thread_id(); i < plain; i += BLOCK) to[i] = own[i];
  const size_t angles = static_cast<size_t>(row_position[row]) * (rotary / 2);
  float* rotated = absorbed + (static_cast<size_t>(row) * (heads + 2) + head) * (latent + rotary) + latent;
  rotate(own + plain, rotated, cosine + angles, sine + angles, rotary, rotary, adjacent);
}
