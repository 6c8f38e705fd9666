// A list of launches, recorded once and replayed each step. Pointers and scalars are fixed when it is recorded; only
// grids follow the step, through its counts (rows, sampled rows, ...).
#pragma once

#include <memory>
#include <vector>

#include "device.h"

namespace rocmforge {

// One dimension of a grid: ceil(value / divisor), where value is a constant or one of the step's counts.
struct GridDim {
  int count_index = -1;  // -1: the constant
  int constant = 1;
  int divisor = 1;

  int resolve(const std::vector<int>& counts) const {
    const int value = count_index < 0 ? constant : counts[count_index];
    return (value + divisor - 1) / divisor;
  }
};

struct Launch {
  const Kernel* kernel = nullptr;
  GridDim grid[3];
  std::vector<uint64_t> storage;  // one word an argument
  std::vector<void*> params;      // params[i] points at storage[i]
};

struct LaunchPlan {
  int count_slots = 0;  // how many counts a step must bring
  std::vector<Launch> launches;

  void run(Device& device, const std::vector<int>& counts) const {
    for (const Launch& launch : launches) {
      const Dim3 grid{launch.grid[0].resolve(counts), launch.grid[1].resolve(counts), launch.grid[2].resolve(counts)};
      if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) continue;
      device.launch(launch.kernel, grid, launch.params.data());
    }
  }
};

}  // namespace rocmforge
