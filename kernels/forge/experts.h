// Products of experts: rows lie sorted by the expert that they are sent to, so that each expert has a run of them.
#pragma once

#include "contract.h"
#include "device.h"

namespace forge {

// A run of rows, as group_by_expert leaves it: `count` of them from `first` on. Those behind the last run have none.
struct Run {
  int expert, first, count;
};
DEVICE Run run_at(const int32_t* runs, int i) {
  const int32_t* run = runs + i * RUN_WORDS;
  return {run[0], run[1], run[2]};
}
// Address of a run's count, for kernels that read their number of rows.
DEVICE const int32_t* run_count(const int32_t* runs, int i) { return runs + i * RUN_WORDS + 2; }

}  // namespace forge
