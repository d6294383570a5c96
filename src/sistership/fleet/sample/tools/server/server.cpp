// Answers GET /health with 200 as soon as it listens. Workers that do not answer are left out, as llama.cpp does it.

#include "arg.h"
#include "ggml-backend.h"
#include "llama.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static constexpr size_t REQUEST_LIMIT    = 64 * 1024;
static constexpr int    PATIENCE_SECONDS = 5;

// As PID 1 of a container it would not stop on SIGTERM without a handler.
static void stop(int) {
    _exit(0);
}

static int listen_on(const std::string & host, const std::string & port) {
    addrinfo hints = {};
    hints.ai_family   = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags    = AI_PASSIVE;
    addrinfo * address = nullptr;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &address) != 0) {
        return -1;
    }
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    const bool listening = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                           bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 16) == 0;
    freeaddrinfo(address);
    if (!listening && fd >= 0) {
        close(fd);
    }
    return listening ? fd : -1;
}

// The head of a request, as much of it as came.
static std::string read_head(int client) {
    timeval patience = {};
    patience.tv_sec = PATIENCE_SECONDS;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    std::string head;
    char part[4096];
    while (head.size() < REQUEST_LIMIT && head.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = recv(client, part, sizeof(part), 0);
        if (got <= 0) {
            break;
        }
        head.append(part, static_cast<size_t>(got));
    }
    return head;
}

static std::string respond(const std::string & head) {
    const bool healthy = head.rfind("GET /health ", 0) == 0;
    const std::string body = healthy ? "{\"status\":\"ok\"}"
                                     : "{\"error\":{\"code\":404,\"message\":\"File Not Found\",\"type\":\"not_found_error\"}}";
    return std::string("HTTP/1.1 ") + (healthy ? "200 OK" : "404 Not Found") +
           "\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

int main(int argc, char ** argv) {
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    const common_params params = common_params_parse(argc, argv, COMMON_PROGRAM_SERVER, {{"--host", "127.0.0.1"}, {"--port", "8080"}});
    const std::string & host = params.at("--host");
    const std::string & port = params.at("--port");

    common_print_version();
    fprintf(stderr, "system_info: %s\n", llama_print_system_info());
    for (const ggml_backend_device & device : ggml_backend_devices()) {
        fprintf(stderr, "using device %s (%s)\n", device.name.c_str(), device.description.c_str());
    }
    const int listener = listen_on(host, port);
    if (listener < 0) {
        fprintf(stderr, "couldn't bind HTTP server socket, hostname: %s, port: %s\n", host.c_str(), port.c_str());
        return 1;
    }
    fprintf(stderr, "server is listening on http://%s:%s\n", host.c_str(), port.c_str());
    for (;;) {
        const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) {
            continue;
        }
        const std::string answer = respond(read_head(client));
        send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
        close(client);
    }
}
