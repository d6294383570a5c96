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
