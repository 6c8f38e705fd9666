#include "file_ranges.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>

namespace rocmforge {
namespace {

// A thread reads so much at once: little, so that all end together.
constexpr size_t READ_BYTES = 64 << 10;

struct Piece {
  int64_t offset;
  uint8_t* to;
  size_t bytes;
};

struct Reading {
  int descriptor;
  std::vector<Piece> pieces;
  // An errno value; -1 if the file ends sooner.
  std::atomic<int> error{0};

  void read(Piece piece) {
    while (piece.bytes > 0) {
      const ssize_t count = pread(descriptor, piece.to, piece.bytes, piece.offset);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        error = count < 0 ? errno : -1;
        return;
      }
      piece.offset += count;
      piece.to += count;
      piece.bytes -= count;
    }
  }
};

}  // namespace

size_t FileRanges::bytes() const {
  size_t sum = 0;
  for (const Range& range : ranges) sum += range.bytes;
  return sum;
}

void FileRanges::read(uint8_t* to, ThreadPool& threads) const {
  Reading reading{descriptor, {}};
  for (const auto& [offset, bytes] : ranges) {
    for (size_t from = 0; from < bytes; from += READ_BYTES) {
      const size_t count = std::min(READ_BYTES, bytes - from);
      reading.pieces.push_back({offset + static_cast<int64_t>(from), to, count});
      to += count;
    }
  }
  const auto task = [](void* context, int64_t first, int64_t last) {
    auto* all = static_cast<Reading*>(context);
    for (int64_t i = first; i < last; i++) all->read(all->pieces[i]);
  };
  threads.run(static_cast<int64_t>(reading.pieces.size()), task, &reading);
  if (reading.error == 0) return;
  const std::string why = reading.error < 0 ? "it ends before what is to be read" : strerror(reading.error);
  throw std::runtime_error("cannot read memory of the host: " + why);
}

}  // namespace rocmforge
