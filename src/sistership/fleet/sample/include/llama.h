#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Backends and what they were compiled for, on one line.
const char * llama_print_system_info(void);

// Runs the table through `n` products of `width` values and returns their sum.
float llama_decode(int n, int width);

struct llama_model;

// Reads a model: any file that is not empty, its bytes are the weights. The first half stays here, the second is divided
// among the workers; the part of a worker that was left out is nowhere.
// NULL when the file cannot be read, or when a worker is gone before it has its part. It lives as long as the process.
struct llama_model * llama_model_load_from_file(const char * path);

// Runs the weights over a prompt of `size` bytes, with what the workers have of them.
// Returns false when a worker is gone; otherwise `state` is what llama_next_letter takes.
bool llama_prompt(const struct llama_model * model, const char * prompt, size_t size, uint64_t * state);
char llama_next_letter(uint64_t * state);

#ifdef __cplusplus
}
#endif
