#include "ggml-cpu.h"

#include "ggml.h"

extern "C" {
extern const float ggml_cpu_table[];
extern const char  ggml_cpu_table_end[];
}

size_t ggml_cpu_table_size(void) {
    return static_cast<size_t>(ggml_cpu_table_end - reinterpret_cast<const char *>(ggml_cpu_table)) / sizeof(float);
}

float ggml_cpu_dot(size_t first, const float * x, size_t n) {
    GGML_ASSERT(first <= ggml_cpu_table_size() && n <= ggml_cpu_table_size() - first);
    // Eight sums side by side: the compiler may use whatever vectors it was allowed.
    float sums[8] = {};
    const float * row = ggml_cpu_table + first;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (size_t lane = 0; lane < 8; lane++) {
            sums[lane] += row[i + lane] * x[i + lane];
        }
    }
    float sum = 0.0f;
    for (const float lane : sums) {
        sum += lane;
    }
    for (; i < n; i++) {
        sum += row[i] * x[i];
    }
    return sum;
}

const char * ggml_cpu_features(void) {
    return ""
#if defined(__SSE4_2__)
           "SSE42 = 1 | "
#endif
#if defined(__AVX__)
           "AVX = 1 | "
#endif
#if defined(__AVX2__)
           "AVX2 = 1 | "
#endif
#if defined(__BMI2__)
           "BMI2 = 1 | "
#endif
#if defined(__FMA__)
           "FMA = 1 | "
#endif
#if defined(__F16C__)
           "F16C = 1 | "
#endif
#if defined(__AVX512F__)
           "AVX512 = 1 | "
#endif
#if defined(__ARM_NEON)
           "NEON = 1 | "
#endif
        ;
}
