// A counter that lives on the card: a variable that no other file sees.

#include "common.cuh"

static __device__ unsigned long long launches;

static __global__ void count_launch() {
    atomicAdd(&launches, 1ull);
}

void ggml_cuda_count_launch() {
    count_launch<<<1, 1>>>();
}

unsigned long long ggml_cuda_launches() {
    unsigned long long count = 0;
    CUDA_CHECK(cudaMemcpyFromSymbol(&count, launches, sizeof(count)));
    return count;
}
