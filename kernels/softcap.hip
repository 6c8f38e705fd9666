// softcap: x = cap * tanh(x / cap)
#include "forge/scores.h"

KERNEL(softcap, float* __restrict x,  // [rows, columns]
       int columns, float cap) {
  forge::softcap_part(BLOCK_INDEX, x, columns, cap);
}
