#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

static constexpr uint8_t RPC_PROTO_MAJOR_VERSION = 4;
static constexpr uint8_t RPC_PROTO_MINOR_VERSION = 0;
static constexpr uint8_t RPC_PROTO_PATCH_VERSION = 0;

// Serves one client after the other on HOST:PORT until the process ends.
// `cache_dir` is empty when tensors are not kept on disk. `let_in` is asked about each client; false turns it away.
// Returns false when the address cannot be bound.
bool ggml_backend_rpc_start_server(const std::string & host, int port, const std::string & cache_dir,
                                   const std::function<bool()> & let_in);

struct ggml_rpc_device {
    uint64_t free_bytes;
    uint64_t total_bytes;
};

// A worker, connected for as long as the object lives: nobody else is answered meanwhile.
class ggml_rpc_client {
  public:
    // "HOST:PORT"; check connected() afterwards.
    explicit ggml_rpc_client(const std::string & endpoint);
    ~ggml_rpc_client();
    ggml_rpc_client(const ggml_rpc_client &) = delete;
    ggml_rpc_client & operator=(const ggml_rpc_client &) = delete;

    bool connected() const { return fd >= 0; }
    // 0 when the worker does not answer.
    uint32_t device_count();
    bool device_memory(uint32_t device, ggml_rpc_device & memory);
    // Puts `size` bytes into a new buffer of the first device; `buffer` names it from then on.
    bool put(const void * data, size_t size, uint64_t & buffer);
    // Gets the first `size` bytes of a buffer.
    bool get(uint64_t buffer, void * data, size_t size);

  private:
    void close_connection();
    bool hello();
    bool set_tensor(uint64_t buffer, const void * data, size_t size);
    bool get_tensor(uint64_t buffer, void * data, size_t size);

    std::string endpoint;
    int fd = -1;
};
