// One warp per row, for every type that a matrix may have.

#include "mul-mat-vec.cuh"

#include "common.cuh"

#include <cuda_fp16.h>

#include <cstdint>

static __device__ __forceinline__ float to_float(float value) {
    return value;
}

static __device__ __forceinline__ float to_float(half value) {
    return __half2float(value);
}

static __device__ __forceinline__ float to_float(int8_t value) {
    return static_cast<float>(value);
}

template <int width> static __device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = width / 2; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(0xffffffff, value, offset, width);
    }
    return value;
}

template <typename T, int rows_per_block>
static __global__ void mul_mat_vec(const T * matrix, const float * x, float * y, int rows, int n) {
    const int row = static_cast<int>(blockIdx.x) * rows_per_block + static_cast<int>(threadIdx.y);
    if (row >= rows) {
        return;
    }
    float sum = 0.0f;
    for (int i = static_cast<int>(threadIdx.x); i < n; i += WARP_SIZE) {
        sum += to_float(matrix[static_cast<size_t>(row) * n + i]) * x[i];
    }
    sum = warp_sum<WARP_SIZE>(sum);
    if (threadIdx.x == 0) {
        y[row] = sum;
    }
}

template <typename T> void ggml_cuda_mul_mat_vec(const T * matrix, const float * x, float * y, int rows, int n) {
    if (rows == 1) {
        mul_mat_vec<T, 1><<<1, dim3(WARP_SIZE, 1)>>>(matrix, x, y, rows, n);
    } else {
        mul_mat_vec<T, 4><<<(rows + 3) / 4, dim3(WARP_SIZE, 4)>>>(matrix, x, y, rows, n);
    }
    ggml_cuda_count_launch();
}

template void ggml_cuda_mul_mat_vec<float>(const float *, const float *, float *, int, int);
template void ggml_cuda_mul_mat_vec<half>(const half *, const float *, float *, int, int);
template void ggml_cuda_mul_mat_vec<int8_t>(const int8_t *, const float *, float *, int, int);

// The trial: a matrix of small whole numbers, which every type holds exactly.

static constexpr int TRIAL_ROWS = 8;
static constexpr int TRIAL_N    = GGML_CUDA_TRIAL / TRIAL_ROWS;

static __host__ __device__ int trial_value(int i) {
    return i % 13 - 6;
}

template <typename T> static __global__ void fill(T * matrix) {
    const int i = static_cast<int>(threadIdx.x);
    matrix[i] = static_cast<T>(trial_value(i));
}

template <typename T> static void try_on_card(const float * x, float * y) {
    T * matrix = nullptr;
    if (cudaMalloc(reinterpret_cast<void **>(&matrix), GGML_CUDA_TRIAL * sizeof(T)) != cudaSuccess) {
        return;
    }
    fill<T><<<1, GGML_CUDA_TRIAL>>>(matrix);
    ggml_cuda_mul_mat_vec<T>(matrix, x, y, TRIAL_ROWS, TRIAL_N);
    cudaFree(matrix);
}

static void try_on_cpu(const float * x, float * y) {
    for (int row = 0; row < TRIAL_ROWS; row++) {
        for (int i = 0; i < TRIAL_N; i++) {
            y[row] += static_cast<float>(trial_value(row * TRIAL_N + i)) * x[i];
        }
    }
}

static const ggml_cuda_registration F32({"mul_mat_vec f32", try_on_card<float>, try_on_cpu});
static const ggml_cuda_registration F16({"mul_mat_vec f16", try_on_card<half>, try_on_cpu});
static const ggml_cuda_registration I8({"mul_mat_vec i8", try_on_card<int8_t>, try_on_cpu});
