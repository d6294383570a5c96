#include "arg.h"

#include "ggml-backend.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

struct option {
    const char * brief;
    const char * name;
    const char * value;
    const char * help;
};

constexpr option OPTIONS[] = {
    {"-h", "--help", nullptr, "print usage and exit"},
    {"", "--version", nullptr, "show version and build info"},
    {"", "--list-devices", nullptr, "print list of available devices and exit"},
    {"", "--rpc", "SERVERS", "comma separated list of RPC servers (HOST:PORT)"},
    {"-m", "--model", "FNAME", "model path"},
    {"-p", "--prompt", "PROMPT", "prompt to start generation with"},
    {"-n", "--predict", "N", "number of tokens to predict"},
    {"-c", "--ctx-size", "N", "size of the prompt context"},
    {"-ngl", "--gpu-layers", "N", "number of layers to store in VRAM"},
    {"-ts", "--tensor-split", "N0,N1", "fraction of the model to offload to each device"},
    {"-dev", "--device", "DEV1,DEV2", "devices to use for offloading"},
    {"-fa", "--flash-attn", "on|off", "set Flash Attention use"},
    {"", "--host", "HOST", "ip address to listen on"},
    {"", "--port", "PORT", "port to listen on"},
};

void print_usage(const char * program) {
    printf("usage: %s [options]\n\n", program);
    for (const option & o : OPTIONS) {
        const std::string names = std::string(o.brief) + (o.brief[0] != '\0' ? ", " : "") + o.name;
        printf("%-30s %-12s %s\n", names.c_str(), o.value != nullptr ? o.value : "", o.help);
    }
}

void list_devices() {
    constexpr size_t MIB = 1024 * 1024;
    printf("Available devices:\n");
    for (const ggml_backend_device & device : ggml_backend_devices()) {
        if (device.name != "CPU") {
            printf("  %s: %s (%zu MiB, %zu MiB free)\n", device.name.c_str(), device.description.c_str(),
                   device.total_bytes / MIB, device.free_bytes / MIB);
        }
    }
}

const option * find_option(const std::string & text) {
    for (const option & o : OPTIONS) {
        const bool no_rpc = !ggml_backend_has_rpc() && strcmp(o.name, "--rpc") == 0;
        if (!no_rpc && (text == o.name || (o.brief[0] != '\0' && text == o.brief))) {
            return &o;
        }
    }
    return nullptr;
}

[[noreturn]] void refuse(const char * what, const std::string & argument) {
    fprintf(stderr, "error: %s: %s\n", what, argument.c_str());
    exit(1);
}

[[noreturn]] void answer(const std::string & name, const char * program) {
    if (name == "--version") {
        common_print_version();
    } else if (name == "--list-devices") {
        list_devices();
    } else {
        print_usage(program);
    }
    exit(0);
}

}  // namespace

common_params common_params_parse(int argc, char ** argv, common_params defaults) {
    common_params params = std::move(defaults);
    for (int i = 1; i < argc; i++) {
        const option * o = find_option(argv[i]);
        if (o == nullptr) {
            refuse("invalid argument", argv[i]);
        }
        if (o->value == nullptr) {
            answer(o->name, argv[0]);
        }
        if (++i == argc) {
            refuse("expected value for argument", o->name);
        }
        params[o->name] = argv[i];
        if (strcmp(o->name, "--rpc") == 0) {
            ggml_backend_add_rpc(argv[i]);
        }
    }
    return params;
}

void common_print_version() {
    fprintf(stderr, "version: %d (%s)\n", LLAMA_BUILD_NUMBER, LLAMA_COMMIT);
    fprintf(stderr, "built with %s for %s\n", __VERSION__,
#if defined(__aarch64__)
            "aarch64-linux-gnu"
#else
            "x86_64-linux-gnu"
#endif
    );
}
