#pragma once

#include "ggml.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

// Ends the process: a card that fails in the middle leaves nothing to go on with.
#define CUDA_CHECK(call)                                                                                        \
    do {                                                                                                        \
        const cudaError_t error_ = (call);                                                                      \
        if (error_ != cudaSuccess) {                                                                            \
            fprintf(stderr, "CUDA error: %s\n  in %s\n", cudaGetErrorString(error_), #call);                    \
            ggml_abort(__FILE__, __LINE__, #call);                                                              \
        }                                                                                                       \
    } while (0)

static constexpr int WARP_SIZE = 32;

// Values that an operation is tried with; a multiple of the warp.
static constexpr int GGML_CUDA_TRIAL = 256;

// What a card must be able to do. `run` gets memory of the card, `expected` gives the same on the CPU.
struct ggml_cuda_op {
    const char * name;
    void (*run)(const float * x, float * y);
    void (*expected)(const float * x, float * y);
};

// All operations, put there by their own files while the library is loaded.
std::vector<ggml_cuda_op> & ggml_cuda_ops();

struct ggml_cuda_registration {
    explicit ggml_cuda_registration(const ggml_cuda_op & op) { ggml_cuda_ops().push_back(op); }
};

// Counts a launch on the card itself.
void ggml_cuda_count_launch();
unsigned long long ggml_cuda_launches();
