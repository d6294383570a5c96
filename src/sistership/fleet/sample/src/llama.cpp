#include "llama.h"

#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <string>
#include <vector>

const char * llama_print_system_info(void) {
    static const std::string info =
        std::string("CPU : ") + ggml_cpu_features() + (ggml_backend_has_rpc() ? "RPC = 1 | " : "");
    return info.c_str();
}

float llama_decode(int n, int width) {
    const std::vector<float> activations(static_cast<size_t>(width), 0.5f);
    const size_t rows = ggml_cpu_table_size() / activations.size();
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        sum += ggml_cpu_dot(static_cast<size_t>(i) % rows * activations.size(), activations.data(), activations.size());
    }
    return sum;
}
