#include "ggml-backend.h"

#include "ggml.h"

#ifdef GGML_USE_CUDA
#    include "ggml-cuda.h"
#endif

#ifdef GGML_USE_RPC
#    include "ggml-rpc.h"
#    include <memory>
#    include <sstream>
#endif

#include <utility>

#ifdef GGML_USE_RPC
namespace {

using worker = std::pair<std::string, std::unique_ptr<ggml_rpc_client>>;

std::vector<worker> & workers() {
    static std::vector<worker> connected;
    return connected;
}

void add_devices_of(const worker & w, std::vector<ggml_backend_device> & devices) {
    for (uint32_t i = 0; i < w.second->device_count(); i++) {
        ggml_rpc_device memory = {};
        if (w.second->device_memory(i, memory)) {
            devices.push_back({"RPC" + std::to_string(devices.size()), w.first, memory.free_bytes, memory.total_bytes});
        }
    }
}

}  // namespace
#endif

void ggml_backend_add_rpc([[maybe_unused]] const std::string & servers) {
#ifdef GGML_USE_RPC
    std::stringstream list(servers);
    for (std::string endpoint; std::getline(list, endpoint, ',');) {
        auto client = std::make_unique<ggml_rpc_client>(endpoint);
        if (client->connected()) {
            workers().emplace_back(endpoint, std::move(client));
        }
    }
#endif
}

std::vector<ggml_backend_device> ggml_backend_devices() {
    std::vector<ggml_backend_device> devices;
#ifdef GGML_USE_RPC
    for (const worker & w : workers()) {
        add_devices_of(w, devices);
    }
#endif
#ifdef GGML_USE_CUDA
    for (ggml_backend_device & device : ggml_backend_cuda_devices()) {
        devices.push_back(std::move(device));
    }
#endif
    size_t free_bytes  = 0;
    size_t total_bytes = 0;
    ggml_memory(&free_bytes, &total_bytes);
    devices.push_back({"CPU", "this machine", free_bytes, total_bytes});
    return devices;
}

bool ggml_backend_has_cuda() {
#ifdef GGML_USE_CUDA
    return true;
#else
    return false;
#endif
}

bool ggml_backend_has_rpc() {
#ifdef GGML_USE_RPC
    return true;
#else
    return false;
#endif
}
