// attention_tile: causal attention of tiles of prompt rows over the paged KV cache, on matrix units
#include "forge/attention_tile_rows.h"

#define F16(head_dim) ATTENTION_TILE(attention_tile_f16_d##head_dim, forge::half_t, head_dim)

FORGE_TILE_HEAD_DIMS(F16)
