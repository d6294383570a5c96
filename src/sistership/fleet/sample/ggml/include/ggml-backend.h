#pragma once

#include <cstddef>
#include <string>
#include <vector>

// A device that layers could run on; memory in bytes.
struct ggml_backend_device {
    std::string name;
    std::string description;
    size_t      free_bytes;
    size_t      total_bytes;
};

// Connects to the workers of "HOST:PORT,HOST:PORT"; those that do not answer are left out with a message.
void ggml_backend_add_rpc(const std::string & servers);

// Devices of all connected workers, then this machine's cards, then its CPU.
std::vector<ggml_backend_device> ggml_backend_devices();

bool ggml_backend_has_cuda();
bool ggml_backend_has_rpc();
