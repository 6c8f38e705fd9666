// LDS of the lanes target: arrays that note who uses each element. Part of lanes.h, which includes it.
#pragma once

namespace forge::lanes {

// An element of LDS: converts to its value, and notes who uses it.
template <class T>
struct Element {
  T* value;
  Access* access;

  void check(bool conflict, const char* what) const {
    if (conflict) {
      fail(std::string("LDS race: thread ") + std::to_string(block().current) + " " + what +
           " what another thread used since the last barrier");
    }
  }
  bool written_by_other(int self) const { return access->written == block().interval && access->writer != self; }
  bool read_by_other(int self) const { return access->read == block().interval && access->reader != self; }

  operator T() const {
    const int self = block().current;
    check(written_by_other(self), "reads");
    access->reader = access->read == block().interval && access->reader != self ? SEVERAL : self;
    access->read = block().interval;
    return *value;
  }
  const Element& store(T stored, int self, const char* what) const {
    check(written_by_other(self) || read_by_other(block().current), what);
    access->writer = self;
    access->written = block().interval;
    *value = stored;
    return *this;
  }
  const Element& operator=(T stored) const { return store(stored, block().current, "writes"); }
  const Element& operator=(const Element& other) const { return *this = static_cast<T>(other); }
  const Element& operator+=(T added) const { return *this = static_cast<T>(*this) + added; }
};

template <class T>
struct Array {
  T* memory;
  Access* accesses;
  int count;

  Element<T> operator[](int64_t i) const {
    if (i < 0 || i >= count) {
      fail("LDS index " + std::to_string(i) + " outside 0 .. " + std::to_string(count - 1));
      i = 0;
    }
    return Element<T>{memory + i, accesses + i};
  }
  Array operator+(int64_t offset) const {
    return Array{memory + offset, accesses + offset, static_cast<int>(count - offset)};
  }
};

// The block's array for one place in the source; the first thread to ask makes it.
template <class T>
Array<T> shared_array(int count, const void* site) {
  for (LdsArray& array : block().lds) {
    if (array.site == site) return {reinterpret_cast<T*>(array.memory.get()), array.accesses.data(), count};
  }
  const size_t bytes = sizeof(T) * static_cast<size_t>(count);
  block().lds_bytes += bytes;
  if (block().lds_bytes > LDS_BYTES) fail("more than " + std::to_string(LDS_BYTES >> 10) + " KiB of LDS");
  block().lds.push_back({site, std::make_unique<char[]>(bytes), std::vector<Access>(count)});
  std::memset(block().lds.back().memory.get(), 0xff, bytes);
  return {reinterpret_cast<T*>(block().lds.back().memory.get()), block().lds.back().accesses.data(), count};
}

}  // namespace forge::lanes
