// attention_tile_split_q8_0: attention_tile_split over a cache in q8_0
#include "forge/attention_tile_splits.h"

#define Q8_0(head_dim) ATTENTION_TILE_SPLIT(attention_tile_split_q8_0_d##head_dim, forge::KvQ8, head_dim)

FORGE_TILE_Q8_HEAD_DIMS(Q8_0)
