#include "llama.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <string>
#include <vector>

const char * llama_print_system_info(void) {
    static const std::string info = std::string("CPU : ") + ggml_cpu_features() +
                                    (ggml_backend_has_cuda() ? "CUDA = 1 | " : "") +
                                    (ggml_backend_has_rpc() ? "RPC = 1 | " : "");
    return info.c_str();
}

// Rows take turns in the three types. Every activation is a power of two, so the answer is the same on every CPU.
float llama_decode(int n, int width) {
    const size_t size = static_cast<size_t>(width);
    const std::vector<float>    f32(size, 0.5f);
    const std::vector<uint16_t> f16(size, 0x3800);
    const std::vector<int8_t>   i8(size, 64);
    const size_t rows = ggml_cpu_table_size() / size;
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        const size_t first = static_cast<size_t>(i) % rows * size;
        switch (i % 3) {
        case 0:  sum += ggml_cpu_dot(first, f32.data(), size); break;
        case 1:  sum += ggml_cpu_dot_f16(first, f16.data(), size); break;
        default: sum += 0x1p-13f * static_cast<float>(ggml_cpu_dot_i8(first, i8.data(), size)); break;
        }
    }
    return sum;
}
