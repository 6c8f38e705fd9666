{
  "targets": [
    {
      "target_name": "rocmforge",
      "sources": [
        "native/constraints/automaton.cc",
        "native/constraints/expression.cc",
        "native/constraints/grammar.cc",
        "native/constraints/matcher.cc",
        "native/constraints/token_trie.cc",
        "native/constraints/vocabulary_object.cc",
        "native/device_link.cc",
        "native/device_object.cc",
        "native/device_thread.cc",
        "native/driver.cc",
        "native/fault_record.cc",
        "native/file_ranges.cc",
        "native/gpu_device.cc",
        "native/gpu_passage.cc",
        "native/host_device.cc",
        "native/objects_unity.cc",
        "native/thread_pool.cc"
      ],
      "include_dirs": ["<!@(node -p \"require('node-addon-api').include\")"],
      "defines": ["NAPI_VERSION=8", "NODE_ADDON_API_DISABLE_DEPRECATED"],
      "cflags!": ["-fno-exceptions"],
      "cflags_cc!": ["-fno-exceptions", "-std=gnu++17", "-fno-rtti"],
      "cflags_cc": ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror", "-Wno-cast-function-type", "-fvisibility=hidden"],
      "ldflags": ["-static-libstdc++", "-Wl,--exclude-libs,ALL", "-Wl,--gc-sections"],
      "libraries": ["-ldl", "-lpthread"]
    }
  ]
}
