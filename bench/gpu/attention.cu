// Holds attention's kernels for f16 caches, and RoPE with append, against float64 and the forms against one another bit
// by bit, and times them on the shape of an 8B llama, on one NVIDIA GPU. One file because it is one program, built by
// hand:
//
//   npm run build:kernels -- --target sm_90
//   nvcc -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -fmad=false -I kernels
//     -o build/attention bench/gpu/attention.cu
//   build/attention [pdl]
//
// pdl: launches may begin before the one before has ended, as the executor's do. Ends with 1 where a form differs or an
// error is too large.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "attention_combine.hip"
#include "attention_tile.hip"
#undef F16
#include "attention_tile_split.hip"
#undef F16
#include "hopper/attention_wide.hip"
#include "rope_kv_append.hip"

#define CHECK(x)                                                                 \
  do {                                                                           \
    cudaError_t e_ = (x);                                                        \
    if (e_ != cudaSuccess) {                                                     \
      printf("CUDA: %s at %s:%d\n", cudaGetErrorString(e_), __FILE__, __LINE__); \
      exit(2);                                                                   \
    }                                                                            \
  } while (0)

static bool g_pdl = false, g_failed = false;
static cudaStream_t g_stream;

template <class... P, class... A>
void launch_with(int threads, size_t lds, dim3 grid, void (*kernel)(P...), A... args) {
  cudaLaunchConfig_t config = {};
  config.dynamicSmemBytes = lds;
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.stream = g_stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = g_pdl ? 1 : 0;
  CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<P>(args)...));
}
template <class Kernel, class... A>
void launch(dim3 grid, Kernel kernel, A... args) {
  launch_with(256, 0, grid, kernel, args...);
}

__device__ uint32_t hash_of(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}
__device__ float normal_of(uint32_t i, uint32_t seed) {
  const float u = (hash_of(i * 2 + seed * 0x9e3779b9u) + 1.0f) * 2.3283064e-10f;
  const float v = hash_of(i * 2 + 1 + seed * 0x85ebca6bu) * 2.3283064e-10f;
  return sqrtf(-2.0f * logf(fminf(fmaxf(u, 1e-12f), 1.0f))) * cospif(2.0f * v);
}
__global__ void fill_half(__half* p, size_t n, uint32_t seed, float scale) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = __float2half(normal_of(uint32_t(i), seed) * scale);
}
__global__ void fill_float(float* p, size_t n, uint32_t seed, float scale) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    p[i] = normal_of(uint32_t(i), seed) * scale;
}

// Attention of some rows in double: grid x = heads, y = sampled rows. Writes out and the bound of the contract.
__global__ void reference(const float* qkv, const __half* k, const __half* v, const int* rows, const int* row_position,
                          const int* row_slot, const int* slots, int slot_words, int heads, int kv_heads, int d,
                          float scale, float softcap, double* out, double* bound) {
  extern __shared__ double scores[];
  __shared__ double red[256];
  const int row = rows[blockIdx.y], head = blockIdx.x, kv_head = head / (heads / kv_heads);
  const int length = row_position[row] + 1;
  const int* table = slots + size_t(row_slot[row]) * slot_words + forge::SLOT_BLOCK_TABLE;
  const float* q = qkv + (size_t(row) * (heads + 2 * kv_heads) + head) * d;
  auto at = [&](int p) { return ((size_t(table[p / 16]) * kv_heads + kv_head) * 16 + p % 16) * d; };
  double most = -1e300, spread = 0;
  for (int p = threadIdx.x; p < length; p += 256) {
    double s = 0, m = 0;
    for (int i = 0; i < d; i++) {
      const double x = double(q[i]) * double(__half2float(k[at(p) + i]));
      s += x;
      m += x * x;
    }
    const double scaled = s * scale, score = softcap == 0.0f ? scaled : softcap * tanh(scaled / softcap);
    scores[p] = score;
    most = fmax(most, score);
    spread = fmax(spread, scale * sqrt(m));
  }
  auto reduce = [&](double x, bool is_max) {
    __syncthreads();
    red[threadIdx.x] = x;
    __syncthreads();
    double r = red[0];
    for (int i = 1; i < 256; i++) r = is_max ? fmax(r, red[i]) : r + red[i];
    return r;
  };
  most = reduce(most, true);
  spread = reduce(spread, true);
  double sum = 0;
  for (int p = threadIdx.x; p < length; p += 256) {
    scores[p] = exp(scores[p] - most);
    sum += scores[p];
  }
  sum = reduce(sum, false);
  for (int e = threadIdx.x; e < d; e += 256) {
    double o = 0, largest = 0;
    for (int p = 0; p < length; p++) {
      const double x = double(__half2float(v[at(p) + e]));
      o += scores[p] * x;
      largest = fmax(largest, fabs(x));
    }
    const size_t to = (size_t(blockIdx.y) * heads + head) * d + e;
    out[to] = o / sum;
    bound[to] = ldexp(1.0, -10) * largest * (1 + spread);
  }
}

