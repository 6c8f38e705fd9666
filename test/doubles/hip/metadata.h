// Metadata of a code object's kernels: enough of ELF and MessagePack to read the AMDGPU metadata note.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace double_hip {

struct KernelMetadata {
  std::string name;
  std::vector<int> argument_bytes;
};

// A MessagePack value, as far as code objects use them.
struct Value {
  std::string text;
  uint64_t number = 0;
  std::vector<Value> list;
  std::map<std::string, Value> fields;
};

class MessagePack {
 public:
  MessagePack(const uint8_t* at, const uint8_t* end) : at_(at), end_(end) {}

  Value read() {
    const uint8_t tag = byte();
    Value value;
    if (tag < 0x80 || tag >= 0xe0) value.number = tag;
    else if (tag < 0x90) read_fields(value, tag & 15);
    else if (tag < 0xa0) read_list(value, tag & 15);
    else if (tag < 0xc0) value.text = string(tag & 31);
    else if (tag == 0xc2 || tag == 0xc3) value.number = tag & 1;
    else if (tag == 0xd9 || tag == 0xda || tag == 0xdb) value.text = string(integer(1 << (tag - 0xd9)));
    else if (tag >= 0xcc && tag <= 0xcf) value.number = integer(1 << (tag - 0xcc));
    else if (tag >= 0xd0 && tag <= 0xd3) value.number = integer(1 << (tag - 0xd0));
    else if (tag == 0xdc || tag == 0xdd) read_list(value, integer(tag == 0xdc ? 2 : 4));
    else if (tag == 0xde || tag == 0xdf) read_fields(value, integer(tag == 0xde ? 2 : 4));
    else if (tag != 0xc0) throw std::runtime_error("metadata holds a MessagePack type of no use to kernels");
    return value;
  }

 private:
  uint8_t byte() {
    if (at_ >= end_) throw std::runtime_error("metadata ends early");
    return *at_++;
  }
  uint64_t integer(int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | byte();
    return value;
  }
  std::string string(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(end_ - at_)) throw std::runtime_error("metadata ends early");
    at_ += bytes;
    return std::string(reinterpret_cast<const char*>(at_ - bytes), bytes);
  }
  void read_list(Value& value, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) value.list.push_back(read());
  }
  void read_fields(Value& value, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
      const std::string key = read().text;
      value.fields[key] = read();
    }
  }

  const uint8_t *at_, *end_;
};

// Throws std::runtime_error for an image that is no code object.
inline std::map<std::string, KernelMetadata> read_kernels(const uint8_t* image) {
  if (std::memcmp(image, "\177ELF", 4) != 0) throw std::runtime_error("not an ELF image");
  const auto word = [&](size_t at, int bytes) {
    uint64_t value = 0;
    std::memcpy(&value, image + at, bytes);
    return value;
  };
  constexpr uint64_t EM_AMDGPU = 224, SHT_NOTE = 7, NT_AMDGPU_METADATA = 32;
  if (word(0x12, 2) != EM_AMDGPU) throw std::runtime_error("not an AMD code object");
  const auto align = [](uint64_t n) { return (n + 3) & ~uint64_t{3}; };
  for (uint64_t i = 0; i < word(0x3c, 2); i++) {
    const uint64_t section = word(0x28, 8) + i * word(0x3a, 2);
    if (word(section + 4, 4) != SHT_NOTE) continue;
    const uint64_t first = word(section + 0x18, 8), end = first + word(section + 0x20, 8);
    for (uint64_t at = first; at < end;) {
      const uint64_t name_bytes = word(at, 4), bytes = word(at + 4, 4), type = word(at + 8, 4);
      const uint64_t descriptor = at + 12 + align(name_bytes);
      at = descriptor + align(bytes);
      if (type != NT_AMDGPU_METADATA) continue;
      Value metadata = MessagePack(image + descriptor, image + descriptor + bytes).read();
      std::map<std::string, KernelMetadata> kernels;
      for (Value& kernel : metadata.fields["amdhsa.kernels"].list) {
        KernelMetadata described{kernel.fields[".name"].text, {}};
        for (Value& argument : kernel.fields[".args"].list) {
          if (argument.fields[".value_kind"].text.rfind("hidden_", 0) == 0) continue;
          described.argument_bytes.push_back(static_cast<int>(argument.fields[".size"].number));
        }
        kernels[described.name] = described;
      }
      return kernels;
    }
  }
  throw std::runtime_error("the code object holds no metadata");
}

}  // namespace double_hip
