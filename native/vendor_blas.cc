#include "vendor_blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>

#include "driver.h"
#include "probe_gpu.h"

namespace rocmforge {
namespace {

// y[tokens][out] = x[tokens][in] · weight[out][in]ᵀ, of f16 into f32, sums in f32.
struct BlasProduct {
  DeviceAddress weight = 0, x = 0, y = 0;
  int tokens = 0, out = 0, in = 0;
};

class VendorBlas {
 public:
  virtual ~VendorBlas() = default;
  // Queues the product on its stream.
  virtual void multiply(const BlasProduct& product) = 0;
};

// A library that is never closed: those of the vendors do not survive it.
class Library {
 public:
  Library(const std::string& file, std::initializer_list<const char*> names) {
    std::string said;
    if (!file.empty()) {
      said = try_open(file.c_str());
    } else {
      for (const char* name : names) {
        if (!handle_) said = try_open(name);
      }
    }
    if (!handle_) throw DeviceError("no library of matrix products: " + said);
  }

  template <class Function>
  void find(const char* name, Function** function) const {
    *function = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (!*function) throw DeviceError(std::string("the library of matrix products has no ") + name);
  }

 private:
  std::string try_open(const char* name) {
    handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return handle_ ? "" : dlerror();
  }
  void* handle_ = nullptr;
};

void check(int status, const char* call) {
  if (status != 0) throw DeviceError(std::string(call) + " failed with " + std::to_string(status));
}

// Both are column-major: rows of `in` are columns there, so the weight is transposed and y comes out as rows.

// Enumerations as in cublas_api.h and library_types.h.
class Cublas : public VendorBlas {
 public:
  Cublas(const std::string& file, DriverHandle stream)
      : library_(file, {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
    int (*create)(void**) = nullptr;
    int (*set_stream)(void*, void*) = nullptr;
    library_.find("cublasCreate_v2", &create);
    library_.find("cublasDestroy_v2", &destroy_);
    library_.find("cublasSetStream_v2", &set_stream);
    library_.find("cublasGemmEx", &gemm_);
    check(create(&handle_), "cublasCreate");
    check(set_stream(handle_, stream), "cublasSetStream");
  }
  ~Cublas() override { destroy_(handle_); }

  void multiply(const BlasProduct& p) override {
    constexpr int AS_IS = 0, TRANSPOSED = 1, F32 = 0, F16 = 2, COMPUTE_F32 = 68, DEFAULT_ALGORITHM = -1;
    const float one = 1.0f, zero = 0.0f;
    check(gemm_(handle_, TRANSPOSED, AS_IS, p.out, p.tokens, p.in, &one, reinterpret_cast<void*>(p.weight), F16, p.in,
                reinterpret_cast<void*>(p.x), F16, p.in, &zero, reinterpret_cast<void*>(p.y), F32, p.out, COMPUTE_F32,
                DEFAULT_ALGORITHM),
          "cublasGemmEx");
  }

 private:
  Library library_;
  void* handle_ = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*gemm_)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*,
               void*, int, int, int, int) = nullptr;
};

// Enumerations as in rocblas-types.h.
class Rocblas : public VendorBlas {
 public:
  Rocblas(const std::string& file, DriverHandle stream)
      : library_(file, {"librocblas.so.5", "librocblas.so.4", "librocblas.so"}) {
    int (*create)(void**) = nullptr;
    int (*set_stream)(void*, void*) = nullptr;
    library_.find("rocblas_create_handle", &create);
    library_.find("rocblas_destroy_handle", &destroy_);
    library_.find("rocblas_set_stream", &set_stream);
    library_.find("rocblas_gemm_ex", &gemm_);
    check(create(&handle_), "rocblas_create_handle");
    check(set_stream(handle_, stream), "rocblas_set_stream");
  }
  ~Rocblas() override { destroy_(handle_); }