// RoPE and append, one element pair a thread.
__global__ void plain_rope(const float* qkv, float* q_out, __half* k_out, __half* v_out, const float* cosine,
                           const float* sine, const int* row_position, int heads, int kv_heads, int d, int rotary,
                           int adjacent) {
  const int row = blockIdx.y, head = blockIdx.x, j = threadIdx.x;
  const float* x = qkv + (size_t(row) * (heads + 2 * kv_heads) + head) * d;
  const int half = rotary / 2, position = row_position[row];
  if (head >= heads + kv_heads) {
    for (int i = j; i < d; i += blockDim.x)
      v_out[(size_t(row) * kv_heads + head - heads - kv_heads) * d + i] = __float2half_rn(x[i]);
    return;
  }
  for (int i = j; i < d; i += blockDim.x) {
    float y = x[i];
    if (i < rotary) {
      const int pair = adjacent ? i / 2 : i % half;
      const bool second = adjacent ? i % 2 : i >= half;
      const float c = cosine[size_t(position) * half + pair], s = sine[size_t(position) * half + pair];
      const float a = x[adjacent ? 2 * pair : pair], b = x[adjacent ? 2 * pair + 1 : pair + half];
      y = second ? fmaf(a, s, b * c) : fmaf(a, c, -(b * s));
    }
    if (head < heads)
      q_out[(size_t(row) * heads + head) * d + i] = y;
    else
      k_out[(size_t(row) * kv_heads + head - heads) * d + i] = __float2half_rn(y);
  }
}

