// Holds the kernels that only Hopper's processors run, pack_fragments and every form of linear, against float64, the
// forms against one another bit by bit, and times them on the shapes of an 8B llama. On such a GPU:
//
//   npm run build:kernels -- --target sm_90
//   nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -fmad=false -I kernels
//     -o build/linear bench/gpu/linear.cu
//   build/linear [check]
//
// One file because it is compiled by one command. Ends with 1 where a form differs or an error is too large. `check`:
// without the times.
#include "hopper/linear.hip"
#include "hopper/linear_decode.hip"
#include "hopper/pack_fragments.hip"
#include "hopper/rms_norm_columns.hip"
#include "hopper/swiglu_columns.hip"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#define CK(x)                                                           \
  do {                                                                  \
    cudaError_t e_ = (x);                                               \
    if (e_ != cudaSuccess) {                                            \
      printf("%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
      fflush(stdout);                                                   \
      exit(1);                                                          \
    }                                                                   \
  } while (0)
typedef void (*Kern)(const uint8_t*, const void*, float*, const int32_t*, int, int, int, int, int, int);
struct Form {
  const char* name;
  Kern k;
  int n, rows, lds;
};
#define K_(x) (Kern)(void*) x
template <class F>
std::vector<Form> forms(Kern one, Kern few, Kern a, Kern b, Kern c, Kern d, Kern e) {
  using S = Sharing;
  std::vector<Form> v = {{"one", one, 1, 16, 0},
                         {"few", few, 8, 16, 0},
                         {"w16", a, 16, 64, WideLayout<F, 16, S::HALVES>::BYTES},
                         {"w32", b, 32, 64, WideLayout<F, 32, S::HALVES>::BYTES},
                         {"w64", c, 64, 64, WideLayout<F, 64, S::HALVES>::BYTES},
                         {"w128", d, 128, 64, WideLayout<F, 128, S::HALVES>::BYTES},
                         {"many", e, 128, 128, WideLayout<F, 128, S::PAIRS>::BYTES}};
  for (auto& f : v)
    if (f.lds) CK(cudaFuncSetAttribute((const void*)f.k, cudaFuncAttributeMaxDynamicSharedMemorySize, f.lds));
  return v;
}
#define FORMS(s, F)                                                                              \
  forms<F>(K_(linear_one_##s), K_(linear_few_##s), K_(linear_wide16_##s), K_(linear_wide32_##s), \
           K_(linear_wide64_##s), K_(linear_wide128_##s), K_(linear_many_##s))
// The kernels of linear_decode.hip, and the norm that linear_normed takes along.
typedef void (*Row)(const uint8_t*, const void*, float*, const int32_t*, int, int, int, int, int, int);
typedef void (*NormedK)(const uint8_t*, const float*, const float*, const float*, const float*, float*, int32_t*, int,
                        int, int, float);
typedef void (*SummedK)(const uint8_t*, const void*, float*, float*, int, int, int);
typedef void (*SwigluK)(const uint8_t*, const float*, const float*, const float*, void*, int32_t*, int, int, int, float);
typedef void (*ActivationK)(const float*, void*, int32_t*, int, int);
typedef void (*NormK)(const float*, const float*, void*, int32_t*, int, int, float);
struct One {
  Row row;
  NormedK normed;
  SummedK summed;
  SwigluK swiglu;
  NormK norm;
  ActivationK activation;
};
#define ONE(s, type) \
  One { \
    (Row)(void*)linear_row_##s, linear_normed_##s, (SummedK)(void*)linear_summed_##s, (SwigluK)(void*)linear_swiglu_##s, \
        (NormK)(void*)rms_norm_columns_##type, (ActivationK)(void*)swiglu_columns_##type \
  }
typedef void (*Pack)(const uint8_t*, uint8_t*, int32_t*, int, int);
struct Type {
  const char* name;
  std::vector<Form> forms;
  Pack pack;
  int unit, elements, bytes, kind;
  One one;
};
__device__ uint32_t hsh(uint32_t x) {
  x ^= x >> 15;
  x *= 0x2C1B3C6Du;
  x ^= x >> 12;
  x *= 0x297A2D39u;
  x ^= x >> 15;
  return x;
}
__global__ void fill16(uint16_t* p, size_t n, float dev, uint32_t seed, int bf) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    float v = ((hsh((uint32_t)i * 2654435761u + seed) & 0xffff) / 32768.0f - 1.0f) * 1.732f * dev;
    if (bf) {
      bfloat_t b;
      store(&b, v);
      p[i] = b.bits;
    } else {
      p[i] = __half_as_ushort(to_half(v));
    }
  }
}
__global__ void fillb(uint8_t* p, size_t blocks, int bytes, int kind, uint32_t seed) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < blocks; i += (size_t)gridDim.x * blockDim.x) {
    uint8_t* b = p + i * bytes;
    for (int j = 0; j < bytes; j++) b[j] = hsh((uint32_t)(i * bytes + j) * 2654435761u + seed) >> 8;
    auto put = [&](int at, float v) {
      unsigned short u = __half_as_ushort(to_half(v));
      b[at] = u & 255;
      b[at + 1] = u >> 8;
    };
    float r = 0.5f + (hsh((uint32_t)i + seed) & 1023) / 1024.0f;
    if (kind == 40 || kind == 50) put(0, 0.004f * r);
    if (kind == 41 || kind == 51) {
      put(0, 0.004f * r);
      put(2, -0.03f * r);
    }
    if (kind == 80) put(0, 0.0003f * r);
    if (kind == 42 || kind == 52) {
      put(0, 0.0001f * r);
      put(2, 0.0008f * r);
    }
    if (kind == 60) put(208, 0.00002f * r);
    if (kind == 20) {
      put(80, 0.002f * r);
      put(82, 0.003f * r);
    }
    if (kind == 30) put(108, 0.0004f * r);
    if (kind == 43) put(0, 0.0003f * r);
    if (kind == 44) put(0, 0.00002f * r);
  }
}
template <class S>
__device__ float dq(const uint8_t* w, int r, int k, int K) {
  return dequantize<S>(w + (size_t)r * (K / S::ELEMENTS) * S::BYTES, k);
}
__global__ void ref(const uint8_t* w, const uint16_t* x, double* y, int out, int K, int kind,
                    int tokens) {  // a warp an output
  const int o = blockIdx.x * 8 + threadIdx.x / 32, t = blockIdx.y, lane = threadIdx.x % 32;
  if (o >= out) return;
  double s = 0;
  for (int k = lane; k < K; k += 32) {
    float a, b;
    if (kind == 17) {
      bfloat_t q;
      q.bits = x[(size_t)t * K + k];
      b = to_float(q);
      q.bits = ((const uint16_t*)w)[(size_t)o * K + k];
      a = to_float(q);
    } else {
      half_t h;
      memcpy(&h, &x[(size_t)t * K + k], 2);
      b = to_float(h);
      switch (kind) {
        case 16:
          memcpy(&h, &((const uint16_t*)w)[(size_t)o * K + k], 2);
          a = to_float(h);
          break;
        case 20:
          a = dq<BlockQ2_K>(w, o, k, K);
          break;
        case 30:
          a = dq<BlockQ3_K>(w, o, k, K);
          break;
        case 43:
          a = dq<BlockIQ4_NL>(w, o, k, K);
          break;
        case 44:
          a = dq<BlockIQ4_XS>(w, o, k, K);
          break;
        case 40:
          a = dq<BlockQ4_0>(w, o, k, K);
          break;
        case 41:
          a = dq<BlockQ4_1>(w, o, k, K);
          break;
        case 42:
          a = dq<BlockQ4_K>(w, o, k, K);
          break;
        case 50:
          a = dq<BlockQ5_0>(w, o, k, K);
          break;
        case 51:
          a = dq<BlockQ5_1>(w, o, k, K);
          break;
        case 52:
          a = dq<BlockQ5_K>(w, o, k, K);
          break;
        case 60:
          a = dq<BlockQ6_K>(w, o, k, K);
          break;
        default:
          a = dq<BlockQ8_0>(w, o, k, K);
      }
    }
    s += (double)a * b;
  }
  for (int i = 16; i; i >>= 1) s += __shfl_xor_sync(~0u, s, i);
  if (lane == 0) y[(size_t)t * out + o] = s;
}
__global__ void columns(const uint16_t* x, uint16_t* to, int first, int count, int K, int rows) {
  const int pad = (K + 63) / 64 * 64;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (size_t)count * pad;
       i += (size_t)gridDim.x * blockDim.x) {
    const int t = i / pad, k = i % pad;
    to[column_place(t, k, rows)] = k < K ? x[(size_t)(first + t) * K + k] : 0;
  }
}
static uint16_t* xc;
static void cols(const uint16_t* x, int first, int count, int K, int rows, cudaStream_t st) {
  columns<<<1024, 256, 0, st>>>(x, xc, first, count, K, rows);
}
static int32_t* tok_dev;
static cudaStream_t st;
static void launch(const Form& f, const uint8_t* w, const void* x, float* y, const int32_t* tokens_dev, int tokens,
                   int out, int K, int rows) {
  int tiles = (out + 63) / 64, acc = 0, stride = out;
  dim3 grid = f.n <= 8 ? dim3((out + 15) / 16) : dim3((tokens + f.n - 1) / f.n, (out + f.rows - 1) / f.rows);
  void* args[] = {&w, &x, &y, &tokens_dev, &tiles, &out, &K, &rows, &stride, &acc};
  CK(cudaLaunchKernel((const void*)f.k, grid, dim3(f.lds ? WIDE_BLOCK : 256), args, f.lds, st));
}
int main(int argc, char** argv) {
  const bool quick = argc > 1 && !strcmp(argv[1], "check");
  CK(cudaStreamCreate(&st));
  std::vector<Type> types = {
      {"F16", FORMS(f16, Floats<half_t>), (Pack)(void*)pack_fragments_f16, 2048, 1, 2, 16,
       ONE(f16, f16)},
      {"BF16", FORMS(bf16, Floats<bfloat_t>), (Pack)(void*)pack_fragments_bf16, 2048, 1, 2, 17,
       ONE(bf16, bf16)},
      {"Q4_0", FORMS(q4, Quant4), pack_fragments_q4_0, 640, 32, 18, 40, ONE(q4, f16)},
      {"Q4_1", FORMS(q4, Quant4), pack_fragments_q4_1, 640, 32, 20, 41, ONE(q4, f16)},
      {"Q4_K", FORMS(q4, Quant4), pack_fragments_q4_k, 640, 256, 144, 42, ONE(q4, f16)},
      {"Q5_0", FORMS(q5, Quant5), pack_fragments_q5_0, 768, 32, 22, 50, ONE(q5, f16)},
      {"Q5_1", FORMS(q5, Quant5), pack_fragments_q5_1, 768, 32, 24, 51, ONE(q5, f16)},
      {"Q5_K", FORMS(q5, Quant5), pack_fragments_q5_k, 768, 256, 176, 52, ONE(q5, f16)},
      {"Q6_K", FORMS(q6, Quant6), pack_fragments_q6_k, 896, 256, 210, 60, ONE(q6, f16)},
      {"Q8_0", FORMS(q8, Quant8), pack_fragments_q8_0, 1088, 32, 34, 80, ONE(q8, f16)},
      {"Q2_K", FORMS(q2, Quant2), pack_fragments_q2_k, 512, 256, 84, 20, ONE(q2, f16)},
      {"Q3_K", FORMS(q3, Quant3), pack_fragments_q3_k, 512, 256, 110, 30, ONE(q3, f16)},
      {"IQ4_NL", FORMS(iq4, Levels4), pack_fragments_iq4_nl, 576, 32, 18, 43, ONE(iq4, f16)},
      {"IQ4_XS", FORMS(iq4, Levels4), pack_fragments_iq4_xs, 576, 256, 136, 44, ONE(iq4, f16)}};
  const size_t POOL = (size_t)6 << 30;
  uint8_t *pool, *src;
  uint16_t* x;
  float* y;
  double* yr;
  const int TMAX = 2048, KMAX = 14336, OMAX = 28672;
  CK(cudaMalloc(&pool, POOL));
  CK(cudaMalloc(&src, (size_t)OMAX * KMAX * 2));
  CK(cudaMalloc(&x, (size_t)TMAX * KMAX * 2));
  int32_t* overflow;
  CK(cudaMalloc(&overflow, 4));
  CK(cudaMemset(overflow, 0, 4));
  CK(cudaMalloc(&xc, (size_t)TMAX * KMAX * 2));
  CK(cudaMalloc(&y, (size_t)TMAX * OMAX * 4));
  CK(cudaMalloc(&yr, (size_t)256 * 8192 * 8));
  std::vector<int32_t> ids(4096);
  for (int i = 0; i < 4096; i++) ids[i] = i;
  CK(cudaMalloc(&tok_dev, 4096 * 4));
  CK(cudaMemcpy(tok_dev, ids.data(), 4096 * 4, cudaMemcpyHostToDevice));
  const auto pack = [&](Type& ty, uint8_t* to, int out, int K) {
    const size_t n = (size_t)((out + 63) / 64) * 4 * ((K + 63) / 64) * 32;
    void* a[] = {&src, &to, &overflow, &out, &K};
    CK(cudaLaunchKernel((const void*)ty.pack, dim3((n + 255) / 256), dim3(256), a, 0, st));
  };
  const auto fill = [&](Type& ty, int out, int K, int seed) {
    if (ty.elements == 1)
      fill16<<<2048, 256, 0, st>>>((uint16_t*)src, (size_t)out * K, 1 / sqrtf(K), seed, ty.kind == 17);
    else
      fillb<<<2048, 256, 0, st>>>(src, (size_t)out * K / ty.elements, ty.bytes, ty.kind, seed);
  };
  bool ok = true;
  float *parts, *ones, *f32;
  int32_t* saturated;
  CK(cudaMalloc(&parts, OMAX / 4));
  CK(cudaMalloc(&ones, KMAX * 4));
  CK(cudaMalloc(&f32, KMAX * 4));
  CK(cudaMalloc(&saturated, 4));
  const auto read = [&](const float* from, int count) {
    std::vector<float> h(count);
    CK(cudaMemcpyAsync(h.data(), from, count * 4, cudaMemcpyDeviceToHost, st));
    CK(cudaStreamSynchronize(st));
    CK(cudaGetLastError());
    return h;
  };
  // Number of outputs of the kernels of one row that differ from those that they take the place of: of one token of xc, and
  // of its norm.
  const auto differences = [&](Type& ty, int out, int K, const std::vector<float>& base, int grid) {
    const One& one = ty.one;
    const int blocks = std::min((out + 15) / 16, grid), tiles = (out + 63) / 64;
    const auto go = [&](auto kernel, int blocks, int lds, auto... args) {
      void* all[] = {&args...};
      if (lds) CK(cudaFuncSetAttribute((const void*)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, lds));
      CK(cudaLaunchKernel((const void*)kernel, dim3(blocks), dim3(256), all, lds, st));
    };
    size_t differ = 0;
    cols(x, 0, 1, K, 128, st);
    const auto compare = [&](const std::vector<float>& a, const std::vector<float>& b) {
      for (size_t i = 0; i < a.size(); i++) differ += memcmp(&a[i], &b[i], 4) != 0;
    };
    CK(cudaMemsetAsync(y, 0xff, out * 4, st));
    go(one.row, blocks, LINEAR_DECODE_LDS, pool, xc, y, tok_dev + 1, tiles, out, K, 128, out, 0);
    compare(read(y, out), base);
    CK(cudaMemsetAsync(y, 0, out * 4, st));
    go(one.summed, blocks, LINEAR_DECODE_LDS, pool, xc, y, parts, out, K, 128);
    const auto summed = read(y, out), sums = read(parts, (out + 15) / 16);
    compare(summed, base);
    std::vector<float> expected(sums.size());
    for (int p = 0; p < (int)sums.size(); p++) {
      float v[16];
      for (int i = 0; i < 16; i++) v[i] = p * 16 + i < out ? summed[p * 16 + i] * summed[p * 16 + i] : 0.0f;
      for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) v[i] += v[i + half];
      expected[p] = v[0];
    }
    compare(sums, expected);
    std::vector<float> row(K), weight(K), squares((K + 15) / 16);
    for (int k = 0; k < K; k++) {
      row[k] = ((k * 2654435761u >> 9) % 4001 - 2000.0f) / 700.0f;
      weight[k] = 0.5f + k % 13 / 8.0f;
    }
    for (int p = 0; p < (int)squares.size(); p++) {
      float v[16];
      for (int i = 0; i < 16; i++) v[i] = row[p * 16 + i] * row[p * 16 + i];
      for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++) v[i] += v[i + half];
      squares[p] = v[0];
    }
    CK(cudaMemcpy(f32, row.data(), K * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(ones, weight.data(), K * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(parts, squares.data(), squares.size() * 4, cudaMemcpyHostToDevice));
    go(one.norm, 1, 0, f32, ones, (void*)xc, saturated, K, 128, 1e-5f);
    launch(ty.forms[0], pool, xc, y, tok_dev + 1, 1, out, K, 128);
    const auto normed = read(y, out);
    CK(cudaMemsetAsync(y, 0xff, out * 4, st));
    go(one.normed, blocks, LINEAR_DECODE_LDS, pool, f32, ones, parts, f32, y, saturated, out, K, 0, 1e-5f);
    compare(read(y, out), normed);
    // The first half of the rows as gate, the second as up.
    const int ffn = out / 128 * 64;
    if (out == 2 * ffn) {
      const int words = ffn / 64 * 128 * 64 / 2;
      std::vector<float> at[2];
      CK(cudaMemcpy(parts, squares.data(), squares.size() * 4, cudaMemcpyHostToDevice));
      CK(cudaMemcpy(y, normed.data(), out * 4, cudaMemcpyHostToDevice));
      for (int i = 0; i < 2; i++) {
        CK(cudaMemsetAsync(xc, 0, words * 4, st));
        if (i == 0) {
          go(one.activation, (ffn + COLUMNS_PART - 1) / COLUMNS_PART, 0, y, (void*)xc, saturated, ffn, 128);
        } else {
          go(one.swiglu, std::min(ffn / 16, grid), LINEAR_DECODE_LDS, pool, f32, ones, parts, (void*)xc, saturated, ffn, K,
             128, 1e-5f);
        }
        at[i] = read((const float*)xc, words);
      }
      compare(at[0], at[1]);
    }
    return differ;
  };
  const int T = 130;
  for (auto& ty : types)
    for (int K : {64, 896, 2048, 4096, 4864, 14336})
      for (int out : {1000, 4096}) {
        if (K % ty.elements || (out == 4096 && K != 4096)) continue;
        fill(ty, out, K, K);
        fill16<<<2048, 256, 0, st>>>(x, (size_t)TMAX * K, 1.0f, 77, ty.kind == 17);
        CK(cudaMemsetAsync(pool, 0xff, (size_t)((out + 63) / 64) * 4 * ((K + 63) / 64) * ty.unit, st));
        pack(ty, pool, out, K);
        ref<<<dim3((out + 7) / 8, T), 256, 0, st>>>(src, x, yr, out, K, ty.kind, T);
        CK(cudaStreamSynchronize(st));
        CK(cudaGetLastError());
        std::vector<double> r((size_t)T * out);
        CK(cudaMemcpy(r.data(), yr, r.size() * 8, cudaMemcpyDeviceToHost));
        std::vector<float> base;
        std::string line;
        for (auto& f : ty.forms) {
          CK(cudaMemsetAsync(y, 0xff, (size_t)T * out * 4, st));
          if (f.n <= 8)
            for (int t = 0; t < T; t += f.n) {
              cols(x, t, std::min(f.n, T - t), K, 128, st);
              launch(f, pool, xc, y + (size_t)t * out, tok_dev + std::min(f.n, T - t), std::min(f.n, T - t), out, K,
                     128);
            }
          else {
            cols(x, 0, T, K, 256, st);
            launch(f, pool, xc, y, tok_dev + T, T, out, K, 256);
          }
          CK(cudaStreamSynchronize(st));
          CK(cudaGetLastError());
          std::vector<float> h((size_t)T * out);
          CK(cudaMemcpy(h.data(), y, h.size() * 4, cudaMemcpyDeviceToHost));
          double num = 0, den = 0;
          for (size_t i = 0; i < h.size(); i++) {
            const double e = h[i] - r[i];
            num += e * e;
            den += r[i] * r[i];
          }
          const double err = sqrt(num / den);
          if (!(err < (ty.elements == 1 ? 5e-6 : 6e-4))) ok = false;
          size_t diff = 0;
          if (base.empty())
            base = h;
          else
            for (size_t i = 0; i < h.size(); i++) diff += memcmp(&h[i], &base[i], 4) != 0;
          if (diff) ok = false;
          char b[64];
          snprintf(b, 64, " %s %.1e/%zu", f.name, err, diff);
          line += b;
        }
        if (K >= SEGMENTS * CHUNK) {
          base.resize(out);
          // All groups at once, and blocks that go on to others.
          const size_t diff = differences(ty, out, K, base, 1 << 20) + differences(ty, out, K, base, 8);
          if (diff) ok = false;
          line += " row, normed, summed " + std::to_string(diff);
        }
        printf("%-6s K %5d out %4d%s\n", ty.name, K, out, line.c_str());
      }
  printf("%s\n", ok ? "CHECK PASS" : "CHECK FAIL");
  fflush(stdout);
  if (quick || !ok) return !ok;
  const int shapes[5][2] = {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}};
  const char* names[5] = {"qkv", "o", "gate_up", "down", "head"};
  cudaEvent_t e0, e1;
  cudaEventCreate(&e0);
  cudaEventCreate(&e1);
  const auto time = [&](Type& ty, const Form& f, int out, int K, int tokens) {
    const size_t wb = (size_t)((out + 15) / 16) * (K / 64) * ty.unit;
    const int copies = std::max<int>(1, std::min<size_t>(POOL / wb, (600u << 20) / wb + 1)), n = std::max(copies, 6);
    cudaGraph_t g;
    cudaGraphExec_t ge;
    CK(cudaStreamBeginCapture(st, cudaStreamCaptureModeRelaxed));
    for (int i = 0; i < n; i++) launch(f, pool + i % copies * wb, xc, y, tok_dev + tokens, tokens, out, K, 2048);
    CK(cudaStreamEndCapture(st, &g));
    CK(cudaGraphInstantiate(&ge, g, 0));
    CK(cudaGraphLaunch(ge, st));
    std::vector<float> ms;
    for (int r = 0; r < 5; r++) {
      cudaEventRecord(e0, st);
      CK(cudaGraphLaunch(ge, st));
      cudaEventRecord(e1, st);
      CK(cudaEventSynchronize(e1));
      float m;
      cudaEventElapsedTime(&m, e0, e1);
      ms.push_back(m);
    }
    cudaGraphExecDestroy(ge);
    cudaGraphDestroy(g);
    std::sort(ms.begin(), ms.end());
    return ms[2] * 1e3 / n;
  };
  for (int ti : {0, 4, 8, 9, 10, 11, 13}) {
    auto& ty = types[ti];
    auto fs = ty.forms;
    std::vector<std::pair<std::string, double>> sum;
    for (int si = 0; si < 5; si++) {
      const int out = shapes[si][0], K = shapes[si][1];
      const size_t wb = (size_t)out / 16 * (K / 64) * ty.unit;
      const int copies = std::max<int>(1, std::min<size_t>(POOL / wb, (600u << 20) / wb + 1));
      if ((size_t)out * K <= (size_t)OMAX * KMAX) fill(ty, out, K, si);
      for (int c = 0; c < copies; c++) {
        if ((size_t)out * K <= (size_t)OMAX * KMAX) pack(ty, pool + c * wb, out, K);
      }
      fill16<<<2048, 256, 0, st>>>(x, (size_t)TMAX * K, 1.0f, 77, 0);
      cols(x, 0, 2048, K, 2048, st);
      for (auto& f : fs)
        for (int tokens : {1, 8, 16, 32, 64, 128, 512, 2048}) {
          const bool many = !strcmp(f.name, "many");
          if (many ? tokens < 128 : tokens != f.n) continue;
          if (si == 4 && tokens > 128) continue;
          const double us = time(ty, f, out, K, tokens);
          printf("%-6s %-8s %-9s rows %4d %9.2f us %7.1f TFLOP/s %6.0f GB/s\n", ty.name, names[si], f.name, tokens, us,
                 2.0 * out * K * tokens / us / 1e6, wb / us / 1e3);
          const std::string key = std::string(f.name) + " rows " + std::to_string(tokens);
          bool found = false;
          const double add = us * (si == 4 ? 1 : 32);
          for (auto& s : sum)
            if (s.first == key) {
              s.second += add;
              found = true;
            }
          if (!found) sum.push_back({key, add});
        }
      fflush(stdout);
    }
    for (auto& s : sum)
      printf("== %-6s 32 layers (+head to 128 rows) %-20s %9.3f ms\n", ty.name, s.first.c_str(), s.second / 1e3);
  }
  CK(cudaDeviceSynchronize());
  return !ok;
}
