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

using rpc_worker = std::pair<std::string, std::unique_ptr<ggml_rpc_client>>;

std::vector<rpc_worker> & workers() {
    static std::vector<rpc_worker> named;
    return named;
}

void add_devices_of(const rpc_worker & w, std::vector<ggml_backend_device> & devices) {
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
        workers().emplace_back(endpoint, std::make_unique<ggml_rpc_client>(endpoint));
    }
#endif
}

std::vector<ggml_backend_device> ggml_backend_devices() {
    std::vector<ggml_backend_device> devices;
#ifdef GGML_USE_RPC
    for (const rpc_worker & w : workers()) {
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

#ifdef GGML_USE_RPC
size_t ggml_backend_rpc_count() {
    return workers().size();
}

bool ggml_backend_rpc_connected(size_t worker) {
    return workers().at(worker).second->connected();
}

bool ggml_backend_rpc_put(size_t worker, const void * data, size_t size, uint64_t & buffer) {
    return workers().at(worker).second->put(data, size, buffer);
}

bool ggml_backend_rpc_get(size_t worker, uint64_t buffer, void * data, size_t size) {
    return workers().at(worker).second->get(buffer, data, size);
}
#else
size_t ggml_backend_rpc_count() {
    return 0;
}

bool ggml_backend_rpc_connected(size_t) {
    return false;
}

bool ggml_backend_rpc_put(size_t, const void *, size_t, uint64_t &) {
    return false;
}

bool ggml_backend_rpc_get(size_t, uint64_t, void *, size_t) {
    return false;
}
#endif

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
