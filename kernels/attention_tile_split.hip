// attention_tile_split: attention of each row over one split of its context on matrix units, for attention_combine to
// combine
#include "forge/attention_tile_splits.h"

#define F16(head_dim) ATTENTION_TILE_SPLIT(attention_tile_split_f16_d##head_dim, forge::half_t, head_dim)

FORGE_TILE_HEAD_DIMS(F16)
