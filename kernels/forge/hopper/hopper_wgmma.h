// m64nNk16 with 64 rows in registers: one overload of multiply_wide for each N and element type; multiply_transposed
// where the columns in LDS lie side by side, as rows of one element of each.
#define FORGE_WGMMA_16(type)                                                                                     \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %13, 0; wgmma.mma_async.sync.aligned.m64n16k16.f32." type "." type \
               " {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 0;}"                        \
               : "+f"(sum.values[0]), "+f"(sum.values[1]), "+f"(sum.values[2]), "+f"(sum.values[3]),             \
                 "+f"(sum.values[4]), "+f"(sum.values[5]), "+f"(sum.values[6]), "+f"(sum.values[7])              \
               : "r"(parts[0]), "r"(parts[1]), "r"(parts[2]), "r"(parts[3]), "l"(columns), "r"(keep))
template <class T>
DEVICE void multiply_wide(WideSum<16>& sum, const uint32_t (&parts)[4], uint64_t columns, int keep) {
  if constexpr (IS_HALF<T>) {
    FORGE_WGMMA_16("f16");
  } else {
    FORGE_WGMMA_16("bf16");
  }
}
#define FORGE_WGMMA_32(type)                                                                                          \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %21, 0; wgmma.mma_async.sync.aligned.m64n32k16.f32." type "." type      \
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19}, %20, " \
               "p, 1, 1, 0;}"                                                                                         \
               : "+f"(sum.values[0]), "+f"(sum.values[1]), "+f"(sum.values[2]), "+f"(sum.values[3]),                  \
                 "+f"(sum.values[4]), "+f"(sum.values[5]), "+f"(sum.values[6]), "+f"(sum.values[7]),                  \
                 "+f"(sum.values[8]), "+f"(sum.values[9]), "+f"(sum.values[10]), "+f"(sum.values[11]),                \
                 "+f"(sum.values[12]), "+f"(sum.values[13]), "+f"(sum.values[14]), "+f"(sum.values[15])               \
               : "r"(parts[0]), "r"(parts[1]), "r"(parts[2]), "r"(parts[3]), "l"(columns), "r"(keep))
template <class T>
DEVICE void multiply_wide(WideSum<32>& sum, const uint32_t (&parts)[4], uint64_t columns, int keep) {
  if constexpr (IS_HALF<T>) {
    FORGE_WGMMA_32("f16");
  } else {
    FORGE_WGMMA_32("bf16");
  }
}
#define FORGE_WGMMA_64(type, transposed)                                                                              \
  asm volatile(                                                                                                       \
      "{.reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type               \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, "             \
      "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, {%32, %33, %34, %35}, %36, p, 1, 1, " transposed ";}"  \
      : "+f"(sum.values[0]), "+f"(sum.values[1]), "+f"(sum.values[2]), "+f"(sum.values[3]), "+f"(sum.values[4]),      \
        "+f"(sum.values[5]), "+f"(sum.values[6]), "+f"(sum.values[7]), "+f"(sum.values[8]), "+f"(sum.values[9]),      \
        "+f"(sum.values[10]), "+f"(sum.values[11]), "+f"(sum.values[12]), "+f"(sum.values[13]), "+f"(sum.values[14]), \
        "+f"(sum.values[15]), "+f"(sum.values[16]), "+f"(sum.values[17]), "+f"(sum.values[18]), "+f"(sum.values[19]), \
        "+f"(sum.values[20]), "+f"(sum.values[21]), "+f"(sum.values[22]), "+f"(sum.values[23]), "+f"(sum.values[24]), \
        "+f"(sum.values[25]), "+f"(sum.values[26]), "+f"(sum.values[27]), "+f"(sum.values[28]), "+f"(sum.values[29]), \
        "+f"(sum.values[30]), "+f"(sum.values[31])                                                                    \
      : "r"(parts[0]), "r"(parts[1]), "r"(parts[2]), "r"(parts[3]), "l"(columns), "r"(keep))
