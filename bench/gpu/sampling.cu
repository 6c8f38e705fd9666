// Times what a step does from logits to tokens, on one NVIDIA GPU, for 1, 8 and 64 rows: graphs of REPEATS repetitions,
// replayed. Beside each time stands a hash of what came out. On such a GPU:
//
//   npm run build:kernels -- --target sm_90
//   nvcc -O3 -std=c++17 -gencode arch=compute_90,code=sm_90 --expt-relaxed-constexpr -fmad=false -I kernels
//     -o build/sampling bench/gpu/sampling.cu
//   build/sampling [VOCABULARY [kernels]]
//
// kernels: also what each takes by itself.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <utility>
#include <vector>
#include "copy_adjusted.hip"
#include "likeliest_parts.hip"
#include "log_softmax_merge.hip"
#include "log_softmax_top.hip"
#include "logit_bias.hip"
#include "penalties.hip"
#include "sample_best.hip"
#include "sample_bins.hip"
#include "sample_candidates.hip"
#include "sample_draw.hip"
#include "sample_filter.hip"
#include "sample_pick.hip"
#include "token_history.hip"

#define CHECK(x)                                     \
  do {                                               \
    cudaError_t e = (x);                             \
    if (e != cudaSuccess) {                          \
      printf("%s: %s\n", #x, cudaGetErrorString(e)); \
      exit(1);                                       \
    }                                                \
  } while (0)
using namespace forge;
constexpr int ROWS = 64, SLOT_WORDS = SLOT_BLOCK_TABLE + 8, ENTRIES = 300, HISTORY = 1024, TOP = 20, OUT = 3 + 2 * TOP;
constexpr int REPEATS = 20, REPLAYS = 15;

template <class T>
T* device(const std::vector<T>& host) {
  T* p;
  CHECK(cudaMalloc(&p, host.size() * sizeof(T)));
  CHECK(cudaMemcpy(p, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return p;
}
// As native/ launches it: programmatic dependent launch.
template <class... P, class... A>
void launch(void (*kernel)(P...), dim3 grid, cudaStream_t stream, A... arguments) {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(BLOCK);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, kernel, P(arguments)...));
}
static int bits(float f) {
  int i;
  std::memcpy(&i, &f, 4);
  return i;
}

struct Case {
  const char* name;
  float temperature;
  int top_k;
  float top_p, min_p;
  int logprobs;
  bool peaked;
};

int main(int argc, char** argv) {
  const int vocabulary = argc > 1 ? atoi(argv[1]) : 128256;
  const bool by_kernel = argc > 2;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> flat(size_t(ROWS) * vocabulary), peaked;
  for (float& l : flat) l = normal(random);
  peaked = flat;
  for (float& l : peaked) l *= 3.0f;  // as a trained model's: its top_p holds few tokens
  std::vector<int32_t> order(ROWS), position(ROWS, 100);
  for (int i = 0; i < ROWS; i++) order[i] = i;
  float *flat_d = device(flat), *peaked_d = device(peaked), *adjusted = device(std::vector<float>(flat.size()));
  int32_t *sample_row = device(order), *row_slot = device(order), *row_position = device(position);
  int32_t *row_token = device(std::vector<int32_t>(ROWS)), *draws = device(std::vector<int32_t>(1));
  int32_t* biases = device(std::vector<int32_t>(size_t(ROWS) * (1 + 2 * ENTRIES)));
  int32_t* history = device(std::vector<int32_t>(size_t(ROWS) * (1 + 2 * HISTORY)));
  int32_t* slots = device(std::vector<int32_t>(size_t(ROWS) * SLOT_WORDS));
  int32_t* parts = device(std::vector<int32_t>(size_t(ROWS) * SAMPLE_PART_WORDS * SAMPLE_PARTS));
  int32_t* output = device(std::vector<int32_t>(size_t(ROWS) * OUT));
  int32_t* filters = device(std::vector<int32_t>(size_t(ROWS) * FILTER_WORDS));
  int32_t* likeliest = device(std::vector<int32_t>(size_t(ROWS) * SAMPLE_PARTS * TOP));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  cudaDeviceProp device_is;
  CHECK(cudaGetDeviceProperties(&device_is, 0));
  printf("%s, vocabulary %d; us a step's sampling; hash of the outputs\n", device_is.name, vocabulary);

  const Case cases[] = {{"greedy", 0, 0, 1, 0, 0, false},
                        {"temperature", 0.8f, 0, 1, 0, 0, false},
                        {"top_k 40", 0.8f, 40, 1, 0, 0, false},
                        {"top_p .95", 0.8f, 0, 0.95f, 0, 0, false},
                        {"top_p .95 peaked", 0.8f, 0, 0.95f, 0, 0, true},
                        {"top_k 40 top_p .95", 0.8f, 40, 0.95f, 0, 0, false},
                        {"min_p .05", 0.8f, 0, 1, 0.05f, 0, false},
                        {"k 40, p .95, min .05", 0.8f, 40, 0.95f, 0.05f, 0, true},
                        {"greedy, 20 logprobs", 0, 0, 1, 0, 21, false},
                        {"all, 20 logprobs", 0.8f, 40, 0.95f, 0.05f, 21, true}};
  for (const Case& c : cases) {
    printf("%-22s", c.name);
    for (const int rows : {1, 8, 64}) {
      std::vector<int32_t> words(size_t(ROWS) * SLOT_WORDS);
      for (int r = 0; r < ROWS; r++) {
        int32_t* w = &words[size_t(r) * SLOT_WORDS];
        w[SLOT_TEMPERATURE] = bits(c.temperature);
        w[SLOT_TOP_K] = c.top_k;
        w[SLOT_TYPICAL_P] = bits(1.0f);
        w[SLOT_TOP_P] = bits(c.top_p);
        w[SLOT_MIN_P] = bits(c.min_p);
        w[SLOT_SEED] = r;
        w[SLOT_LOGPROBS] = c.logprobs;
        w[SLOT_REPETITION_PENALTY] = bits(1.0f);
      }
      CHECK(cudaMemcpy(slots, words.data(), words.size() * 4, cudaMemcpyHostToDevice));
      CHECK(cudaMemcpy(draws, &rows, 4, cudaMemcpyHostToDevice));
      CHECK(cudaMemset(output, 0, size_t(ROWS) * OUT * 4));
      CHECK(cudaMemset(history, 0, size_t(ROWS) * (1 + 2 * HISTORY) * 4));
      const float* logits = c.peaked ? peaked_d : flat_d;
      const dim3 shared(SAMPLE_PARTS, rows), one(rows);
      const dim3 filtering(FILTER_PARTS, rows);
      const std::pair<const char*, std::function<void()>> kernels[] = {
          {"copy_adjusted", [&] { launch(copy_adjusted, shared, stream, logits, adjusted, sample_row, row_slot, slots, biases, SLOT_WORDS, ENTRIES, vocabulary); }},
          {"penalties", [&] { launch(penalties, one, stream, adjusted, sample_row, row_slot, row_token, slots, history, SLOT_WORDS, HISTORY, vocabulary); }},
          {"logit_bias", [&] { launch(logit_bias, one, stream, adjusted, sample_row, row_slot, biases, ENTRIES, vocabulary); }},
          {"sample_best", [&] { launch(sample_best, shared, stream, logits, adjusted, sample_row, row_slot, slots, biases, parts, SLOT_WORDS, ENTRIES, vocabulary); }},
          {"sample_bins", [&] { launch(sample_bins, filtering, stream, logits, adjusted, sample_row, row_slot, slots, biases, parts, filters, SLOT_WORDS, ENTRIES, vocabulary); }},
          {"sample_candidates", [&] { launch(sample_candidates, filtering, stream, logits, adjusted, sample_row, row_slot, slots, biases, parts, filters, SLOT_WORDS, ENTRIES, vocabulary); }},
          {"sample_filter", [&] { launch(sample_filter, one, stream, logits, adjusted, sample_row, row_slot, slots, biases, parts, filters, SLOT_WORDS, ENTRIES, vocabulary); }},
          {"sample_draw", [&] { launch(sample_draw, shared, stream, logits, adjusted, sample_row, row_slot, row_position, slots, biases, parts, filters, SLOT_WORDS, ENTRIES, vocabulary); }},
          {"sample_pick", [&] { launch(sample_pick, one, stream, sample_row, row_slot, slots, parts, output, SLOT_WORDS, OUT); }},
          {"token_history", [&] { launch(token_history, one, stream, draws, sample_row, row_slot, row_token, output, history, OUT, HISTORY); }},
          {"likeliest_parts", [&] { launch(likeliest_parts, shared, stream, logits, sample_row, row_slot, slots, likeliest, SLOT_WORDS, TOP, vocabulary); }},
          {"log_softmax_merge", [&] { launch(log_softmax_merge, one, stream, logits, sample_row, row_slot, slots, biases, likeliest, output, SLOT_WORDS, ENTRIES, TOP, vocabulary); }},
      };
      const auto timed = [&](const std::function<void()>& step) {
        cudaGraph_t graph;
        cudaGraphExec_t exec;
        CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        for (int i = 0; i < REPEATS; i++) step();
        CHECK(cudaStreamEndCapture(stream, &graph));
        CHECK(cudaGraphInstantiate(&exec, graph, 0));
        for (int i = 0; i < 3; i++) CHECK(cudaGraphLaunch(exec, stream));
        std::vector<float> us;
        for (int i = 0; i < REPLAYS; i++) {
          CHECK(cudaEventRecord(start, stream));
          CHECK(cudaGraphLaunch(exec, stream));
          CHECK(cudaEventRecord(stop, stream));
          CHECK(cudaEventSynchronize(stop));
          float ms;
          CHECK(cudaEventElapsedTime(&ms, start, stop));
          us.push_back(1000 * ms / REPEATS);
        }
        std::sort(us.begin(), us.end());
        CHECK(cudaGraphExecDestroy(exec));
        CHECK(cudaGraphDestroy(graph));
        return us[us.size() / 2];
      };
      const float all = timed([&] {
        for (const auto& [name, step] : kernels) step();
      });
      std::vector<int32_t> out(size_t(rows) * OUT);
      CHECK(cudaMemcpy(out.data(), output, out.size() * 4, cudaMemcpyDeviceToHost));
      uint64_t hash = 1469598103934665603ull;
      for (int32_t w : out) hash = (hash ^ uint32_t(w)) * 1099511628211ull;
      printf("  %2d rows %8.1f (%08x)", rows, all, unsigned(hash ^ hash >> 32));
      for (const auto& [name, step] : kernels) {
        const float own = by_kernel ? timed(step) : 0.0f;
        if (own > 4.0f) printf("\n    %s %.1f", name, own);
      }
    }
    printf("\n");
  }
}
