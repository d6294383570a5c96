// Nothing of this file has a name outside it: it registers itself. nvcc then has no symbol to call the module after.

#include "common.cuh"

#include <cmath>

namespace {

constexpr int BLOCK = GGML_CUDA_TRIAL;

__global__ void softmax(const float * x, float * y) {
    __shared__ float part[BLOCK];
    const int i = static_cast<int>(threadIdx.x);
    const float value = expf(x[i]);
    part[i] = value;
    __syncthreads();
    for (int half_way = BLOCK / 2; half_way > 0; half_way /= 2) {
        if (i < half_way) {
            part[i] += part[i + half_way];
        }
        __syncthreads();
    }
    y[i] = value / part[0];
}

void run(const float * x, float * y) {
    softmax<<<1, BLOCK>>>(x, y);
    ggml_cuda_count_launch();
}

void expected(const float * x, float * y) {
    float sum = 0.0f;
    for (int i = 0; i < BLOCK; i++) {
        y[i] = std::exp(x[i]);
        sum += y[i];
    }
    for (int i = 0; i < BLOCK; i++) {
        y[i] /= sum;
    }
}

const ggml_cuda_registration SOFTMAX({"softmax", run, expected});

}  // namespace
