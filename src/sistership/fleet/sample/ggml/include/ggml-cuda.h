#pragma once

#include "ggml-backend.h"

#include <vector>

// Cards that can run what this library was compiled for, as "CUDA0", "CUDA1", …
// None without a card or a driver; the reason is told once. A card that gives wrong results is left out with a message.
std::vector<ggml_backend_device> ggml_backend_cuda_devices();
