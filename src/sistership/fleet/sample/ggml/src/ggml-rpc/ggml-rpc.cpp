#include "ggml-rpc.h"

#include "ggml.h"
#include "protocol.h"
#include "transport.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

static constexpr uint64_t MESSAGE_LIMIT   = uint64_t(1) << 30;
static constexpr uint64_t CACHE_THRESHOLD = 10 * 1024 * 1024;

namespace {

// What one client owns: its buffers go when it goes.
class rpc_server {
  public:
    rpc_server(int client, const std::string & cache) : fd(client), cache_dir(cache) {}

    void serve();

  private:
    struct buffer {
        std::unique_ptr<uint8_t[]> bytes;
        uint64_t size;

        uint64_t base() const { return reinterpret_cast<uint64_t>(bytes.get()); }
    };

    struct slice {
        uint8_t * data;
        uint64_t  nbytes;
    };

    bool hello(const std::vector<uint8_t> & request);
    bool handle(rpc_cmd command, const std::vector<uint8_t> & request);
    bool device_count();
    bool device_memory(const std::vector<uint8_t> & request);
    bool alloc_buffer(const std::vector<uint8_t> & request);
    bool buffer_get_base(const std::vector<uint8_t> & request);
    bool free_buffer(const std::vector<uint8_t> & request);
    bool set_tensor(const std::vector<uint8_t> & request);
    bool get_tensor(const std::vector<uint8_t> & request);
    slice deserialize_tensor(const rpc_tensor & tensor) const;
    void keep(const uint8_t * data, uint64_t size) const;

    template <typename Answer> bool answer(const Answer & value) const {
        return rpc_send_answer(fd, &value, sizeof(value));
    }