template <class T>
struct Buffer {
  T* p = nullptr;
  size_t n = 0;
  explicit Buffer(size_t n) : n(n) { CHECK(cudaMalloc(&p, n * sizeof(T))); }
  explicit Buffer(const std::vector<T>& host) : Buffer(host.size()) {
    CHECK(cudaMemcpy(p, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { cudaFree(p); }
  std::vector<T> host() const {
    std::vector<T> h(n);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(h.data(), p, n * sizeof(T), cudaMemcpyDeviceToHost));
    return h;
  }
};

static void verdict(bool good, const std::string& what) {
  printf("%s  %s\n", good ? "PASS" : "FAIL", what.c_str());
  if (!good) g_failed = true;
}

constexpr size_t POOL_BYTES = size_t(1) << 30;  // of keys, and again of values
static __half *g_k, *g_v;

// Sequences in the pool's blocks, in shuffled order; `layers` sets of blocks that do not overlap.
struct Step {
  int heads, kv_heads, d, layers, slot_words, per_layer;
  std::vector<int> position, slot;
  Buffer<float>*qkv, *out, *parts, *sinks;
  Buffer<int>*row_position, *row_slot, *slots, *tiles;
  int splits, n_tiles;
  float scale, softcap;

  Step(int heads, int kv_heads, int d, const std::vector<int>& lengths, std::vector<std::pair<int, int>> rows,
       int want_layers, int tile_rows = 0, bool with_parts = true, float softcap = 0.0f)
      : heads(heads), kv_heads(kv_heads), d(d), softcap(softcap) {
    const size_t pool_blocks = POOL_BYTES / 2 / (size_t(kv_heads) * 16 * d);
    per_layer = 0;
    int longest = 0;
    for (int l : lengths) per_layer += (l + 15) / 16, longest = std::max(longest, l);
    layers = std::max<int>(1, std::min<size_t>(want_layers, pool_blocks / per_layer));
    std::vector<int> ids(pool_blocks);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), std::mt19937(7));
    slot_words = forge::SLOT_BLOCK_TABLE + (longest + 15) / 16;
    std::vector<int> words(size_t(layers) * lengths.size() * slot_words, 0);
    size_t next = 0;
    for (int layer = 0; layer < layers; layer++)
      for (size_t s = 0; s < lengths.size(); s++)
        for (int b = 0; b < (lengths[s] + 15) / 16; b++)
          words[(layer * lengths.size() + s) * slot_words + forge::SLOT_BLOCK_TABLE + b] = ids[next++];
    int furthest = 0;
    std::vector<int> t;
    if (tile_rows == 0) tile_rows = forge::ATTENTION_TILE_QUERIES / (heads / kv_heads) / (d > 128 ? 2 : 1);
    for (size_t r = 0; r < rows.size(); r++) {
      slot.push_back(rows[r].first);
      position.push_back(rows[r].second);
      furthest = std::max(furthest, rows[r].second + 1);
      const bool follows = r > 0 && rows[r - 1].first == rows[r].first && rows[r - 1].second + 1 == rows[r].second;
      if (follows && t.back() < tile_rows)
        t.back()++;
      else
        t.push_back(int(r)), t.push_back(1);
    }
    // The longest contexts first, as the executor should have them.
    n_tiles = int(t.size() / 2);
    std::vector<int> order(n_tiles), sorted;
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return position[t[2 * a]] > position[t[2 * b]]; });
    for (int i : order) sorted.push_back(t[2 * i]), sorted.push_back(t[2 * i + 1]);
    splits = (furthest + forge::SPLIT - 1) / forge::SPLIT;
    scale = 1.0f / std::sqrt(float(d));
    qkv = new Buffer<float>(rows.size() * (heads + 2 * kv_heads) * d);
    out = new Buffer<float>(rows.size() * heads * d);
    parts = new Buffer<float>(with_parts ? rows.size() * heads * splits * (d + 2) : 1);
    sinks = new Buffer<float>(std::vector<float>(heads, forge::LOWEST));
    row_position = new Buffer<int>(position);
    row_slot = new Buffer<int>(slot);
    slots = new Buffer<int>(words);
    tiles = new Buffer<int>(sorted);
    fill_float<<<1024, 256>>>(qkv->p, qkv->n, 5, 2.0f);
    n_slots = int(lengths.size());
  }
  int n_slots;
  ~Step() {
    delete qkv;
    delete out;
    delete parts;
    delete sinks;
    delete row_position;
    delete row_slot;
    delete slots;
    delete tiles;
  }
  int rows() const { return int(position.size()); }
  const int* layer_slots(int layer) const { return slots->p + size_t(layer % layers) * n_slots * slot_words; }

  template <class Kernel>
  Kernel of_heads(Kernel d64, Kernel d128, Kernel d256) const {
    return d == 64 ? d64 : d == 128 ? d128 : d256;
  }
  void tile(int layer = 0) {
    const auto kernel = of_heads(attention_tile_f16_d64, attention_tile_f16_d128, attention_tile_f16_d256);
    launch(dim3(kv_heads, n_tiles), kernel, qkv->p, g_k, g_v, out->p, tiles->p, row_position->p, row_slot->p,
           layer_slots(layer), slot_words, sinks->p, heads, kv_heads, 0, scale, softcap);
  }
  void wide(int layer = 0) {
    const auto plain = of_heads(attention_wide_f16_d64, attention_wide_f16_d128, attention_wide_f16_d256);
    const auto softcapped = of_heads(attention_wide_softcapped_f16_d64, attention_wide_softcapped_f16_d128,
                                     attention_wide_softcapped_f16_d256);
    const int lds = d > 128 ? forge::ATTENTION_WIDE_PARTS_LDS : forge::ATTENTION_WIDE_LDS;
    const auto attend = [&](auto kernel, auto... softcaps) {
      launch_with(forge::ATTENTION_WIDE_THREADS, lds, dim3(kv_heads, n_tiles), kernel, qkv->p, g_k, g_v, out->p,
                  tiles->p, row_position->p, row_slot->p, layer_slots(layer), slot_words, sinks->p, heads, kv_heads, 0,
                  scale, softcaps...);
    };
    if (softcap == 0.0f) {
      attend(plain);
    } else {
      attend(softcapped, softcap);
    }
  }
  void split(int layer = 0, int first = 0, int count = -1) {
    if (count < 0) count = rows();
    const auto kernel =
        of_heads(attention_tile_split_f16_d64, attention_tile_split_f16_d128, attention_tile_split_f16_d256);
    const int head_tiles = (heads / kv_heads + 15) / 16;
    launch(dim3(kv_heads * head_tiles, count, splits), kernel, qkv->p + size_t(first) * (heads + 2 * kv_heads) * d, g_k,
           g_v, parts->p, row_position->p + first, row_slot->p + first, layer_slots(layer), slot_words, heads, kv_heads,
           head_tiles, splits, 0, scale, softcap);
  }
  void combine(int first = 0, int count = -1) {
    if (count < 0) count = rows();
    launch(dim3((heads + forge::COMBINE_HEADS - 1) / forge::COMBINE_HEADS, count,
                std::min((splits + forge::COMBINE_SPLITS - 1) / forge::COMBINE_SPLITS, forge::COMBINE_BLOCKS)),
           ::attention_combine, parts->p, sinks->p, out->p + size_t(first) * heads * d, row_position->p + first, heads,
           d, splits, 0);
  }
  double flops() const {
    double sum = 0;
    for (int p : position) sum += p + 1;
    return 4.0 * d * heads * sum;
  }
  double kv_bytes() const {
    double sum = 0;
    for (int p : position) sum += p + 1;
    return sum * kv_heads * d * 4;
  }
};

