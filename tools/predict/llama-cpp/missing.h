// Declarations that llama.cpp's HIP sources take from ROCm and that Debian's libamdhip64-dev 5.2.3 and clang without device
// libraries lack, as far as kernels of one token use it. Functions of the device libraries are AMD's own instructions where one
// does it.
#pragma once
#include <hip/hip_fp16.h>

typedef void *hipblasHandle_t;
typedef int hipblasStatus_t, hipblasOperation_t, hipblasDatatype_t;
enum { HIPBLAS_STATUS_SUCCESS, HIPBLAS_R_16F, HIPBLAS_R_16B, HIPBLAS_R_32F, HIPBLAS_OP_N, HIPBLAS_OP_T, HIPBLAS_GEMM_DEFAULT };
enum { HIPBLAS_STATUS_NOT_INITIALIZED = 16, HIPBLAS_STATUS_ALLOC_FAILED, HIPBLAS_STATUS_INVALID_VALUE };
enum { HIPBLAS_STATUS_ARCH_MISMATCH = 32, HIPBLAS_STATUS_MAPPING_ERROR, HIPBLAS_STATUS_EXECUTION_FAILED };
enum { HIPBLAS_STATUS_INTERNAL_ERROR = 48, HIPBLAS_STATUS_NOT_SUPPORTED };
inline hipblasStatus_t hipblasCreate(hipblasHandle_t *) { return 0; }
inline hipblasStatus_t hipblasDestroy(hipblasHandle_t) { return 0; }
template <typename S> hipblasStatus_t hipblasSetStream(hipblasHandle_t, S) { return 0; }

struct __hip_bfloat16 {
  unsigned short bits;
  __hip_bfloat16() = default;
  __host__ __device__ __hip_bfloat16(float value) : bits(__builtin_bit_cast(unsigned, value) >> 16) {}
  __host__ __device__ operator float() const { return __builtin_bit_cast(float, unsigned(bits) << 16); }
};
struct __hip_bfloat162 { __hip_bfloat16 x, y; };
__host__ __device__ inline __hip_bfloat16 __float2bfloat16(float value) { return __hip_bfloat16(value); }
__host__ __device__ inline float __bfloat162float(__hip_bfloat16 value) { return float(value); }

__device__ inline __half __hmax(__half a, __half b) { return a > b ? a : b; }
__device__ inline __half2 __shfl_xor(__half2 value, int lane, int width) {
  return __builtin_bit_cast(__half2, __shfl_xor(__builtin_bit_cast(int, value), lane, width));
}
__device__ inline __half2 __shfl_up(__half2 value, unsigned lane, int width) {
  return __builtin_bit_cast(__half2, __shfl_up(__builtin_bit_cast(int, value), lane, width));
}

#define LIBRARY extern "C" __device__ __attribute__((always_inline, weak))
LIBRARY size_t __ockl_get_local_id(unsigned d) {
  return d == 0 ? __builtin_amdgcn_workitem_id_x() : d == 1 ? __builtin_amdgcn_workitem_id_y() : __builtin_amdgcn_workitem_id_z();
}
LIBRARY size_t __ockl_get_group_id(unsigned d) {
  return d == 0 ? __builtin_amdgcn_workgroup_id_x() : d == 1 ? __builtin_amdgcn_workgroup_id_y() : __builtin_amdgcn_workgroup_id_z();
}
LIBRARY size_t __ockl_get_local_size(unsigned d) {
  return d == 0 ? __builtin_amdgcn_workgroup_size_x() : d == 1 ? __builtin_amdgcn_workgroup_size_y() : __builtin_amdgcn_workgroup_size_z();
}
LIBRARY size_t __ockl_get_num_groups(unsigned d) {
  return ((__attribute__((address_space(4))) const unsigned *)__builtin_amdgcn_implicitarg_ptr())[d];
}
LIBRARY unsigned __ockl_mul_hi_u32(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
LIBRARY __attribute__((const)) bool __ockl_wfall_i32(int x) { return __builtin_amdgcn_ballot_w32(!x) == 0; }
LIBRARY void __atomic_work_item_fence(unsigned, int, int) { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
LIBRARY float __ocml_exp_f32(float x) { return __builtin_expf(x); }
LIBRARY float __ocml_native_exp_f32(float x) { return __builtin_expf(x); }
LIBRARY float __ocml_log_f32(float x) { return __builtin_logf(x); }
LIBRARY float __ocml_log2_f32(float x) { return __builtin_log2f(x); }
LIBRARY float __ocml_pow_f32(float x, float y) { return __builtin_exp2f(y * __builtin_log2f(x)); }
LIBRARY float __ocml_tanh_f32(float x) { return 1 - 2 / (__builtin_expf(2 * x) + 1); }
LIBRARY float __ocml_rint_f32(float x) { return __builtin_rintf(x); }
LIBRARY float __ocml_sqrt_f32(float x) { return __builtin_sqrtf(x); }
LIBRARY float __ocml_rsqrt_f32(float x) { return __builtin_amdgcn_rsqf(x); }
LIBRARY float __ocml_cos_f32(float x) { return __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0.15915494f)); }
LIBRARY float __ocml_sin_f32(float x) { return __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0.15915494f)); }
LIBRARY unsigned long __ockl_printf_begin(unsigned long) { return 0; }
LIBRARY unsigned long __ockl_printf_append_string_n(unsigned long, const char *, unsigned long, unsigned) { return 0; }
LIBRARY unsigned long __ockl_printf_append_args(unsigned long, unsigned, unsigned long, unsigned long, unsigned long, unsigned long,
                                                unsigned long, unsigned long, unsigned long, unsigned) {
  return 0;
}
