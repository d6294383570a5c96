#pragma once

// Dot products with whatever vectors the compiler was allowed.
// Sixteen sums side by side, added pairwise at the end: wider and narrower vectors add in the same order.

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSSE3__) || defined(__AVX__)
#    include <immintrin.h>
#endif

static constexpr size_t VEC_LANES = 16;

static inline float vec_sum(const float * lanes) {
    float half[VEC_LANES / 2];
    for (size_t i = 0; i < VEC_LANES / 2; i++) {
        half[i] = lanes[i] + lanes[i + VEC_LANES / 2];
    }
    float sum = 0.0f;
    for (const float lane : half) {
        sum += lane;
    }
    return sum;
}

static inline float vec_f16_to_f32(uint16_t h) {
    const uint32_t sign     = static_cast<uint32_t>(h & 0x8000) << 16;
    const uint32_t exponent = (h >> 10) & 0x1f;
    const uint32_t mantissa = h & 0x3ff;
    uint32_t bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
    if (exponent == 0) {
        const float small = static_cast<float>(mantissa) * 0x1p-24f;
        memcpy(&bits, &small, sizeof(bits));
        bits |= sign;
    } else if (exponent == 0x1f) {
        bits = sign | 0x7f800000 | (mantissa << 13);
    }
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

#if defined(__AVX__) && !defined(__AVX512F__)
static inline __m256 vec_multiply_add(__m256 a, __m256 b, __m256 sum) {
#    if defined(__FMA__)
    return _mm256_fmadd_ps(a, b, sum);
#    else
    return _mm256_add_ps(_mm256_mul_ps(a, b), sum);
#    endif
}
#endif

static inline float vec_dot_f32(const float * row, const float * x, size_t n) {
    float lanes[VEC_LANES] = {};
    size_t i = 0;
#if defined(__AVX512F__)
    __m512 sum = _mm512_setzero_ps();
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        sum = _mm512_fmadd_ps(_mm512_loadu_ps(row + i), _mm512_loadu_ps(x + i), sum);
    }
    _mm512_storeu_ps(lanes, sum);
#elif defined(__AVX__)
    __m256 low  = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        low  = vec_multiply_add(_mm256_loadu_ps(row + i), _mm256_loadu_ps(x + i), low);
        high = vec_multiply_add(_mm256_loadu_ps(row + i + 8), _mm256_loadu_ps(x + i + 8), high);
    }
    _mm256_storeu_ps(lanes, low);
    _mm256_storeu_ps(lanes + 8, high);
#else
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        for (size_t lane = 0; lane < VEC_LANES; lane++) {
            lanes[lane] += row[i + lane] * x[i + lane];
        }
    }
#endif
    for (; i < n; i++) {
        lanes[i % VEC_LANES] += row[i] * x[i];
    }
    return vec_sum(lanes);
}

static inline float vec_dot_f16(const float * row, const uint16_t * x, size_t n) {
    float lanes[VEC_LANES] = {};
    size_t i = 0;
#if defined(__AVX512F__)
    __m512 sum = _mm512_setzero_ps();
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        const __m512 wide = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(x + i)));
        sum = _mm512_fmadd_ps(_mm512_loadu_ps(row + i), wide, sum);
    }
    _mm512_storeu_ps(lanes, sum);
#elif defined(__AVX__) && defined(__F16C__)
    __m256 low  = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (; i + VEC_LANES <= n; i += VEC_LANES) {
        const __m128i first  = _mm_loadu_si128(reinterpret_cast<const __m128i *>(x + i));
        const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i *>(x + i + 8));
        low  = vec_multiply_add(_mm256_loadu_ps(row + i), _mm256_cvtph_ps(first), low);
        high = vec_multiply_add(_mm256_loadu_ps(row + i + 8), _mm256_cvtph_ps(second), high);
    }
    _mm256_storeu_ps(lanes, low);
    _mm256_storeu_ps(lanes + 8, high);
#endif
    for (; i < n; i++) {
        lanes[i % VEC_LANES] += row[i] * vec_f16_to_f32(x[i]);
    }
    return vec_sum(lanes);
}

// Whole numbers, so any order gives the same. The multiplication wants one unsigned side: |row|, and x with its sign.
static inline int32_t vec_dot_i8(const int8_t * row, const int8_t * x, size_t n) {
    int32_t sum = 0;
    size_t i = 0;
#if defined(__AVX2__)
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i lanes = _mm256_setzero_si256();
    for (; i + 32 <= n; i += 32) {
        const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(row + i));
        const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(x + i));
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
        lanes = _mm256_add_epi32(lanes, _mm256_madd_epi16(pairs, ones));
    }
    int32_t parts[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(parts), lanes);
    for (const int32_t part : parts) {
        sum += part;
    }
#elif defined(__SSSE3__)
    const __m128i ones = _mm_set1_epi16(1);
    __m128i lanes = _mm_setzero_si128();
    for (; i + 16 <= n; i += 16) {
        const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i *>(row + i));
        const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i *>(x + i));
        const __m128i pairs = _mm_maddubs_epi16(_mm_abs_epi8(a), _mm_sign_epi8(b, a));
        lanes = _mm_add_epi32(lanes, _mm_madd_epi16(pairs, ones));
    }
    int32_t parts[4];
    _mm_storeu_si128(reinterpret_cast<__m128i *>(parts), lanes);
    for (const int32_t part : parts) {
        sum += part;
    }
#endif
    for (; i < n; i++) {
        sum += static_cast<int32_t>(row[i]) * static_cast<int32_t>(x[i]);
    }
    return sum;
}
