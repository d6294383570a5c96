// Writes the table of ggml-cpu: floats in ±[0.5, 1), the same bytes on every machine.
// Integer arithmetic only: no result depends on the compiler's floating point.

#include <cstdint>
#include <cstdio>
#include <vector>

static constexpr size_t   TABLE_BYTES = 32u * 1024 * 1024;
static constexpr uint64_t SEED        = 0x5157'4552'5348'4950;

static uint64_t splitmix64(uint64_t & state) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    std::vector<unsigned char> bytes(TABLE_BYTES);
    uint64_t state = SEED;
    for (size_t i = 0; i < bytes.size(); i += 4) {
        const uint32_t bits = (static_cast<uint32_t>(splitmix64(state)) & 0x807fffff) | 0x3f000000;
        for (size_t byte = 0; byte < 4; byte++) {
            bytes[i + byte] = static_cast<unsigned char>(bits >> (8 * byte));
        }
    }
    FILE * out = fopen(argv[1], "wb");
    if (out == nullptr) {
        perror(argv[1]);
        return 1;
    }
    const bool written = fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size();
    if (fclose(out) != 0 || !written) {
        perror(argv[1]);
        return 1;
    }
    return 0;
}