template <class T>
DEVICE void multiply_wide(WideSum<64>& sum, const uint32_t (&parts)[4], uint64_t columns, int keep) {
  if constexpr (IS_HALF<T>) {
    FORGE_WGMMA_64("f16", "0");
  } else {
    FORGE_WGMMA_64("bf16", "0");
  }
}
#define FORGE_WGMMA_128(type, transposed)                                                                              \
  asm volatile(                                                                                                        \
      "{.reg .pred p; setp.ne.b32 p, %69, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type               \
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, "    \
      "%23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, " \
      "%45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, {%64, %65, "    \
      "%66, %67}, %68, p, 1, 1, " transposed ";}"                                                                      \
      : "+f"(sum.values[0]), "+f"(sum.values[1]), "+f"(sum.values[2]), "+f"(sum.values[3]), "+f"(sum.values[4]),       \
        "+f"(sum.values[5]), "+f"(sum.values[6]), "+f"(sum.values[7]), "+f"(sum.values[8]), "+f"(sum.values[9]),       \
        "+f"(sum.values[10]), "+f"(sum.values[11]), "+f"(sum.values[12]), "+f"(sum.values[13]), "+f"(sum.values[14]),  \
        "+f"(sum.values[15]), "+f"(sum.values[16]), "+f"(sum.values[17]), "+f"(sum.values[18]), "+f"(sum.values[19]),  \
        "+f"(sum.values[20]), "+f"(sum.values[21]), "+f"(sum.values[22]), "+f"(sum.values[23]), "+f"(sum.values[24]),  \
        "+f"(sum.values[25]), "+f"(sum.values[26]), "+f"(sum.values[27]), "+f"(sum.values[28]), "+f"(sum.values[29]),  \
        "+f"(sum.values[30]), "+f"(sum.values[31]), "+f"(sum.values[32]), "+f"(sum.values[33]), "+f"(sum.values[34]),  \
        "+f"(sum.values[35]), "+f"(sum.values[36]), "+f"(sum.values[37]), "+f"(sum.values[38]), "+f"(sum.values[39]),  \
        "+f"(sum.values[40]), "+f"(sum.values[41]), "+f"(sum.values[42]), "+f"(sum.values[43]), "+f"(sum.values[44]),  \
        "+f"(sum.values[45]), "+f"(sum.values[46]), "+f"(sum.values[47]), "+f"(sum.values[48]), "+f"(sum.values[49]),  \
        "+f"(sum.values[50]), "+f"(sum.values[51]), "+f"(sum.values[52]), "+f"(sum.values[53]), "+f"(sum.values[54]),  \
        "+f"(sum.values[55]), "+f"(sum.values[56]), "+f"(sum.values[57]), "+f"(sum.values[58]), "+f"(sum.values[59]),  \
        "+f"(sum.values[60]), "+f"(sum.values[61]), "+f"(sum.values[62]), "+f"(sum.values[63])                         \
      : "r"(parts[0]), "r"(parts[1]), "r"(parts[2]), "r"(parts[3]), "l"(columns), "r"(keep))
template <class T>
DEVICE void multiply_wide(WideSum<128>& sum, const uint32_t (&parts)[4], uint64_t columns, int keep) {
  if constexpr (IS_HALF<T>) {
    FORGE_WGMMA_128("f16", "0");
  } else {
    FORGE_WGMMA_128("bf16", "0");
  }
}
DEVICE void multiply_transposed(WideSum<64>& sum, const uint32_t (&parts)[4], uint64_t columns, int keep) {
  FORGE_WGMMA_64("f16", "1");
}
DEVICE void multiply_transposed(WideSum<128>& sum, const uint32_t (&parts)[4], uint64_t columns, int keep) {
  FORGE_WGMMA_128("f16", "1");
}
// The same with the 64 rows in LDS, as columns are.
DEVICE void multiply_rows(WideSum<128>& sum, uint64_t rows, uint64_t columns, int keep) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, "
      "%5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "
      "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0;}"
      : "+f"(sum.values[0]), "+f"(sum.values[1]), "+f"(sum.values[2]), "+f"(sum.values[3]), "+f"(sum.values[4]),
        "+f"(sum.values[5]), "+f"(sum.values[6]), "+f"(sum.values[7]), "+f"(sum.values[8]), "+f"(sum.values[9]),
        "+f"(sum.values[10]), "+f"(sum.values[11]), "+f"(sum.values[12]), "+f"(sum.values[13]), "+f"(sum.values[14]),
        "+f"(sum.values[15]), "+f"(sum.values[16]), "+f"(sum.values[17]), "+f"(sum.values[18]), "+f"(sum.values[19]),
        "+f"(sum.values[20]), "+f"(sum.values[21]), "+f"(sum.values[22]), "+f"(sum.values[23]), "+f"(sum.values[24]),
        "+f"(sum.values[25]), "+f"(sum.values[26]), "+f"(sum.values[27]), "+f"(sum.values[28]), "+f"(sum.values[29]),
        "+f"(sum.values[30]), "+f"(sum.values[31]), "+f"(sum.values[32]), "+f"(sum.values[33]), "+f"(sum.values[34]),
        "+f"(sum.values[35]), "+f"(sum.values[36]), "+f"(sum.values[37]), "+f"(sum.values[38]), "+f"(sum.values[39]),
        "+f"(sum.values[40]), "+f"(sum.values[41]), "+f"(sum.values[42]), "+f"(sum.values[43]), "+f"(sum.values[44]),
        "+f"(sum.values[45]), "+f"(sum.values[46]), "+f"(sum.values[47]), "+f"(sum.values[48]), "+f"(sum.values[49]),
        "+f"(sum.values[50]), "+f"(sum.values[51]), "+f"(sum.values[52]), "+f"(sum.values[53]), "+f"(sum.values[54]),
        "+f"(sum.values[55]), "+f"(sum.values[56]), "+f"(sum.values[57]), "+f"(sum.values[58]), "+f"(sum.values[59]),
        "+f"(sum.values[60]), "+f"(sum.values[61]), "+f"(sum.values[62]), "+f"(sum.values[63])
      : "l"(rows), "l"(columns), "r"(keep));
}
