#pragma once

#include <cstddef>
#include <cstdint>
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

// Workers named so far, also those that were left out: they have no device and keep nothing.
size_t ggml_backend_rpc_count();
bool   ggml_backend_rpc_connected(size_t worker);
// A worker keeps bytes for as long as it and this process live; `buffer` names them. False when the worker is gone.
bool   ggml_backend_rpc_put(size_t worker, const void * data, size_t size, uint64_t & buffer);
bool   ggml_backend_rpc_get(size_t worker, uint64_t buffer, void * data, size_t size);

bool ggml_backend_has_cuda();
bool ggml_backend_has_rpc();
