#include "ggml-rpc.h"
#include "protocol.h"
#include "transport.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>

template <typename Answer>
static bool ask(int fd, rpc_cmd command, const void * request, uint64_t size, Answer & answer) {
    uint64_t answer_size = 0;
    return rpc_send(fd, &command, sizeof(command)) && rpc_send_answer(fd, request, size) &&
           rpc_recv(fd, &answer_size, sizeof(answer_size)) && answer_size == sizeof(answer) &&
           rpc_recv(fd, &answer, sizeof(answer));
}

ggml_rpc_client::ggml_rpc_client(const std::string & where) : endpoint(where), fd(rpc_connect(where)) {
    if (fd < 0 || !hello()) {
        fprintf(stderr, "Failed to connect to %s\n", endpoint.c_str());
        close_connection();
    }
}

ggml_rpc_client::~ggml_rpc_client() {
    close_connection();
}

void ggml_rpc_client::close_connection() {
    if (fd >= 0) {
        close(fd);
        fd = -1;
    }
}

bool ggml_rpc_client::hello() {
    const rpc_hello_req request = {};
    rpc_hello_rsp answer = {};
    if (!ask(fd, RPC_CMD_HELLO, &request, sizeof(request), answer)) {
        return false;
    }
    if (answer.major != RPC_PROTO_MAJOR_VERSION || answer.minor > RPC_PROTO_MINOR_VERSION) {
        fprintf(stderr, "RPC server version mismatch: %d.%d.%d\n", answer.major, answer.minor, answer.patch);
        return false;
    }
    return true;
}

uint32_t ggml_rpc_client::device_count() {
    uint32_t count = 0;
    return connected() && ask(fd, RPC_CMD_DEVICE_COUNT, nullptr, 0, count) ? count : 0;
}

bool ggml_rpc_client::device_memory(uint32_t device, ggml_rpc_device & memory) {
    rpc_memory_rsp answer = {};
    if (!connected() || !ask(fd, RPC_CMD_GET_DEVICE_MEMORY, &device, sizeof(device), answer)) {
        return false;
    }
    memory = {answer.free_bytes, answer.total_bytes};
    return true;
}

// Has no answer.
bool ggml_rpc_client::set_tensor(uint64_t buffer, const void * data, size_t size) {
    const rpc_cmd  command = RPC_CMD_SET_TENSOR;
    uint64_t       base    = 0;
    if (!ask(fd, RPC_CMD_BUFFER_GET_BASE, &buffer, sizeof(buffer), base)) {
        return false;
    }
    const rpc_set_tensor_req request = {{buffer, base, size}, 0};
    const uint64_t           length  = sizeof(request) + size;
    return rpc_send(fd, &command, sizeof(command)) && rpc_send(fd, &length, sizeof(length)) &&
           rpc_send(fd, &request, sizeof(request)) && rpc_send(fd, data, size);
}

bool ggml_rpc_client::get_tensor(uint64_t buffer, void * data, size_t size) {
    const rpc_cmd command = RPC_CMD_GET_TENSOR;
    uint64_t      base    = 0;
    uint64_t      length  = 0;
    if (!ask(fd, RPC_CMD_BUFFER_GET_BASE, &buffer, sizeof(buffer), base)) {
        return false;
    }
    const rpc_get_tensor_req request = {{buffer, base, size}, 0, size};
    return rpc_send(fd, &command, sizeof(command)) && rpc_send_answer(fd, &request, sizeof(request)) &&
           rpc_recv(fd, &length, sizeof(length)) && length == size && rpc_recv(fd, data, size);
}

bool ggml_rpc_client::put(const void * data, size_t size, uint64_t & buffer) {
    const rpc_alloc_req request = {0, size};
    rpc_alloc_rsp answer = {};
    if (!connected() || !ask(fd, RPC_CMD_ALLOC_BUFFER, &request, sizeof(request), answer) ||
        !set_tensor(answer.buffer, data, size)) {
        close_connection();
        return false;
    }
    buffer = answer.buffer;
    return true;
}

bool ggml_rpc_client::get(uint64_t buffer, void * data, size_t size) {
    if (!connected() || !get_tensor(buffer, data, size)) {
        close_connection();  // what comes later would be taken for the next answer
        return false;
    }
    return true;
}
