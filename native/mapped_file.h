// A file mapped read-only. Its bytes never become a JavaScript buffer: a model is larger than V8 can hold in one, so
// JavaScript knows only the address and offsets.
#pragma once

#include <napi.h>

#include <ctime>

namespace rocmforge {

class MappedFile : public Napi::ObjectWrap<MappedFile> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit MappedFile(const Napi::CallbackInfo& info);
  ~MappedFile() override;

 private:
  Napi::Value address(const Napi::CallbackInfo& info);
  Napi::Value size(const Napi::CallbackInfo& info);
  Napi::Value read_range(const Napi::CallbackInfo& info);
  Napi::Value drop_pages(const Napi::CallbackInfo& info);
  Napi::Value is_changed(const Napi::CallbackInfo& info);
  void close_file(const Napi::CallbackInfo& info);
  void unmap();

  char* address_ = nullptr;
  size_t size_ = 0;
  // Kept open: who writes to the file, or cuts it, changes what is mapped.
  int fd_ = -1;
  timespec written_{};
};

}  // namespace rocmforge
