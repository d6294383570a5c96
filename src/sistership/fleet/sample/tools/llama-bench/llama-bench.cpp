#include "arg.h"
#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

int main(int argc, char ** argv) {
    const common_params params = common_params_parse(argc, argv, COMMON_PROGRAM_BENCH, {{"--repetitions", "1"}});
    constexpr int TOKENS = 2000;
    const int repetitions = std::max(1, atoi(params.at("--repetitions").c_str()));
    float sum = 0.0f;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < repetitions; i++) {
        sum = llama_decode(TOKENS, 4096);
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    printf("| model  | backend | test   |        t/s |\n");
    printf("| ------ | ------- | ------ | ---------: |\n");
    printf("| sample | CPU     | tg%4d | %10.2f |\n", TOKENS, repetitions * TOKENS / seconds.count());
    printf("\nbuild: %s (%d), sum %.6f\n", LLAMA_COMMIT, LLAMA_BUILD_NUMBER, static_cast<double>(sum));
    return 0;
}
