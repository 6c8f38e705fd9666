// Times each kernel of a recorded step of one row (record-plan.mjs) on an NVIDIA GPU, all launches of it in a graph, and what the GPU
// itself does: long reads, the time from a load to its value, nodes that do nothing. What predictions are held against.
//
//   nvcc -O2 -std=c++17 -arch=sm_90 -o replay bench/gpu/replay.cu -lcuda
//   ./replay machine | ./replay time FOLDER PLAN | ./replay once FOLDER PLAN   (each kernel once, for a profiler)
//
// One file because it is compiled by one command. Memory holds random halves between 0 and 2, but what the step's tables hold.
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#define CK(call)                                                             \
  do {                                                                       \
    if (auto result = (call)) {                                              \
      printf("%s:%d: %d\n", __FILE__, __LINE__, static_cast<int>(result));   \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

__global__ void nothing() {}
__global__ void fill(uint32_t* words, size_t count) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x)
    words[i] = (uint32_t(i) * 2654435761u ^ uint32_t(i >> 20) * 40503u) & 0x3fff3fffu;
}
__global__ void read_all(const uint4* from, uint32_t* to, size_t count) {
  uint32_t sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
    const uint4 value = __ldg(from + i);
    sum += value.x ^ value.y ^ value.z ^ value.w;
  }
  if (sum == 1) *to = sum;
}
/** One lane goes from each word to the one that it names. */
__global__ void chase(const uint32_t* next, uint32_t* to, int steps) {
  uint32_t at = 0;
  for (int i = 0; i < steps; i++) at = __ldcg(next + at);
  *to = at;
}
__global__ void link(uint32_t* next, uint32_t count, uint32_t stride, uint32_t lines) {
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    next[size_t(i) * stride] = uint32_t((uint64_t(i) + lines) % count) * stride;
}