    int fd;
    const std::string & cache_dir;
    std::map<uint64_t, buffer> buffers;
};

template <typename Request> bool read_request(const std::vector<uint8_t> & message, Request & request) {
    if (message.size() != sizeof(request)) {
        return false;
    }
    memcpy(&request, message.data(), sizeof(request));
    return true;
}

bool rpc_server::hello(const std::vector<uint8_t> & request) {
    rpc_hello_req wanted = {};
    if (!read_request(request, wanted)) {
        return false;
    }
    rpc_hello_rsp mine = {};
    mine.major = RPC_PROTO_MAJOR_VERSION;
    mine.minor = RPC_PROTO_MINOR_VERSION;
    mine.patch = RPC_PROTO_PATCH_VERSION;
    return answer(mine);
}

bool rpc_server::device_count() {
    const uint32_t count = 1;
    return answer(count);
}

bool rpc_server::device_memory(const std::vector<uint8_t> & request) {
    uint32_t device = 0;
    if (!read_request(request, device) || device != 0) {
        return false;
    }
    size_t free_bytes  = 0;
    size_t total_bytes = 0;
    ggml_memory(&free_bytes, &total_bytes);
    return answer(rpc_memory_rsp{free_bytes, total_bytes});
}

bool rpc_server::alloc_buffer(const std::vector<uint8_t> & request) {
    rpc_alloc_req wanted = {};
    if (!read_request(request, wanted) || wanted.device != 0 || wanted.size > MESSAGE_LIMIT) {
        return false;
    }
    buffer fresh{std::make_unique<uint8_t[]>(wanted.size), wanted.size};
    const uint64_t id = fresh.base();
    buffers[id] = std::move(fresh);
    return answer(rpc_alloc_rsp{id, wanted.size});
}

bool rpc_server::buffer_get_base(const std::vector<uint8_t> & request) {
    uint64_t id = 0;
    if (!read_request(request, id) || buffers.count(id) == 0) {
        return false;
    }
    return answer(buffers.at(id).base());
}

bool rpc_server::free_buffer(const std::vector<uint8_t> & request) {
    uint64_t id = 0;
    return read_request(request, id) && buffers.erase(id) == 1 && rpc_send_answer(fd, nullptr, 0);
}

// The memory that a tensor on the wire stands for. It has to lie inside its buffer.
rpc_server::slice rpc_server::deserialize_tensor(const rpc_tensor & tensor) const {
    const auto found = buffers.find(tensor.buffer);
    GGML_ASSERT(found != buffers.end());

    const uint64_t buffer_start = found->second.base();
    const uint64_t buffer_end   = buffer_start + found->second.size;
    const uint64_t data         = tensor.data;

    GGML_ASSERT(data + tensor.nbytes >= data);
    GGML_ASSERT(data >= buffer_start && data + tensor.nbytes <= buffer_end);
    return {reinterpret_cast<uint8_t *>(data), tensor.nbytes};
}

bool rpc_server::set_tensor(const std::vector<uint8_t> & request) {
    rpc_set_tensor_req wanted = {};
    if (request.size() < sizeof(wanted)) {
        return false;
    }
    memcpy(&wanted, request.data(), sizeof(wanted));
    const uint64_t size   = request.size() - sizeof(wanted);
    const slice    tensor = deserialize_tensor(wanted.tensor);
    GGML_ASSERT(wanted.offset <= tensor.nbytes && size <= tensor.nbytes - wanted.offset);
    memcpy(tensor.data + wanted.offset, request.data() + sizeof(wanted), size);
    keep(request.data() + sizeof(wanted), size);
    return true;
}

bool rpc_server::get_tensor(const std::vector<uint8_t> & request) {
    rpc_get_tensor_req wanted = {};
    if (!read_request(request, wanted)) {
        return false;
    }
    const slice tensor = deserialize_tensor(wanted.tensor);
    GGML_ASSERT(wanted.offset <= tensor.nbytes && wanted.size <= tensor.nbytes - wanted.offset);
    return rpc_send_answer(fd, tensor.data + wanted.offset, wanted.size);
}

// Writes a large tensor into the cache under the FNV-1a hash of its bytes.
void rpc_server::keep(const uint8_t * data, uint64_t size) const {
    if (cache_dir.empty() || size <= CACHE_THRESHOLD) {
        return;
    }
    uint64_t hash = 0xcbf29ce484222325;
    for (uint64_t i = 0; i < size; i++) {
        hash = (hash ^ data[i]) * 0x100000001b3;
    }
    char name[17];
    snprintf(name, sizeof(name), "%016llx", static_cast<unsigned long long>(hash));
    std::ofstream file(cache_dir + "/" + name, std::ios::binary);
    file.write(reinterpret_cast<const char *>(data), static_cast<std::streamsize>(size));
}

bool rpc_server::handle(rpc_cmd command, const std::vector<uint8_t> & request) {
    switch (command) {
        case RPC_CMD_HELLO:             return hello(request);
        case RPC_CMD_DEVICE_COUNT:      return device_count();
        case RPC_CMD_GET_DEVICE_MEMORY: return device_memory(request);
        case RPC_CMD_ALLOC_BUFFER:      return alloc_buffer(request);
        case RPC_CMD_BUFFER_GET_BASE:   return buffer_get_base(request);
        case RPC_CMD_FREE_BUFFER:       return free_buffer(request);
        case RPC_CMD_SET_TENSOR:        return set_tensor(request);
        case RPC_CMD_GET_TENSOR:        return get_tensor(request);
    }
    fprintf(stderr, "Unknown command: %d\n", command);
    return false;
}

void rpc_server::serve() {
    bool greeted = false;
    rpc_cmd command = RPC_CMD_HELLO;
    std::vector<uint8_t> request;
    while (rpc_recv(fd, &command, sizeof(command))) {
        if (!greeted && command != RPC_CMD_HELLO) {
            fprintf(stderr, "Expected HELLO command, update client\n");
            return;
        }
        if (!rpc_recv_message(fd, request, MESSAGE_LIMIT) || !handle(command, request)) {
            return;
        }
        greeted = true;
    }
}

}  // namespace

bool ggml_backend_rpc_start_server(const std::string & host, int port, const std::string & cache_dir,
                                   const std::function<bool()> & let_in) {
    const int listener = rpc_listen(host, port);
    if (listener < 0) {
        fprintf(stderr, "Failed to create server socket\n");
        return false;
    }
    for (;;) {
        const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) {
            continue;
        }
        printf("Accepted client connection\n");
        if (let_in()) {
            rpc_server(client, cache_dir).serve();
        }
        printf("Client connection closed\n");
        close(client);
    }
}
