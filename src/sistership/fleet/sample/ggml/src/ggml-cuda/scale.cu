// One value per thread, the plainest kernel there is.

#include "scale.cuh"

#include "common.cuh"

__global__ void ggml_cuda_scale_kernel(const float * x, float * y, float factor, int n) {
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) {
        y[i] = factor * x[i];
    }
}

void ggml_cuda_scale(const float * x, float * y, float factor, int n) {
    constexpr int BLOCK = 128;
    ggml_cuda_scale_kernel<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(x, y, factor, n);
    ggml_cuda_count_launch();
}

static const ggml_cuda_registration SCALE({
    "scale",
    [](const float * x, float * y) { ggml_cuda_scale(x, y, 0.5f, GGML_CUDA_TRIAL); },
    [](const float * x, float * y) {
        for (int i = 0; i < GGML_CUDA_TRIAL; i++) {
            y[i] = 0.5f * x[i];
        }
    },
});
