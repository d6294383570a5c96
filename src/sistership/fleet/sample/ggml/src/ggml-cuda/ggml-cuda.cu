// Finds the cards and tries every operation on each, so that a card without code of its own is told before it computes.

#include "ggml-cuda.h"

#include "common.cuh"

#ifndef GGML_CUDA_NO_VMM
#    include <cuda.h>
#endif

#include <cmath>
#include <string>

std::vector<ggml_cuda_op> & ggml_cuda_ops() {
    static std::vector<ggml_cuda_op> ops;
    return ops;
}

static int ggml_cuda_init() {
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: failed to initialize CUDA: %s\n", __func__, cudaGetErrorString(error));
        return 0;
    }
    return count;
}

// Whether large buffers could grow in place; it needs the driver's library.
static bool has_vmm([[maybe_unused]] int id) {
#ifdef GGML_CUDA_NO_VMM
    return false;
#else
    CUdevice device;
    int supported = 0;
    return cuDeviceGet(&device, id) == CUDA_SUCCESS &&
           cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) ==
               CUDA_SUCCESS &&
           supported != 0;
#endif
}

// Whether `op` gives on the current card what the CPU gives. Does not end the process: the card may lack its code.
static bool works(const ggml_cuda_op & op) {
    constexpr size_t BYTES = GGML_CUDA_TRIAL * sizeof(float);
    std::vector<float> x(GGML_CUDA_TRIAL), got(GGML_CUDA_TRIAL), expected(GGML_CUDA_TRIAL);
    for (int i = 0; i < GGML_CUDA_TRIAL; i++) {
        x[i] = 0.25f * static_cast<float>(i % 17 - 8);
    }
    float * memory = nullptr;
    if (cudaMalloc(reinterpret_cast<void **>(&memory), 2 * BYTES) != cudaSuccess) {
        return false;
    }
    float * const on_card = memory + GGML_CUDA_TRIAL;
    bool done = cudaMemcpy(memory, x.data(), BYTES, cudaMemcpyHostToDevice) == cudaSuccess &&
                cudaMemset(on_card, 0, BYTES) == cudaSuccess;
    if (done) {
        op.run(memory, on_card);
        done = cudaGetLastError() == cudaSuccess &&
               cudaMemcpy(got.data(), on_card, BYTES, cudaMemcpyDeviceToHost) == cudaSuccess;
    }
    cudaFree(memory);
    op.expected(x.data(), expected.data());
    for (int i = 0; done && i < GGML_CUDA_TRIAL; i++) {
        done = std::fabs(got[i] - expected[i]) <= 1e-3f * (1.0f + std::fabs(expected[i]));
    }
    return done;
}

std::vector<ggml_backend_device> ggml_backend_cuda_devices() {
    static const int count = ggml_cuda_init();
    std::vector<ggml_backend_device> devices;
    for (int id = 0; id < count; id++) {
        CUDA_CHECK(cudaSetDevice(id));
        cudaDeviceProp properties;
        CUDA_CHECK(cudaGetDeviceProperties(&properties, id));
        const char * failed = nullptr;
        for (const ggml_cuda_op & op : ggml_cuda_ops()) {
            failed = failed == nullptr && !works(op) ? op.name : failed;
        }
        if (failed != nullptr) {
            fprintf(stderr, "%s: device %d, compute capability %d.%d, is left out: %s does not work on it\n", __func__, id,
                    properties.major, properties.minor, failed);
            continue;
        }
        size_t free_bytes  = 0;
        size_t total_bytes = 0;
        CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
        fprintf(stderr, "  Device %d: %s, compute capability %d.%d, VMM: %s, %llu launches\n", id, properties.name,
                properties.major, properties.minor, has_vmm(id) ? "yes" : "no", ggml_cuda_launches());
        devices.push_back({"CUDA" + std::to_string(id), properties.name, free_bytes, total_bytes});
    }
    return devices;
}
