#pragma once

// The wire: a request is a command byte, a size (u64) and that many bytes; an answer is a size and that many bytes.
// All numbers are little endian, as both platforms are.

#include <cstdint>

enum rpc_cmd : uint8_t {
    RPC_CMD_ALLOC_BUFFER      = 0,
    RPC_CMD_BUFFER_GET_BASE   = 3,
    RPC_CMD_FREE_BUFFER       = 4,
    RPC_CMD_SET_TENSOR        = 6,
    RPC_CMD_GET_TENSOR        = 8,
    RPC_CMD_GET_DEVICE_MEMORY = 11,
    RPC_CMD_HELLO             = 14,
    RPC_CMD_DEVICE_COUNT      = 15,
};

#pragma pack(push, 1)
struct rpc_hello_req {
    uint8_t conn_caps[24];
};

struct rpc_hello_rsp {
    uint8_t major;
    uint8_t minor;
    uint8_t patch;
    uint8_t padding;
    uint8_t conn_caps[24];
};

struct rpc_alloc_req {
    uint32_t device;
    uint64_t size;
};

struct rpc_alloc_rsp {
    uint64_t buffer;
    uint64_t size;
};

// A view of `nbytes` bytes at address `data`, which has to lie inside `buffer`.
struct rpc_tensor {
    uint64_t buffer;
    uint64_t data;
    uint64_t nbytes;
};

// Followed by the bytes to write.
struct rpc_set_tensor_req {
    rpc_tensor tensor;
    uint64_t   offset;
};

struct rpc_get_tensor_req {
    rpc_tensor tensor;
    uint64_t   offset;
    uint64_t   size;
};

struct rpc_memory_rsp {
    uint64_t free_bytes;
    uint64_t total_bytes;
};
#pragma pack(pop)
