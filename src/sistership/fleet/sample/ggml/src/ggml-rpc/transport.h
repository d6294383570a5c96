#pragma once

#include <cstdint>
#include <string>
#include <vector>

// All return false, or -1, when the peer is gone or the address is of no use.
bool rpc_send(int fd, const void * data, size_t size);
bool rpc_recv(int fd, void * data, size_t size);
bool rpc_send_answer(int fd, const void * data, uint64_t size);
// Refuses a message of more than `limit` bytes.
bool rpc_recv_message(int fd, std::vector<uint8_t> & message, uint64_t limit);

int rpc_listen(const std::string & host, int port);
// Gives up after a few seconds, also while waiting for answers.
int rpc_connect(const std::string & endpoint);
