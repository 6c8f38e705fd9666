// A list of launches, recorded once and replayed each step. Pointers and scalars are fixed when it is recorded; only
// grids follow the step, through its counts (rows, sampled rows, ...).
#pragma once

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "device.h"
#include "fault_record.h"

namespace rocmforge {

// One dimension of a grid: ceil(value / divisor), where value is a constant or follows one of the step's counts: of
// what it counts those from `first` on, `most` at most, `times` for each.
struct GridDim {
  int count_index = -1;  // -1: the constant
  int constant = 1;
  int divisor = 1;
  int first = 0, most = 0, times = 1;

  int resolve(const std::vector<int>& counts) const {
    const int value = count_index < 0 ? constant : std::min(counts[count_index] - first, most) * times;
    return value <= 0 ? 0 : (value + divisor - 1) / divisor;
  }
};

struct Launch {
  const Kernel* kernel = nullptr;
  GridDim grid[3];
  // Launched only when counts[when_count] lies in [at_least, at_most]; -1: always. Kernels that compute the same bits
  // for few and for many rows take turns so.
  int when_count = -1, at_least = 0, at_most = 0;
  std::vector<uint64_t> storage;  // one word an argument
  std::vector<void*> params;      // params[i] points at storage[i]
  std::string description;        // its arguments, when launches are logged; else empty
  bool on_host = false;           // by the plan's host device, between the device's launches
  int mark = -1;                  // a launch on the host may wait for this one alone, and those before it
  int behind_mark = -1;           // of one on the host: the mark that it waits for; -1: for all launches

  bool is_launched(const std::vector<int>& counts) const {
    return when_count < 0 || (counts[when_count] >= at_least && counts[when_count] <= at_most);
  }
  bool is_logged() const { return !description.empty(); }
};

struct LaunchPlan {
  int count_slots = 0;     // how many counts a step must bring
  Device* host = nullptr;  // of launches on the host; null: there are none
  std::vector<Launch> launches;

  // Launches before this one depend on counts that do not recur: they stay outside captures.
  size_t capture_from = 0;
  // The counts that the others depend on, in rising order: two steps that agree in them launch the same.
  std::vector<int> graph_counts;

  // To be called once all launches are there.
  void find_graph_counts() {
    std::vector<bool> used(count_slots, false);
    for (size_t i = capture_from; i < launches.size(); i++) {
      if (launches[i].when_count >= 0) used[launches[i].when_count] = true;
      for (const GridDim& dim : launches[i].grid) {
        if (dim.count_index >= 0) used[dim.count_index] = true;
      }
    }
    for (int i = 0; i < count_slots; i++) {
      if (used[i]) graph_counts.push_back(i);
    }
  }

  // Key that distinguishes the graph of one step from that of another.
  std::vector<int> graph_key(const std::vector<int>& counts) const {
    std::vector<int> key;
    for (const int index : graph_counts) key.push_back(counts[index]);
    return key;
  }

  bool is_logged() const { return !launches.empty() && launches.front().is_logged(); }

  // Calls visit(first, last, may_capture) for each run of launches in one place, in order, of those from capture_from
  // on. Launches that these counts leave out part no run. A run with marks is not captured: the event of a mark would
  // belong to the graph.
  template <class Visit>
  void each_segment(const std::vector<int>& counts, Visit visit) const {
    for (size_t first = capture_from; first < launches.size();) {
      bool on_host = false, is_empty = true, has_marks = false;
      size_t last = first;
      for (; last < launches.size(); last++) {
        const Launch& launch = launches[last];
        if (!launch.is_launched(counts)) continue;
        if (!is_empty && launch.on_host != on_host) break;
        on_host = launch.on_host;
        is_empty = false;
        if (launch.mark >= 0) has_marks = true;
      }
      if (!is_empty) visit(first, last, !on_host && !has_marks);
      first = last;
    }
  }

  // Calls visit(launch, grid) for what this step launches of [first, last), in order.
  template <class Visit>
  void each(const std::vector<int>& counts, size_t first, size_t last, Visit visit) const {
    for (size_t i = first; i < last; i++) {
      const Launch& launch = launches[i];
      if (!launch.is_launched(counts)) continue;
      const Dim3 grid{launch.grid[0].resolve(counts), launch.grid[1].resolve(counts), launch.grid[2].resolve(counts)};
      if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) continue;
      if (launch.is_logged()) {
        std::fprintf(stderr, "launch %s grid=%d,%d,%d %s\n", launch.kernel->name.c_str(), grid.x, grid.y, grid.z,
                     launch.description.c_str());
        std::fflush(stderr);
      }
      visit(launch, grid);
    }
  }

  void run(Device& device, const std::vector<int>& counts, size_t first, size_t last) const {
    FaultRecord& record = FaultRecord::instance();
    bool is_behind = false, have_ended = false;
    each(counts, first, last, [&](const Launch& launch, Dim3 grid) {
      record.launch(device.number, launch.kernel->name, grid, launch.storage.data(), launch.storage.size());
      if (launch.on_host) {
        // What the host reads is there when the device's launches have ended; its own have when the call returns.
        if (launch.behind_mark >= 0) {
          device.wait_for_mark(launch.behind_mark);
        } else if (!have_ended) {
          device.synchronize();
          have_ended = true;
        }
        host->launch(launch.kernel, grid, launch.params.data());
      } else {
        have_ended = false;
        if (is_behind) {
          device.launch_behind(launch.kernel, grid, launch.params.data());
        } else {
          device.launch(launch.kernel, grid, launch.params.data());
        }
        if (launch.mark >= 0) device.set_mark(launch.mark);
      }
      is_behind = !launch.is_logged() && !launch.on_host;
      // The last line of the log is then of the kernel that failed.
      if (launch.is_logged()) device.synchronize();
    });
  }
};

}  // namespace rocmforge
