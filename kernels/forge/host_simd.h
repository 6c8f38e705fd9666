// Wide primitives of the host target: AVX-512 for x86-64-v4, AVX2 for x86-64-v3. One primitive does a whole run of
// elements, because compilers do not turn 16-bit or integer inner loops into good vector code.
#pragma once

#include "cpu.h"

namespace forge {

struct bfloat_t;

#if defined(__AVX512F__)
constexpr int SIMD_WIDTH = 16;
using Vector = __m512;
DEVICE Vector vector_zero() { return _mm512_setzero_ps(); }
DEVICE Vector load_vector(const float* p) { return _mm512_loadu_ps(p); }
DEVICE Vector load_vector(const half_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
DEVICE Vector load_vector(const bfloat_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
DEVICE Vector load_vector(const int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
DEVICE Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
DEVICE Vector add(Vector a, Vector b) { return _mm512_add_ps(a, b); }
DEVICE Vector multiply(Vector a, Vector b) { return _mm512_mul_ps(a, b); }
DEVICE Vector broadcast(float f) { return _mm512_set1_ps(f); }
DEVICE void store_vector(float* p, Vector v) { _mm512_storeu_ps(p, v); }
DEVICE float horizontal_sum(Vector v) { return _mm512_reduce_add_ps(v); }
#else
constexpr int SIMD_WIDTH = 8;
using Vector = __m256;
DEVICE Vector vector_zero() { return _mm256_setzero_ps(); }
DEVICE Vector load_vector(const float* p) { return _mm256_loadu_ps(p); }
DEVICE Vector load_vector(const half_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
DEVICE Vector load_vector(const bfloat_t* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
DEVICE Vector load_vector(const int8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
DEVICE Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
DEVICE Vector add(Vector a, Vector b) { return _mm256_add_ps(a, b); }
DEVICE Vector multiply(Vector a, Vector b) { return _mm256_mul_ps(a, b); }
DEVICE Vector broadcast(float f) { return _mm256_set1_ps(f); }
DEVICE void store_vector(float* p, Vector v) { _mm256_storeu_ps(p, v); }
DEVICE float horizontal_sum(Vector v) {
  __m128 r = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  r = _mm_add_ps(r, _mm_movehl_ps(r, r));
  return _mm_cvtss_f32(_mm_add_ss(r, _mm_movehdup_ps(r)));
}
#endif

}  // namespace forge
