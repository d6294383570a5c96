#pragma once

// y[row] = dot(row of `matrix`, x). `x` and `y` are floats in memory of the card, `n` is a multiple of the warp.
// There is code for float, half and int8_t.
template <typename T> void ggml_cuda_mul_mat_vec(const T * matrix, const float * x, float * y, int rows, int n);