// Median microseconds of one launch of `body(layer)`, from graphs of launches over all layers.
static double time_us(int layers, const std::function<void(int)>& body, double budget_ms = 60) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  const int count = std::max(layers, 8);
  CHECK(cudaStreamBeginCapture(g_stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < count; i++) body(i % layers);
  CHECK(cudaStreamEndCapture(g_stream, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t a, b;
  CHECK(cudaEventCreate(&a));
  CHECK(cudaEventCreate(&b));
  std::vector<float> times;
  double spent = 0;
  for (int i = 0; i < 200 && (i < 6 || spent < budget_ms); i++) {
    CHECK(cudaEventRecord(a, g_stream));
    CHECK(cudaGraphLaunch(exec, g_stream));
    CHECK(cudaEventRecord(b, g_stream));
    CHECK(cudaEventSynchronize(b));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, a, b));
    if (i > 1) times.push_back(ms), spent += ms;
  }
  std::sort(times.begin(), times.end());
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  return 1e3 * times[times.size() / 2] / count;
}

static std::vector<std::pair<int, int>> span(int slot, int first, int count) {
  std::vector<std::pair<int, int>> rows;
  for (int i = 0; i < count; i++) rows.push_back({slot, first + i});
  return rows;
}

// The tile form, in tiles of two sizes, the split form, and double.
static void compare(const std::string& what, int heads, int kv_heads, int d, const std::vector<int>& lengths,
                    const std::vector<std::pair<int, int>>& rows, int samples, float softcap = 0.0f) {
  Step step(heads, kv_heads, d, lengths, rows, 1, 0, true, softcap);
  CHECK(cudaMemset(step.out->p, 0xff, step.out->n * 4));
  step.tile();
  const auto whole = step.out->host();
  CHECK(cudaMemset(step.out->p, 0xff, step.out->n * 4));
  step.wide();
  const auto wide = step.out->host();
  Step odd(heads, kv_heads, d, lengths, rows, 1, 5, false, softcap);
  CHECK(cudaMemset(odd.out->p, 0xff, odd.out->n * 4));
  odd.tile();
  const auto by_fives = odd.out->host();
  CHECK(cudaMemset(step.out->p, 0xff, step.out->n * 4));
  CHECK(cudaMemset(step.parts->p, 0xff, step.parts->n * 4));
  step.split();
  step.combine();
  const auto split = step.out->host();
  size_t differ = 0, differ_tiles = 0, differ_wide = 0;
  for (size_t i = 0; i < whole.size(); i++) {
    differ += memcmp(&whole[i], &split[i], 4) != 0;
    differ_tiles += memcmp(&whole[i], &by_fives[i], 4) != 0;
    differ_wide += memcmp(&whole[i], &wide[i], 4) != 0;
  }
  std::vector<int> chosen;
  for (int i = 0; i < samples; i++) chosen.push_back(int(size_t(i) * (rows.size() - 1) / std::max(1, samples - 1)));
  Buffer<int> sampled(chosen);
  Buffer<double> expected(size_t(samples) * heads * d), bound(expected.n);
  CHECK(cudaFuncSetAttribute(reference, cudaFuncAttributeMaxDynamicSharedMemorySize, 200000));
  reference<<<dim3(heads, samples), 256, step.slot_words * 16 * 8, g_stream>>>(
      step.qkv->p, g_k, g_v, sampled.p, step.row_position->p, step.row_slot->p, step.layer_slots(0), step.slot_words,
      heads, kv_heads, d, step.scale, step.softcap, expected.p, bound.p);
  CHECK(cudaGetLastError());
  const auto e = expected.host(), b = bound.host();
  double worst = 0, worst_error = 0;
  for (int r = 0; r < samples; r++)
    for (int i = 0; i < heads * d; i++) {
      const size_t at = size_t(r) * heads * d + i;
      const double error = std::fabs(whole[size_t(chosen[r]) * heads * d + i] - e[at]);
      if (!(error / b[at] <= worst)) worst = error / b[at];
      if (!(error <= worst_error)) worst_error = error;
    }
  char text[256];
  snprintf(
      text, sizeof(text),
      "%s: of %zu tiles/split differ in %zu, tiles/tiles of 5 in %zu, tiles/wide in %zu; error %.1e, %.0f %% of the "
      "bound",
      what.c_str(), whole.size(), differ, differ_tiles, differ_wide, worst_error, 100 * worst);
  verdict(differ == 0 && differ_tiles == 0 && differ_wide == 0 && worst <= 1.0, text);
}

