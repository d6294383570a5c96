#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Number of values in the built-in table.
size_t ggml_cpu_table_size(void);

// Dot products of `n` values of the table that begin at `first` with the values of `x`.
// Products and sums are rounded alike on every CPU as long as each x is a power of two, and added in one order.
float ggml_cpu_dot(size_t first, const float * x, size_t n);

// The same for half precision (IEEE 754 binary16).
float ggml_cpu_dot_f16(size_t first, const uint16_t * x, size_t n);

// Dot product of `n` bytes of the table, taken as signed numbers, that begin with value `first`. No x is -128.
int32_t ggml_cpu_dot_i8(size_t first, const int8_t * x, size_t n);

// What this library was compiled for, e.g. "SSE42 = 1 | AVX2 = 1 | ".
const char * ggml_cpu_features(void);

#ifdef __cplusplus
}
#endif
