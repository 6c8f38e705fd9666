// Cost of stamping a launch:
//   g++ -std=c++20 -O2 -Inative bench/native/fault-record.cc native/fault_record.cc -o /tmp/fault-record && /tmp/fault-record
#include "fault_record.h"

#include <chrono>
#include <cstdio>

int main() {
  using namespace rocmforge;
  FaultRecord& record = FaultRecord::instance();
  record.open("/tmp/fault-record.bin");
  const std::string kernel = "gate_up_swiglu_packed_q4_k";
  const uint64_t words[15] = {};
  constexpr int LAUNCHES = 10'000'000;
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < LAUNCHES; i++) record.launch(0, kernel, {i, 1, 1}, words, 15);
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - began;
  std::printf("%.1f ns a launch of 15 arguments\n", taken.count() / LAUNCHES);
}
