// gate_up_swiglu_tile: y[t][n] = silu(gate[n] · x[t]) * (up[n] · x[t]), in 16 bits
//
// Rounded to what the down projection takes.
#include "forge/gate_up_tile.h"

using namespace forge;

#define GATE_UP_SWIGLU_TILES(suffix, type)                                                                   \
  GATE_UP_SWIGLU_TILE(gate_up_swiglu_tile_some_##suffix, 1, type, (linear_few<2, 4, 4>), TILE_SOME_ROWS / 2, \
                      TILE_SOME_TOKENS)                                                                      \
  GATE_UP_SWIGLU_TILE(gate_up_swiglu_tile_##suffix, FETCH_BLOCKS, type, linear_many, MANY_ROWS / 2, MANY_TOKENS)

GATE_UP_SWIGLU_TILES(f16, half_t)
GATE_UP_SWIGLU_TILES(bf16, bfloat_t)
