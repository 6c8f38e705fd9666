// LDS of the lanes target: arrays that note who uses each element. Part of lanes.h, which includes it.
#pragma once

namespace forge::lanes {

constexpr int NOBODY = -1, SEVERAL = -2, ATOMIC = -3;  // in place of a thread id

// Last writer and reader of an element of LDS, and the barriers between which they ran.
struct Access {
  int writer = NOBODY, reader = NOBODY, written = -1, read = -1;
};

// An array of LDS: its elements, and who uses each.
struct Lds {
  void* memory;
  Access* accesses;
};

// The block's array for one place in the source, of `count` elements; the first thread to ask makes it.
Lds find_lds(const void* site, size_t bytes, int count) noexcept;
void report_race(const char* what) noexcept;
void report_outside(int64_t index, int count) noexcept;

// An element of LDS: converts to its value, and notes who uses it.
template <class T>
struct Element {
  T* value;
  Access* access;

  void check(bool conflict, const char* what) const {
    if (conflict) report_race(what);
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
      report_outside(i, count);
      i = 0;
    }
    return Element<T>{memory + i, accesses + i};
  }
  Array operator+(int64_t offset) const {
    return Array{memory + offset, accesses + offset, static_cast<int>(count - offset)};
  }
};

// The block's array for one place in the source.
template <class T>
Array<T> shared_array(int count, const void* site) {
  const Lds lds = find_lds(site, sizeof(T) * static_cast<size_t>(count), count);
  return {static_cast<T*>(lds.memory), lds.accesses, count};
}

}  // namespace forge::lanes
