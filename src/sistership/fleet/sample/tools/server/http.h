#pragma once

#include <functional>
#include <string>

struct http_request {
    std::string method;
    std::string path;
    std::string body;
};

// `body` is JSON.
struct http_answer {
    int         status;
    std::string body;
};

http_answer http_error(int status, const std::string & message, const std::string & type);

// -1 when the address cannot be bound.
int http_listen(const std::string & host, const std::string & port);

// Answers one request each client, every client in a thread of its own: a slow answer delays no other.
// `let_in` is asked first in that thread; false hangs up. Never returns.
[[noreturn]] void http_serve(int listener, const std::function<bool()> & let_in,
                             const std::function<http_answer(const http_request &)> & answer);
