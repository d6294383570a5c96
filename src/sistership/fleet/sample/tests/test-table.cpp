#include "ggml-cpu.h"

#include <cstdio>

// The table is 32 MiB of floats in ±[0.5, 1), and a dot product with one 1 reads one of them.
int main() {
    const float one = 1.0f;
    for (size_t i = 0; i < ggml_cpu_table_size(); i += 4099) {
        const float value = ggml_cpu_dot(i, &one, 1);
        const float size  = value < 0.0f ? -value : value;
        if (size < 0.5f || size >= 1.0f) {
            fprintf(stderr, "value %zu is %f\n", i, static_cast<double>(value));
            return 1;
        }
    }
    return ggml_cpu_table_size() == 8u * 1024 * 1024 ? 0 : 1;
}
