#include "ggml-cpu.h"

#include "ggml.h"
#include "vec.h"

extern "C" {
extern const float ggml_cpu_table[];
extern const char  ggml_cpu_table_end[];
}

size_t ggml_cpu_table_size(void) {
    return static_cast<size_t>(ggml_cpu_table_end - reinterpret_cast<const char *>(ggml_cpu_table)) / sizeof(float);
}

static const float * row_at(size_t first, size_t n) {
    GGML_ASSERT(first <= ggml_cpu_table_size() && n <= ggml_cpu_table_size() - first);
    return ggml_cpu_table + first;
}

float ggml_cpu_dot(size_t first, const float * x, size_t n) {
    return vec_dot_f32(row_at(first, n), x, n);
}

float ggml_cpu_dot_f16(size_t first, const uint16_t * x, size_t n) {
    return vec_dot_f16(row_at(first, n), x, n);
}

int32_t ggml_cpu_dot_i8(size_t first, const int8_t * x, size_t n) {
    const float * row = row_at(first, (n + sizeof(float) - 1) / sizeof(float));
    return vec_dot_i8(reinterpret_cast<const int8_t *>(row), x, n);
}

const char * ggml_cpu_features(void) {
    return ""
#if defined(__SSSE3__)
           "SSSE3 = 1 | "
#endif
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
