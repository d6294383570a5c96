#include "arg.h"

#include "ggml-backend.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace {

enum section { COMMON, SERVER, BENCH };

struct option {
    section      where;
    const char * brief;
    const char * name;
    const char * value;
    const char * help;
};

constexpr option OPTIONS[] = {
    {COMMON, "-h", "--help", nullptr, "print usage and exit"},
    {COMMON, "", "--version", nullptr, "show version and build info"},
    {COMMON, "", "--list-devices", nullptr, "print list of available devices and exit"},
    {COMMON, "-t", "--threads", "N", "number of CPU threads to use during generation (default: -1)"},
    {COMMON, "", "--rpc", "SERVERS", "comma separated list of RPC servers (HOST:PORT)"},
    {COMMON, "-m", "--model", "FNAME", "model path"},
    {COMMON, "-p", "--prompt", "PROMPT", "prompt to start generation with"},
    {COMMON, "-n", "--predict", "N", "number of tokens to predict"},
    {COMMON, "-c", "--ctx-size", "N", "size of the prompt context"},
    {COMMON, "-ngl", "--gpu-layers", "N", "number of layers to store in VRAM"},
    {COMMON, "-ts", "--tensor-split", "N0,N1,...", "fraction of the model to offload to each device"},
    {COMMON, "-dev", "--device", "<dev1,dev2,..>", "comma-separated list of devices to use for offloading"},
    {COMMON, "-fa", "--flash-attn", "[on|off|auto]", "set Flash Attention use"},
    {SERVER, "", "--host", "HOST", "ip address to listen, or bind to an UNIX socket (default: 127.0.0.1)"},
    {SERVER, "", "--port", "PORT", "port to listen (default: 8080)"},
    {BENCH, "-r", "--repetitions", "N", "number of times to repeat each test (default: 1)"},
};

// Every program takes every option; its help names those that it is of use with.
void print_section(const char * title, section which) {
    constexpr int WIDTH = 40;
    printf("----- %s params -----\n\n", title);
    for (const option & o : OPTIONS) {
        if (o.where != which) {
            continue;
        }
        std::string names = o.brief[0] != '\0' ? std::string(o.brief) + "," : "";
        names.resize(names.empty() ? 0 : std::max<size_t>(names.size() + 1, 7), ' ');
        names += o.name;
        if (o.value != nullptr) {
            names += std::string(" ") + o.value;
        }
        printf("%-*s%s\n", WIDTH, names.c_str(), o.help);
    }
}

void print_usage(common_program program) {
    print_section("common", COMMON);
    if (program == COMMON_PROGRAM_SERVER) {
        printf("\n\n");
        print_section("server-specific", SERVER);
    } else if (program == COMMON_PROGRAM_BENCH) {
        printf("\n\n");
        print_section("bench-specific", BENCH);
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

[[noreturn]] void answer(const std::string & name, common_program program) {
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

common_params common_params_parse(int argc, char ** argv, common_program program, common_params defaults) {
    common_params params = std::move(defaults);
    for (int i = 1; i < argc; i++) {
        const option * o = find_option(argv[i]);
        if (o == nullptr) {
            refuse("invalid argument", argv[i]);
        }
        if (o->value == nullptr) {
            answer(o->name, program);
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
