#include "arg.h"
#include "llama.h"

#include <chrono>
#include <cstdio>

int main(int argc, char ** argv) {
    common_params_parse(argc, argv, {});
    constexpr int TOKENS = 2000;
    const auto begin = std::chrono::steady_clock::now();
    const float sum = llama_decode(TOKENS, 4096);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    printf("| model  | backend | test   |        t/s |\n");
    printf("| ------ | ------- | ------ | ---------: |\n");
    printf("| sample | CPU     | tg%4d | %10.2f |\n", TOKENS, TOKENS / seconds.count());
    printf("\nbuild: %s (%d), sum %.6f\n", LLAMA_COMMIT, LLAMA_BUILD_NUMBER, static_cast<double>(sum));
    return 0;
}
