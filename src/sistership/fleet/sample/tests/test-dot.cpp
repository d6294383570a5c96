// Whatever the library was compiled for, it gives what plain arithmetic gives, to the bit.

#include "ggml-cpu.h"

#include <cstdio>
#include <cstring>
#include <vector>

static constexpr size_t LANES = 16;

static float value_at(size_t i) {
    const float one = 1.0f;
    return ggml_cpu_dot(i, &one, 1);
}

static float plain_dot(size_t first, const std::vector<float> & x) {
    float lanes[LANES] = {};
    for (size_t i = 0; i < x.size(); i++) {
        lanes[i % LANES] += value_at(first + i) * x[i];
    }
    float sum = 0.0f;
    for (size_t i = 0; i < LANES / 2; i++) {
        sum += lanes[i] + lanes[i + LANES / 2];
    }
    return sum;
}

static int32_t plain_dot_i8(size_t first, const std::vector<int8_t> & x) {
    int32_t sum = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const float value = value_at(first + i / 4);
        int8_t bytes[4];
        memcpy(bytes, &value, sizeof(bytes));
        sum += bytes[i % 4] * x[i];
    }
    return sum;
}

int main() {
    // Powers of two, positive and negative, as float and as half; lengths with and without a rest.
    static const float    f32[] = {0.5f, -0.5f, 1.0f, 0.25f, -2.0f};
    static const uint16_t f16[] = {0x3800, 0xb800, 0x3c00, 0x3400, 0xc000};
    for (const size_t n : {size_t(1), size_t(15), size_t(16), size_t(100), size_t(4096)}) {
        std::vector<float>    x(n);
        std::vector<uint16_t> h(n);
        std::vector<int8_t>   q(n);
        for (size_t i = 0; i < n; i++) {
            x[i] = f32[i % 5];
            h[i] = f16[i % 5];
            q[i] = static_cast<int8_t>(static_cast<int>(i * 37 % 255) - 127);
        }
        const size_t first = 4096 * 7 + n;
        const float  expected = plain_dot(first, x);
        const float  got_f32  = ggml_cpu_dot(first, x.data(), n);
        const float  got_f16  = ggml_cpu_dot_f16(first, h.data(), n);
        if (memcmp(&got_f32, &expected, sizeof(expected)) != 0 || memcmp(&got_f16, &expected, sizeof(expected)) != 0 ||
            ggml_cpu_dot_i8(first, q.data(), n) != plain_dot_i8(first, q)) {
            fprintf(stderr, "wrong with %zu values\n", n);
            return 1;
        }
    }
    return 0;
}
