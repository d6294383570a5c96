#include "transport.h"

#include <cerrno>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static constexpr int PATIENCE_SECONDS = 5;
static constexpr int WAITING_ROOM     = 128;  // for those who ask while another is served

bool rpc_send(int fd, const void * data, size_t size) {
    const char * next = static_cast<const char *>(data);
    while (size > 0) {
        const ssize_t sent = send(fd, next, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        next += sent;
        size -= static_cast<size_t>(sent);
    }
    return true;
}

bool rpc_recv(int fd, void * data, size_t size) {
    char * next = static_cast<char *>(data);
    while (size > 0) {
        const ssize_t got = recv(fd, next, size, 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        next += got;
        size -= static_cast<size_t>(got);
    }
    return true;
}

bool rpc_send_answer(int fd, const void * data, uint64_t size) {
    return rpc_send(fd, &size, sizeof(size)) && rpc_send(fd, data, size);
}

bool rpc_recv_message(int fd, std::vector<uint8_t> & message, uint64_t limit) {
    uint64_t size = 0;
    if (!rpc_recv(fd, &size, sizeof(size)) || size > limit) {
        return false;
    }
    message.resize(size);
    return rpc_recv(fd, message.data(), size);
}

static addrinfo * resolve(const std::string & host, const std::string & port, int flags) {
    addrinfo hints = {};
    hints.ai_family   = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags    = flags;
    addrinfo * found = nullptr;
    return getaddrinfo(host.c_str(), port.c_str(), &hints, &found) == 0 ? found : nullptr;
}

int rpc_listen(const std::string & host, int port) {
    addrinfo * address = resolve(host, std::to_string(port), AI_PASSIVE);
    if (address == nullptr) {
        return -1;
    }
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    const bool listening = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                           bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, WAITING_ROOM) == 0;
    freeaddrinfo(address);
    if (!listening && fd >= 0) {
        close(fd);
    }
    return listening ? fd : -1;
}

int rpc_connect(const std::string & endpoint) {
    const size_t colon = endpoint.rfind(':');
    if (colon == std::string::npos) {
        return -1;
    }
    addrinfo * address = resolve(endpoint.substr(0, colon), endpoint.substr(colon + 1), 0);
    if (address == nullptr) {
        return -1;
    }
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    timeval patience = {};
    patience.tv_sec = PATIENCE_SECONDS;
    // Linux bounds connect() by the send timeout too.
    const bool connected = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
                           setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0 &&
                           connect(fd, address->ai_addr, address->ai_addrlen) == 0 &&
                           setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0;
    freeaddrinfo(address);
    if (!connected && fd >= 0) {
        close(fd);
    }
    return connected ? fd : -1;
}
