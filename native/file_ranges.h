// Ranges of a file, such as of memory that outlives the process, on their way to a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "thread_pool.h"

namespace rocmforge {

struct FileRanges {
  struct Range {
    int64_t offset;
    size_t bytes;
  };

  int descriptor = -1;
  std::vector<Range> ranges;

  size_t bytes() const;
  // Reads them one behind the other: one thread alone copies slower than a bus. Throws std::runtime_error if the file
  // ends sooner.
  void read(uint8_t* to, ThreadPool& threads) const;
};

}  // namespace rocmforge
