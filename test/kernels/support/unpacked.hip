// Operands of lanes for Hopper's matrix instructions, as numbers: pack_fragments and the unpacking of forge/hopper/fragments.h,
// which no test machine's processor runs, one after the other. Never built with the product.
#include "hopper/pack_fragments.hip"

namespace {
using namespace forge;

// A thread a lane of a unit, as pack_units has them; y has all rows of groups and all elements of chunks.
template <class F>
DEVICE void unpack_units(int block, const uint8_t* weight, float* y, int out, int in) {
  pack_units<F>(block, const_cast<uint8_t*>(weight), nullptr, out, in, [&](const Where& at, uint8_t* unit) {
    UnitFragments fragments;
    F::unpack(fragments, F::load(lane_unit<F>(unit, at.lane), [](const uint8_t* p, auto type) {
      return load_aligned<decltype(type)>(p);
    }));
    const int stride = (in + CHUNK - 1) / CHUNK * CHUNK;
    for (int i = 0; i < STEPS * 8; i++) {
      const int s = i / 8, a = i % 8 / 2, e = i % 2;
      const half_t half{static_cast<uint16_t>(fragments.parts[s][a] >> (16 * e))};
      y[static_cast<size_t>(row_of(at, a)) * stride + element_of(at, s, a) + e] = to_float(half) * F::SCALE;
    }
  });
}
}  // namespace

#define UNPACKED(suffix, Format)                                                                  \
  KERNEL(unpacked_##suffix, const uint8_t* __restrict weight, /* [tiles, chunks, 4, unit_bytes] */ \
         float* __restrict y,                                 /* [tiles * 64, chunks * CHUNK] */   \
         int out, int in) {                                                                       \
    unpack_units<Format>(BLOCK_INDEX.x, weight, y, out, in);                                      \
  }

UNPACKED(f16, Floats<half_t>)
UNPACKED(q2, Quant2)
UNPACKED(q3, Quant3)
UNPACKED(q4, Quant4)
UNPACKED(q5, Quant5)
UNPACKED(q6, Quant6)
UNPACKED(q8, Quant8)
UNPACKED(iq4, Levels4)
