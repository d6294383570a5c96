#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

// Number of values in the built-in table.
size_t ggml_cpu_table_size(void);

// Dot product of `n` values of the table that begin at `first` with the values of `x`.
float ggml_cpu_dot(size_t first, const float * x, size_t n);

// What this library was compiled for, e.g. "SSE42 = 1 | AVX2 = 1 | ".
const char * ggml_cpu_features(void);

#ifdef __cplusplus
}
#endif