  void multiply(const BlasProduct& p) override {
    constexpr int AS_IS = 111, TRANSPOSED = 112, F16 = 150, F32 = 151, STANDARD = 0;
    const float one = 1.0f, zero = 0.0f;
    void* const y = reinterpret_cast<void*>(p.y);
    check(gemm_(handle_, TRANSPOSED, AS_IS, p.out, p.tokens, p.in, &one, reinterpret_cast<void*>(p.weight), F16, p.in,
                reinterpret_cast<void*>(p.x), F16, p.in, &zero, y, F32, p.out, y, F32, p.out, F32, STANDARD, 0, 0),
          "rocblas_gemm_ex");
  }

 private:
  Library library_;
  void* handle_ = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*gemm_)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*,
               const void*, int, int, void*, int, int, int, int, int, unsigned) = nullptr;
};

std::unique_ptr<VendorBlas> open_vendor_blas(const std::string& platform, const std::string& file,
                                             DriverHandle stream) {
  if (platform == "cuda") return std::make_unique<Cublas>(file, stream);
  return std::make_unique<Rocblas>(file, stream);
}

// Microseconds of a product, of `repeats` in one graph: the best of several runs.
double time_product(Driver& driver, VendorBlas& blas, DriverHandle stream, const BlasProduct& product, int repeats) {
  constexpr int CAPTURE_RELAXED = 2, RUNS = 6;
  const auto done = [&](DriverResult result) {
    if (result != DRIVER_SUCCESS) throw DeviceError(driver.error_text(result));
  };
  // The first time it loads its kernels and takes its memory, which no capture may hold.
  blas.multiply(product);
  done(driver.stream_synchronize(stream));
  DriverHandle graph = nullptr, executable = nullptr, begun = nullptr, ended = nullptr;
  done(driver.stream_begin_capture(stream, CAPTURE_RELAXED));
  for (int i = 0; i < repeats; i++) blas.multiply(product);
  done(driver.stream_end_capture(stream, &graph));
  done(driver.graph_instantiate(&executable, graph, 0));
  done(driver.event_create(&begun, 0));
  done(driver.event_create(&ended, 0));
  double best = std::numeric_limits<double>::infinity();
  for (int run = 0; run < RUNS; run++) {
    float milliseconds = 0;
    done(driver.event_record(begun, stream));
    done(driver.graph_launch(executable, stream));
    done(driver.event_record(ended, stream));
    done(driver.event_synchronize(ended));
    done(driver.event_elapsed_ms(&milliseconds, begun, ended));
    best = std::min(best, milliseconds * 1e3 / repeats);
  }
  done(driver.event_destroy(begun));
  done(driver.event_destroy(ended));
  done(driver.graph_exec_destroy(executable));
  done(driver.graph_destroy(graph));
  return best;
}

}  // namespace

Napi::Value time_vendor_product(const Napi::CallbackInfo& info) {
  const std::string platform = info[0].As<Napi::String>(), file = info[2].As<Napi::String>();
  const Napi::Object values = info[3].As<Napi::Object>();
  const auto number = [&](const char* name) { return values.Get(name).As<Napi::Number>().Int64Value(); };
  BlasProduct product;
  product.weight = number("weight");
  product.x = number("x");
  product.y = number("y");
  product.tokens = number("tokens");
  product.out = number("out");
  product.in = number("in");
  const int ordinal = info[1].As<Napi::Number>(), repeats = info[4].As<Napi::Number>();
  try {
    const std::unique_ptr<Driver> driver = load_driver(platform);
    const auto done = [&](DriverResult result) {
      if (result != DRIVER_SUCCESS) throw DeviceError(driver->error_text(result));
    };
    done(driver->init(0));
    done(driver->open_device(ordinal));
    done(driver->bind_thread());
    DriverHandle stream = nullptr;
    done(driver->stream_create(&stream, 0));
    const double us = time_product(*driver, *open_vendor_blas(platform, file, stream), stream, product, repeats);
    done(driver->stream_destroy(stream));
    // The context stays: the memory is of a device that has it open, too.
    return Napi::Number::New(info.Env(), us);
  } catch (const DeviceError& error) {
    throw to_javascript(info.Env(), error);
  }
}

}  // namespace rocmforge
