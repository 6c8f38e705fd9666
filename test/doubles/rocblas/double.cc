// The part of rocBLAS that bench kernels calls, on the memory of the tests' own HIP device, whose addresses are the host's.
#include <cstdint>
#include <cstring>

namespace {

float from_half(uint16_t bits) {
  _Float16 value;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<float>(value);
}

constexpr int NONE = 111, TRANSPOSE = 112, F16 = 150, F32 = 151;

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int rocblas_create_handle(void** handle) {
  *handle = new int(0);
  return 0;
}
EXPORT int rocblas_destroy_handle(void* handle) {
  delete static_cast<int*>(handle);
  return 0;
}
EXPORT int rocblas_set_stream(void*, void*) { return 0; }

// Column-major, as the library is: d[m, n] = op(a)[m, k] · op(b)[k, n].
EXPORT int rocblas_gemm_ex(void*, int op_a, int op_b, int m, int n, int k, const float* alpha, const uint16_t* a,
                           int a_type, int lda, const uint16_t* b, int b_type, int ldb, const float* beta, const float*,
                           int, int, float* d, int d_type, int ldd, int compute_type, int, int, unsigned) {
  if (a_type != F16 || b_type != F16 || d_type != F32 || compute_type != F32 || *beta != 0.0f) return 1;
  for (int j = 0; j < n; j++) {
    for (int i = 0; i < m; i++) {
      float sum = 0.0f;
      for (int l = 0; l < k; l++) {
        const uint16_t x = op_a == TRANSPOSE ? a[l + static_cast<int64_t>(i) * lda] : a[i + static_cast<int64_t>(l) * lda];
        const uint16_t y = op_b == NONE ? b[l + static_cast<int64_t>(j) * ldb] : b[j + static_cast<int64_t>(l) * ldb];
        sum += from_half(x) * from_half(y);
      }
      d[i + static_cast<int64_t>(j) * ldd] = *alpha * sum;
    }
  }
  return 0;
}
