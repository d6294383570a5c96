#include "http.h"

#include "json.h"

#include <cstdlib>
#include <netdb.h>
#include <sstream>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <thread>
#include <unistd.h>

static constexpr size_t REQUEST_LIMIT    = 1024 * 1024;
static constexpr int    PATIENCE_SECONDS = 5;

static const char * reason(int status) {
    switch (status) {
        case 200: return "OK";
        case 400: return "Bad Request";
        case 404: return "Not Found";
        case 503: return "Service Unavailable";
        default:  return "Internal Server Error";
    }
}

http_answer http_error(int status, const std::string & message, const std::string & type) {
    return {status, "{\"error\":{\"code\":" + std::to_string(status) + ",\"message\":" + json_quote(message) +
                        ",\"type\":" + json_quote(type) + "}}"};
}

int http_listen(const std::string & host, const std::string & port) {
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

// Has `text` hold `size` bytes, or more if more came.
static bool receive(int client, std::string & text, size_t size) {
    char part[4096];
    while (text.size() < size) {
        const ssize_t got = recv(client, part, sizeof(part), 0);
        if (got <= 0) {
            return false;
        }
        text.append(part, static_cast<size_t>(got));
    }
    return true;
}

// False when it is no number, or one beyond the limit.
static bool content_length(std::istream & head, size_t & length) {
    static const std::string NAME = "Content-Length:";
    length = 0;
    for (std::string line; std::getline(head, line);) {
        if (strncasecmp(line.c_str(), NAME.c_str(), NAME.size()) == 0) {
            char * end = nullptr;
            length = strtoull(line.c_str() + NAME.size(), &end, 10);
            return length <= REQUEST_LIMIT && *end == '\r';
        }
    }
    return true;
}

static bool receive(int client, http_request & request) {
    static const std::string END = "\r\n\r\n";
    std::string text;
    size_t end = std::string::npos;
    while ((end = text.find(END)) == std::string::npos) {
        if (text.size() > REQUEST_LIMIT || !receive(client, text, text.size() + 1)) {
            return false;
        }
    }
    std::istringstream head(text.substr(0, end + 2));
    head >> request.method >> request.path;
    size_t length = 0;
    const size_t begin = end + END.size();
    if (!content_length(head, length) || !receive(client, text, begin + length)) {
        return false;
    }
    request.body = text.substr(begin, length);
    return true;
}

static void send_all(int client, const std::string & text) {
    for (size_t at = 0; at < text.size();) {
        const ssize_t sent = send(client, text.data() + at, text.size() - at, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        at += static_cast<size_t>(sent);
    }
}

static void respond(int client, const std::function<http_answer(const http_request &)> & answer) {
    timeval patience = {};
    patience.tv_sec = PATIENCE_SECONDS;
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    http_request request;
    const http_answer made = receive(client, request)
                                 ? answer(request)
                                 : http_error(400, "no whole request came", "invalid_request_error");
    send_all(client, "HTTP/1.1 " + std::to_string(made.status) + " " + reason(made.status) +
                         "\r\nContent-Type: application/json; charset=utf-8\r\nConnection: close\r\nContent-Length: " +
                         std::to_string(made.body.size()) + "\r\n\r\n" + made.body);
}

void http_serve(int listener, const std::function<bool()> & let_in,
                const std::function<http_answer(const http_request &)> & answer) {
    for (;;) {
        const int client = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) {
            continue;
        }
        std::thread([client, &let_in, &answer] {
            if (let_in()) {
                respond(client, answer);
            }
            close(client);
        }).detach();
    }
}