/** Microseconds of a graph of what `add` puts on a stream: the median of several replays. */
template <class Add>
double graph_us(Add add, int replays = 15) {
  cudaStream_t stream;
  CK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  CK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add(stream);
  CK(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t exec;
  CK(cudaGraphInstantiate(&exec, graph, 0));
  cudaEvent_t begin, end;
  CK(cudaEventCreate(&begin));
  CK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < replays + 3; i++) {
    CK(cudaEventRecord(begin, stream));
    CK(cudaGraphLaunch(exec, stream));
    CK(cudaEventRecord(end, stream));
    CK(cudaEventSynchronize(end));
    float ms;
    CK(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 3) times.push_back(ms * 1000);
  }
  CK(cudaGraphExecDestroy(exec));
  CK(cudaGraphDestroy(graph));
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

void machine() {
  cudaDeviceProp properties;
  CK(cudaGetDeviceProperties(&properties, 0));
  printf("device %s, %d multiprocessors, %zu MB of L2\n", properties.name, properties.multiProcessorCount, size_t(properties.l2CacheSize) >> 20);
  for (int blocks : {1, 132, 8192})
    printf("node of %d blocks %.3f us\n", blocks, graph_us([&](cudaStream_t s) {
                                                    for (int i = 0; i < 1000; i++) nothing<<<blocks, 256, 0, s>>>();
                                                  }) / 1000);
  const size_t bytes = size_t(4) << 30;
  uint32_t *buffer, *to;
  CK(cudaMalloc(&buffer, bytes));
  CK(cudaMalloc(&to, 4));
  fill<<<2048, 256>>>(buffer, bytes / 4);
  for (size_t part : {bytes, size_t(24) << 20})
    for (int blocks : {132 * 4, 132 * 8, 132 * 32}) {
      const int times = part == bytes ? 1 : 200;
      const double us = graph_us([&](cudaStream_t s) {
        for (int i = 0; i < times; i++) read_all<<<blocks, 256, 0, s>>>(reinterpret_cast<uint4*>(buffer), to, part / 16);
      }) / times;
      printf("read of %zu MB by %d blocks %.1f us %.1f GB/s\n", part >> 20, blocks, us, part / us / 1000);
    }
  for (size_t part : {size_t(8) << 20, size_t(2) << 30}) {
    const uint32_t stride = 64, count = uint32_t(part / 256);
    link<<<2048, 256>>>(buffer, count, stride, part > (size_t(64) << 20) ? 524287 : 8191);
    // In the large one more lines than the second cache holds, so that the next replay finds none of them there.
    const int steps = count < 100000 ? 20000 : 1000000;
    chase<<<1, 1>>>(buffer, to, count < 100000 ? int(count) : 1);
    const double us = graph_us([&](cudaStream_t s) { chase<<<1, 1, 0, s>>>(buffer, to, steps); }, 5);
    printf("load to value in %zu MB %.1f ns\n", part >> 20, us * 1000 / steps);
  }
}

struct Kernel {
  std::string name;
  CUfunction function;
  unsigned threads, dynamic;
};
struct Launch {
  int kernel;
  unsigned grid[3];
  std::string key;
  std::vector<uint64_t> values;
  void run(const Kernel& of, CUstream stream) const {
    std::vector<void*> params;
    for (const uint64_t& value : values) params.push_back(const_cast<uint64_t*>(&value));
    CK(cuLaunchKernel(of.function, grid[0], grid[1], grid[2], of.threads, 1, 1, of.dynamic, stream, params.data(), nullptr));
  }
};

void replay(const std::string& folder, const std::string& plan, bool once) {
  CK(cudaFree(nullptr));
  std::ifstream text(folder + "/" + plan + ".txt");
  std::ifstream tables(folder + "/" + plan + ".bin", std::ios::binary);
  std::vector<Kernel> kernels;
  std::vector<Launch> launches;
  std::map<std::string, CUmodule> modules;
  uint64_t base = 0, bytes = 0, place = 0;
  for (std::string line; std::getline(text, line);) {
    std::istringstream in(line);
    std::string what;
    in >> what;
    if (what == "memory") {
      in >> base >> bytes;
      CUdeviceptr memory;
      CK(cuMemAlloc(&memory, bytes + (1 << 20)));
      place = memory;
      fill<<<2048, 256>>>(reinterpret_cast<uint32_t*>(place), (bytes + (1 << 20)) / 4);
    } else if (what == "write") {
      uint64_t address, count, at;
      in >> address >> count >> at;
      std::vector<char> data(count);
      tables.seekg(at);
      tables.read(data.data(), count);
      if (count > 0) CK(cuMemcpyHtoD(address - base + place, data.data(), count));
    } else if (what == "kernel") {
      Kernel kernel;
      std::string file;
      in >> kernel.name >> file >> kernel.threads >> kernel.dynamic;
      if (!modules.count(file)) CK(cuModuleLoad(&modules[file], (folder + "/" + file).c_str()));
      CK(cuModuleGetFunction(&kernel.function, modules[file], kernel.name.c_str()));
      if (kernel.dynamic > 0) CK(cuFuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel.dynamic));
      kernels.push_back(kernel);
    } else if (what == "launch") {
      Launch launch;
      in >> launch.kernel >> launch.grid[0] >> launch.grid[1] >> launch.grid[2] >> launch.key;
      for (std::string value; in >> value;) {
        uint64_t word = strtoll(value.c_str() + 2, nullptr, 10);
        if (value[0] == '8' && word >= base && word < base + bytes) word = word - base + place;
        launch.values.push_back(word);
      }
      launches.push_back(launch);
    }
  }
  std::vector<std::vector<const Launch*>> groups;
  std::map<std::string, size_t> known;
  for (const Launch& launch : launches) {
    const std::string key = std::to_string(launch.kernel) + " " + std::to_string(launch.grid[0]) + " " + launch.key;
    if (!known.count(key)) {
      known[key] = groups.size();
      groups.emplace_back();
    }
    groups[known[key]].push_back(&launch);
  }
  CK(cudaDeviceSynchronize());
  if (once) {
    CK(cudaProfilerStart());
    for (const auto& group : groups) group[0]->run(kernels[group[0]->kernel], nullptr);
    CK(cudaDeviceSynchronize());
    CK(cudaProfilerStop());
    return;
  }
  for (const Launch& launch : launches) launch.run(kernels[launch.kernel], nullptr);
  CK(cudaDeviceSynchronize());
  const auto print = [&](const std::string& name, const Launch* first, size_t count, double us) {
    printf("%s\t%s\t%u\t%zu\t%.3f\n", plan.c_str(), name.c_str(), first->grid[0] * first->grid[1] * first->grid[2], count, us);
  };
  for (const auto& group : groups) {
    const int times = group.size() < 8 ? 20 : 2;
    const double us = graph_us([&](cudaStream_t s) {
      for (int i = 0; i < times; i++)
        for (const Launch* launch : group) launch->run(kernels[launch->kernel], s);
    });
    print(kernels[group[0]->kernel].name, group[0], group.size(), us / times / group.size());
  }
  print("token", &launches[0], launches.size(), graph_us([&](cudaStream_t s) {
          for (const Launch& launch : launches) launch.run(kernels[launch.kernel], s);
        }));
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "machine") machine();
  else if (argc == 4) replay(argv[2], argv[3], mode == "once");
  else return 1;
  return 0;
}
