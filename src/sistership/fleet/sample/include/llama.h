#pragma once

#ifdef __cplusplus
extern "C" {
#endif

// Backends and what they were compiled for, on one line.
const char * llama_print_system_info(void);

// Runs the table through `n` products of `width` values and returns their sum.
float llama_decode(int n, int width);

#ifdef __cplusplus
}
#endif
