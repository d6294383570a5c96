#include "arg.h"
#include "llama.h"

#include <cstdio>
#include <cstdlib>

int main(int argc, char ** argv) {
    const common_params params = common_params_parse(argc, argv, COMMON_PROGRAM_CLI, {{"--predict", "16"}});
    fprintf(stderr, "system_info: %s\n", llama_print_system_info());
    printf("%.6f\n", static_cast<double>(llama_decode(atoi(params.at("--predict").c_str()), 4096)));
    return 0;
}
