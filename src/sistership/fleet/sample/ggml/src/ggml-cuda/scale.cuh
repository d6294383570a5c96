#pragma once

// y = factor · x; both in memory of the card.
void ggml_cuda_scale(const float * x, float * y, float factor, int n);
