// gate_up_swiglu_tile_few: gate_up_swiglu_tile in the form for few tokens, where two launches are faster
#include "forge/gate_up_tile.h"

using namespace forge;

#define GATE_UP_SWIGLU_TILE_FEW(suffix, type) \
  GATE_UP_SWIGLU_TILE(gate_up_swiglu_tile_few_##suffix, 1, type, (linear_few<2, 1, 8>), TILE_FEW_ROWS, TILE_FEW_TOKENS)

GATE_UP_SWIGLU_TILE_FEW(f16, half_t)
GATE_UP_SWIGLU_TILE_FEW(bf16, bfloat_t)
