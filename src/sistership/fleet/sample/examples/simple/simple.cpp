#include "llama.h"

#include <cstdio>

int main() {
    printf("%.6f\n", static_cast<double>(llama_decode(1, 4096)));
    return 0;
}
