// What llama.cpp makes of blocks: LIBRARY FUNCTION BLOCK_BYTES BLOCK_ELEMENTS, blocks on stdin, f32 on stdout.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef void (*Dequantize)(const void* blocks, float* values, int64_t elements);

int main(int count, char** arguments) {
  if (count != 5) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  Dequantize dequantize = library == NULL ? NULL : (Dequantize)dlsym(library, arguments[2]);
  if (dequantize == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const size_t bytes = strtoul(arguments[3], NULL, 10), elements = strtoul(arguments[4], NULL, 10);
  uint8_t* block = malloc(bytes);
  float* values = malloc(elements * sizeof(float));
  while (fread(block, 1, bytes, stdin) == bytes) {
    dequantize(block, values, (int64_t)elements);
    fwrite(values, sizeof(float), elements, stdout);
  }
  return 0;
}