static void check_rope(int rows_n, int heads, int kv_heads, int d, int rotary, int adjacent) {
  std::vector<std::pair<int, int>> rows;
  for (int i = 0; i < rows_n; i++) rows.push_back({i % 3, 40 + i / 3 * 1});
  Step step(heads, kv_heads, d, {2000, 2000, 2000}, rows, 1, 0, false);
  Buffer<float> c(size_t(2048) * rotary / 2), s(c.n), q(size_t(rows_n) * heads * d);
  Buffer<__half> k(size_t(rows_n) * kv_heads * d), v(k.n);
  fill_float<<<256, 256>>>(c.p, c.n, 21, 0.5f);
  fill_float<<<256, 256>>>(s.p, s.n, 22, 0.5f);
  plain_rope<<<dim3(heads + 2 * kv_heads, rows_n), 64>>>(step.qkv->p, q.p, k.p, v.p, c.p, s.p, step.row_position->p,
                                                         heads, kv_heads, d, rotary, adjacent);
  const auto q_expected = q.host();
  const auto k_expected = k.host(), v_expected = v.host();
  launch(dim3((heads + 2 * kv_heads + forge::ROPE_HEADS - 1) / forge::ROPE_HEADS, rows_n), rope_kv_append_f16,
         step.qkv->p, g_k, g_v, c.p, s.p, step.row_position->p, step.row_slot->p, step.layer_slots(0), step.slot_words,
         heads, kv_heads, d, rotary, adjacent);
  const auto qkv = step.qkv->host();
  const auto slots = step.slots->host();
  size_t wrong = 0;
  for (int r = 0; r < rows_n; r++) {
    for (int i = 0; i < heads * d; i++)
      wrong += memcmp(&qkv[size_t(r) * (heads + 2 * kv_heads) * d + i], &q_expected[size_t(r) * heads * d + i], 4) != 0;
  }
  // Keys and values: gathered from the pool.
  std::vector<__half> line(size_t(kv_heads) * 16 * d);
  for (int r = 0; r < rows_n; r += 37) {
    const int p = step.position[r],
              block = slots[size_t(step.slot[r]) * step.slot_words + forge::SLOT_BLOCK_TABLE + p / 16];
    for (int which = 0; which < 2; which++) {
      CHECK(cudaMemcpy(line.data(), (which ? g_v : g_k) + size_t(block) * line.size(), line.size() * 2,
                       cudaMemcpyDeviceToHost));
      for (int h = 0; h < kv_heads; h++)
        for (int i = 0; i < d; i++)
          wrong += memcmp(&line[(size_t(h) * 16 + p % 16) * d + i],
                          &(which ? v_expected : k_expected)[(size_t(r) * kv_heads + h) * d + i], 2) != 0;
    }
  }
  char text[160];
  snprintf(text, sizeof(text), "rope_kv_append, %d rows, d %d, rotary %d, %s: %zu bits differ from the plain one",
           rows_n, d, rotary, adjacent ? "adjacent" : "halves", wrong);
  verdict(wrong == 0, text);
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; i++) g_pdl |= std::string(argv[i]) == "pdl";
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  CHECK(cudaStreamCreate(&g_stream));
  CHECK(cudaMalloc(&g_k, POOL_BYTES));
  CHECK(cudaMalloc(&g_v, POOL_BYTES));
  fill_half<<<4096, 256>>>(g_k, POOL_BYTES / 2, 1, 1.0f);
  fill_half<<<4096, 256>>>(g_v, POOL_BYTES / 2, 2, 1.0f);
  CHECK(cudaDeviceSynchronize());
  const auto allow = [](auto kernel, int lds) {
    CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, lds));
  };
  for (auto kernel : {attention_wide_f16_d128, attention_wide_f16_d64}) allow(kernel, forge::ATTENTION_WIDE_LDS);
  for (auto kernel : {attention_wide_softcapped_f16_d128, attention_wide_softcapped_f16_d64})
    allow(kernel, forge::ATTENTION_WIDE_LDS);
  allow(attention_wide_f16_d256, forge::ATTENTION_WIDE_PARTS_LDS);
  allow(attention_wide_softcapped_f16_d256, forge::ATTENTION_WIDE_PARTS_LDS);
  printf("%s, chunk %d%s\n", properties.name, forge::SPLIT, g_pdl ? ", overlapping launches" : "");
  for (auto [name, kernel] : std::vector<std::pair<const char*, const void*>>{
           {"attention_tile_f16_d128", (const void*)attention_tile_f16_d128},
           {"attention_tile_f16_d64", (const void*)attention_tile_f16_d64},
           {"attention_wide_f16_d128", (const void*)attention_wide_f16_d128},
           {"attention_wide_f16_d64", (const void*)attention_wide_f16_d64},
           {"attention_tile_split_f16_d128", (const void*)attention_tile_split_f16_d128},
           {"attention_tile_split_f16_d64", (const void*)attention_tile_split_f16_d64},
           {"attention_combine", (const void*)::attention_combine},
           {"rope_kv_append_f16", (const void*)rope_kv_append_f16}}) {
    cudaFuncAttributes a;
    int blocks;
    CHECK(cudaFuncGetAttributes(&a, kernel));
    CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 256, 0));
    printf("  %-30s %3d registers, %5zu shared, %3zu local, %d blocks a multiprocessor\n", name, a.numRegs,
           a.sharedSizeBytes, a.localSizeBytes, blocks);
  }

  compare("prompt of 700", 32, 8, 128, {700}, span(0, 0, 700), 24);
  compare("prompt of 700, d 64", 32, 8, 64, {700}, span(0, 0, 700), 24);
  compare("rows 1900..2047 of 2048", 32, 8, 128, {2048}, span(0, 1900, 148), 16);
  compare("rows 8100..8191 of 8192", 32, 8, 128, {8192}, span(0, 8100, 92), 8);
  compare("rows 16320..16383 of 16384", 32, 8, 128, {16384}, span(0, 16320, 64), 4);
  compare("28 heads, 4 KV heads, rows 90..300", 28, 4, 128, {400}, span(0, 90, 211), 16);
  compare("one head a KV head, d 64", 6, 6, 64, {300}, span(0, 0, 300), 16);
  compare("prompt of 700, d 256", 8, 4, 256, {700}, span(0, 0, 700), 24);
  for (const int d : {64, 128, 256}) {
    compare("softcapped, prompt of 700, d " + std::to_string(d), 8, 4, d, {700}, span(0, 0, 700), 24, 5.0f);
  }
  {
    std::vector<int> lengths;
    std::vector<std::pair<int, int>> rows;
    const int borders[] = {1, 2, 16, 17, 127, 128, 129, 130, 255, 256, 257, 639, 640, 641, 1000, 1024, 1025, 2049};
    for (int i = 0; i < 36; i++) {
      lengths.push_back(borders[i % 18]);
      rows.push_back({i, borders[i % 18] - 1});
    }
    compare("36 sequences at the borders of chunks", 32, 8, 128, lengths, rows, 36);
  }
  check_rope(300, 32, 8, 128, 128, 1);
  check_rope(300, 32, 8, 128, 128, 0);
  check_rope(300, 14, 2, 64, 32, 0);
  check_rope(300, 14, 2, 64, 32, 1);
  check_rope(300, 32, 8, 64, 20, 0);
  fill_half<<<4096, 256>>>(g_k, POOL_BYTES / 2, 1, 1.0f);
  fill_half<<<4096, 256>>>(g_v, POOL_BYTES / 2, 2, 1.0f);

  printf("\nprefill (tiles), 32 heads, 8 KV heads, d 128        us      TFLOP/s\n");
  auto prefill = [&](const char* what, int total, int rows_a_step, int d = 128, int from = 0) {
    for (const bool is_wide : {false, true}) {
      double us = 0, flops = 0;
      for (int first = from; first < total; first += rows_a_step) {
        Step step(32, 8, d, {total}, span(0, first, rows_a_step), 4, 0, false);
        us += time_us(
            step.layers, [&](int layer) { is_wide ? step.wide(layer) : step.tile(layer); }, 20);
        flops += step.flops();
      }
      printf("  %-40s %-5s %9.1f %9.1f\n", what, is_wide ? "wide" : "tile", us, flops / us * 1e-6);
    }
  };
  prefill("512 in one step", 512, 512);
  prefill("2,048 in one step", 2048, 2048);
  prefill("8,192 in 4 steps of 2,048", 8192, 2048);
  prefill("8,192 in 16 steps of 512", 8192, 512);
  prefill("the last 2,048 of 16,384", 16384, 2048, 128, 14336);
  prefill("2,048 in one step, d 64", 2048, 2048, 64);
  prefill("8,192 in 4 steps of 2,048, d 64", 8192, 2048, 64);

  printf("\ndecode                                    split us    TB/s   combine us   both us    TB/s\n");
  auto decode = [&](const char* what, const std::vector<int>& lengths, int d = 128) {
    std::vector<std::pair<int, int>> rows;
    for (size_t i = 0; i < lengths.size(); i++) rows.push_back({int(i), lengths[i] - 1});
    Step step(32, 8, d, lengths, rows, 64);
    const double split = time_us(step.layers, [&](int layer) { step.split(layer); });
    const double combine = time_us(step.layers, [&](int) { step.combine(); });
    const double both = time_us(step.layers, [&](int layer) {
      step.split(layer);
      step.combine();
    });
    printf("  %-36s %9.2f %8.2f %10.2f %10.2f %8.2f\n", what, split, step.kv_bytes() / split * 1e-6, combine, both,
           step.kv_bytes() / both * 1e-6);
  };
  auto mixed = [](int n) {
    std::vector<int> lengths;
    std::mt19937 random(3);
    for (int i = 0; i < n; i++) lengths.push_back(128 + int(random() % 513));
    return lengths;
  };
  decode("1 row at 320", {320});
  decode("1 row at 4,096", {4096});
  decode("1 row at 16,384", {16384});
  decode("1 row at 16,384, d 64", {16384}, 64);
  decode("1 row at 32,768", {32768});
  decode("1 row at 65,536", {65536});
  decode("8 rows at 128-640", mixed(8));
  decode("32 rows at 128-640", mixed(32));
  decode("64 rows at 128-640", mixed(64));
  decode("128 rows at 128-640", mixed(128));
  decode("16 rows at 4,096", std::vector<int>(16, 4096));
  {
    auto lengths = mixed(63);
    lengths.push_back(16384);
    decode("63 rows at 128-640 and one at 16,384", lengths);
  }

  printf("\nRoPE + append                                  us      TB/s\n");
  for (int n : {1, 128, 2048})
    for (int adjacent : {1, 0}) {
      std::vector<std::pair<int, int>> rows;
      for (int i = 0; i < n; i++) rows.push_back({n == 128 ? i : 0, n == 128 ? 300 : i});
      // Several qkv, so that they do not stay in L2.
      const int copies = n == 2048 ? 6 : 32;
      std::vector<Step*> steps;
      for (int i = 0; i < (n == 2048 ? copies : 1); i++)
        steps.push_back(
            new Step(32, 8, 128, std::vector<int>(n == 128 ? n : 1, n == 128 ? 320 : 2048), rows, 8, 0, false));
      Buffer<float> c(size_t(2048) * 64), s(c.n);
      fill_float<<<256, 256>>>(c.p, c.n, 21, 0.5f);
      fill_float<<<256, 256>>>(s.p, s.n, 22, 0.5f);
      const double us = time_us(copies, [&](int i) {
        Step& step = *steps[i % steps.size()];
        launch(dim3((32 + 16 + forge::ROPE_HEADS - 1) / forge::ROPE_HEADS, n), rope_kv_append_f16, step.qkv->p, g_k,
               g_v, c.p, s.p, step.row_position->p, step.row_slot->p, step.layer_slots(i), step.slot_words, 32, 8, 128,
               128, adjacent);
      });
      // q read and written, k and v read in f32 and written in f16; cosines and sines.
      const double bytes = double(n) * 128 * (32 * 8 + 16 * 6 + 4);
      printf("  %4d rows, %-8s %25.2f %9.2f\n", n, adjacent ? "adjacent" : "halves", us, bytes / us * 1e-6);
      for (Step* step : steps) delete step;
    }
  CHECK(cudaDeviceSynchronize());
  printf("\n%s\n", g_failed ? "FAIL" : "PASS");
  return g_failed ? 1 : 0;
}
