// small_gemm: c = a b, for matrices of any, small, size
//
// Row-major, b not transposed. Each element is one sum over k in rising order.
#include "forge/device.h"

// One thread an element of c.
KERNEL(small_gemm, const float* __restrict a,  // [m, k]
       const float* __restrict b,              // [k, n]
       float* __restrict c,                    // [m, n]
       int m, int n, int k) {
  const int i = BLOCK_INDEX.x * BLOCK + forge::thread_id();
  if (i >= m * n) return;
  const float* row = a + static_cast<size_t>(i / n) * k;
  const float* column = b + i % n;
  float sum = 0.0f;
  for (int j = 0; j < k; j++) sum += row[j] * column[static_cast<size_t>(j) * n];
  c[i] = sum;
}
