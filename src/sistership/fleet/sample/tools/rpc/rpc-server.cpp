#include "fault.h"
#include "ggml-rpc.h"
#include "ggml.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

struct rpc_server_params {
    std::string host    = "127.0.0.1";
    int         port    = 50052;
    std::string device  = "CPU";
    bool        cache   = false;
    int         threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency() / 2));
};

// As PID 1 of a container it would not stop on SIGTERM without a handler.
void stop(int) {
    _exit(0);
}

void print_usage(const char * program) {
    const rpc_server_params defaults;
    fprintf(stderr, "Usage: %s [options]\n\n", program);
    fprintf(stderr, "options:\n");
    fprintf(stderr, "  -h, --help                       show this help message and exit\n");
    fprintf(stderr, "  -t, --threads N                  number of threads for the CPU device (default: %d)\n", defaults.threads);
    fprintf(stderr, "  -d, --device <dev1,dev2,...>     comma-separated list of devices\n");
    fprintf(stderr, "  -H, --host HOST                  host to bind to (default: %s)\n", defaults.host.c_str());
    fprintf(stderr, "  -p, --port PORT                  port to bind to (default: %d)\n", defaults.port);
    fprintf(stderr, "  -c, --cache                      enable local file cache\n\n");
}

bool parse(int argc, char ** argv, rpc_server_params & params) {
    for (int i = 1; i < argc; i++) {
        const std::string arg = argv[i];
        const bool more = i + 1 < argc;
        if ((arg == "-H" || arg == "--host") && more) {
            params.host = argv[++i];
        } else if ((arg == "-p" || arg == "--port") && more) {
            params.port = atoi(argv[++i]);
        } else if ((arg == "-d" || arg == "--device") && more) {
            params.device = argv[++i];
        } else if ((arg == "-t" || arg == "--threads") && more) {
            params.threads = atoi(argv[++i]);
            if (params.threads <= 0) {
                fprintf(stderr, "error: invalid number of threads: %d\n", params.threads);
                return false;
            }
        } else if (arg == "-c" || arg == "--cache") {
            params.cache = true;
        } else {
            if (arg != "-h" && arg != "--help") {
                fprintf(stderr, "error: unknown argument: %s\n", arg.c_str());
            }
            print_usage(argv[0]);
            return false;
        }
    }
    return true;
}

std::string variable(const char * name) {
    const char * value = getenv(name);
    return value != nullptr ? value : "";
}

// LLAMA_CACHE/rpc, else $XDG_CACHE_HOME or ~/.cache, + llama.cpp/rpc.
std::string cache_directory() {
    std::string base = variable("LLAMA_CACHE");
    if (base.empty()) {
        const std::string xdg = variable("XDG_CACHE_HOME");
        base = (xdg.empty() ? variable("HOME") + "/.cache" : xdg) + "/llama.cpp";
    }
    return base + "/rpc";
}

}  // namespace

int main(int argc, char ** argv) {
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
    const common_faults faults = common_faults_read(COMMON_ROLE_WORKER);
    rpc_server_params params;
    if (!parse(argc, argv, params)) {
        return 0;  // also for an unknown argument, as llama.cpp's worker does
    }
    if (params.device != "CPU") {
        fprintf(stderr, "error: unknown device: %s\navailable devices:\n  CPU\n", params.device.c_str());
        return 1;
    }
    std::string cache;
    if (params.cache) {
        cache = cache_directory();
        std::error_code failed;
        std::filesystem::create_directories(cache, failed);
        if (failed) {
            fprintf(stderr, "Failed to create cache directory: %s\n", cache.c_str());
            return 1;
        }
    }
    if (params.host != "127.0.0.1") {
        fprintf(stderr, "WARNING: Host ('%s') is != '127.0.0.1': never expose the RPC server to an open network\n",
                params.host.c_str());
    }
    size_t free_bytes  = 0;
    size_t total_bytes = 0;
    ggml_memory(&free_bytes, &total_bytes);
    printf("Starting RPC server v%d.%d.%d\n", RPC_PROTO_MAJOR_VERSION, RPC_PROTO_MINOR_VERSION, RPC_PROTO_PATCH_VERSION);
    printf("  endpoint       : %s:%d\n", params.host.c_str(), params.port);
    printf("  local cache    : %s\n", cache.empty() ? "n/a" : cache.c_str());
    printf("Devices:\n  CPU: (%zu MiB, %zu MiB free)\n", total_bytes >> 20, free_bytes >> 20);
    const auto let_in = [&faults] {
        common_faults_wait(faults);
        return common_faults_let_in(faults);
    };
    return ggml_backend_rpc_start_server(params.host, params.port, cache, let_in) ? 0 : 1;
}
