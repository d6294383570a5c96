// Without a model it only answers GET /health. Workers that do not answer are left out, as llama.cpp does it.

#include "arg.h"
#include "fault.h"
#include "ggml-backend.h"
#include "http.h"
#include "json.h"
#include "llama.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace {

using steady = std::chrono::steady_clock;

// What one completion is asked for, and what it became.
struct task {
    std::string prompt;
    int         n_predict = 16;
    std::string content;
    double      prompt_ms    = 0;
    double      predicted_ms = 0;
};

class server {
  public:
    bool load(const common_params & params);
    http_answer answer(const http_request & request);

  private:
    http_answer completion(const http_request & request);
    bool run(task & t);
    std::string native(const task & t) const;
    std::string openai(const task & t) const;

    std::atomic<bool> ready = false;
    llama_model *     model = nullptr;
    std::string       model_name;
    std::string       devices;  // a JSON list
    std::mutex        at_work;
};

// As PID 1 of a container it would not stop on SIGTERM without a handler.
void stop(int) {
    _exit(0);
}

double milliseconds(steady::time_point begin, steady::time_point end) {
    return std::chrono::duration<double, std::milli>(end - begin).count();
}

// An empty message when the request is one that can be answered.
std::string read_task(const std::string & body, task & t) {
    constexpr double LIMIT = 65536;
    json_object given;
    if (!json_read(body, given)) {
        return "the body is not a JSON object";
    }
    const auto prompt = given.find("prompt");
    if (prompt == given.end() || !prompt->second.is_string) {
        return "\"prompt\" has to be a string";
    }
    t.prompt = prompt->second.text;
    const auto stream = given.find("stream");
    if (stream != given.end() && stream->second.text != "false") {
        return "\"stream\" is not supported";
    }
    const auto n = given.count("n_predict") != 0 ? given.find("n_predict") : given.find("max_tokens");
    if (n != given.end()) {
        char * end = nullptr;
        const double number = strtod(n->second.text.c_str(), &end);
        if (n->second.is_string || *end != '\0' || number != std::floor(number) || number < 0 || number > LIMIT) {
            return "\"" + n->first + "\" has to be a whole number from 0 to 65536";
        }
        t.n_predict = static_cast<int>(number);
    }
    return "";
}

bool server::load(const common_params & params) {
    for (const ggml_backend_device & device : ggml_backend_devices()) {
        fprintf(stderr, "using device %s (%s)\n", device.name.c_str(), device.description.c_str());
        devices += (devices.empty() ? "[" : ",") + json_quote(device.name);
    }
    devices += "]";
    const auto path = params.find("--model");
    if (path != params.end()) {
        fprintf(stderr, "main: loading model\n");
        model = llama_model_load_from_file(path->second.c_str());
        if (model == nullptr) {
            fprintf(stderr, "srv    load_model: failed to load model, '%s'\n", path->second.c_str());
            fprintf(stderr, "main: exiting due to model loading error\n");
            return false;
        }
        model_name = path->second.substr(path->second.rfind('/') + 1);
        fprintf(stderr, "main: model loaded\n");
    }
    ready = true;
    return true;
}

bool server::run(task & t) {
    const std::lock_guard<std::mutex> alone(at_work);
    const auto begin = steady::now();
    uint64_t state = 0;
    if (!llama_prompt(model, t.prompt.data(), t.prompt.size(), &state)) {
        return false;
    }
    const auto prompted = steady::now();
    while (t.content.size() < static_cast<size_t>(t.n_predict)) {
        t.content += llama_next_letter(&state);
    }
    t.prompt_ms    = milliseconds(begin, prompted);
    t.predicted_ms = milliseconds(prompted, steady::now());
    return true;
}

std::string server::native(const task & t) const {
    return "{\"content\":" + json_quote(t.content) + ",\"tokens_predicted\":" + std::to_string(t.n_predict) +
           ",\"devices\":" + devices + ",\"timings\":{\"prompt_n\":" + std::to_string(t.prompt.size()) +
           ",\"prompt_ms\":" + std::to_string(t.prompt_ms) + ",\"predicted_n\":" + std::to_string(t.n_predict) +
           ",\"predicted_ms\":" + std::to_string(t.predicted_ms) + "}}";
}

std::string server::openai(const task & t) const {
    const size_t prompt_tokens = t.prompt.size();
    const size_t tokens        = t.content.size();
    return "{\"id\":\"cmpl-sample\",\"object\":\"text_completion\",\"created\":" + std::to_string(time(nullptr)) +
           ",\"model\":" + json_quote(model_name) + ",\"choices\":[{\"text\":" + json_quote(t.content) +
           ",\"index\":0,\"logprobs\":null,\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":" +
           std::to_string(prompt_tokens) + ",\"completion_tokens\":" + std::to_string(tokens) +
           ",\"total_tokens\":" + std::to_string(prompt_tokens + tokens) + "}}";
}

http_answer server::completion(const http_request & request) {
    task t;
    const std::string trouble = read_task(request.body, t);
    if (!trouble.empty()) {
        return http_error(400, trouble, "invalid_request_error");
    }
    if (!run(t)) {
        return http_error(500, "Remote RPC server crashed or returned malformed response", "server_error");
    }
    return {200, request.path == "/completion" ? native(t) : openai(t)};
}

http_answer server::answer(const http_request & request) {
    if (!ready) {
        return http_error(503, "Loading model", "unavailable_error");
    }
    if (request.method == "GET" && request.path == "/health") {
        return {200, "{\"status\":\"ok\"}"};
    }
    if (model != nullptr && request.method == "POST" &&
        (request.path == "/completion" || request.path == "/v1/completions")) {
        return completion(request);
    }
    return http_error(404, "File Not Found", "not_found_error");
}

}  // namespace

int main(int argc, char ** argv) {
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    const common_faults faults = common_faults_read(COMMON_ROLE_SERVER);
    const common_params params = common_params_parse(argc, argv, COMMON_PROGRAM_SERVER, {{"--host", "127.0.0.1"}, {"--port", "8080"}});
    const std::string & host = params.at("--host");
    const std::string & port = params.at("--port");

    common_print_version();
    fprintf(stderr, "system_info: %s\n", llama_print_system_info());
    const int listener = http_listen(host, port);
    if (listener < 0) {
        fprintf(stderr, "couldn't bind HTTP server socket, hostname: %s, port: %s\n", host.c_str(), port.c_str());
        return 1;
    }
    // It listens before it loads: a model takes minutes to arrive, and its watchers want an answer meanwhile.
    server s;
    std::thread http([&] {
        http_serve(
            listener, [&] { return common_faults_let_in(faults); },
            [&s](const http_request & request) { return s.answer(request); });
    });
    common_faults_wait(faults);
    if (!s.load(params)) {
        _exit(1);  // the other thread still uses what an orderly end would take apart
    }
    fprintf(stderr, "server is listening on http://%s:%s\n", host.c_str(), port.c_str());
    http.join();
}
