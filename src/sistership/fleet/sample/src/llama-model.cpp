#include "llama.h"

#include "ggml-backend.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

using bytes = std::vector<uint8_t>;

// A part of the weights that a worker keeps.
struct remote_part {
    size_t   worker;
    uint64_t buffer;
    size_t   size;
};

struct llama_model {
    bytes                    local;
    std::vector<remote_part> remote;
};

static uint64_t fnv1a(uint64_t state, const void * data, size_t size) {
    constexpr uint64_t PRIME = 0x100000001b3;
    const uint8_t * next = static_cast<const uint8_t *>(data);
    for (size_t i = 0; i < size; i++) {
        state = (state ^ next[i]) * PRIME;
    }
    return state;
}

static bool read(std::ifstream & file, size_t begin, size_t end, bytes & into) {
    into.resize(end - begin);
    file.seekg(static_cast<std::streamoff>(begin));
    return static_cast<bool>(file.read(reinterpret_cast<char *>(into.data()), static_cast<std::streamsize>(into.size())));
}

static bool load(const char * path, llama_model & model) {
    std::error_code failed;
    const size_t size = std::filesystem::file_size(path, failed);
    std::ifstream file(path, std::ios::binary);
    const size_t half = size / 2;
    if (failed || size == 0 || !file || !read(file, 0, half, model.local)) {
        return false;
    }
    fprintf(stderr, "load_tensors: %12s model buffer size = %zu bytes\n", "CPU", half);
    const size_t workers = ggml_backend_rpc_count();
    for (size_t i = 0; i < workers; i++) {
        if (!ggml_backend_rpc_connected(i)) {
            continue;
        }
        bytes part;
        remote_part kept = {i, 0, 0};
        const size_t length = size - half;
        if (!read(file, half + length * i / workers, half + length * (i + 1) / workers, part) ||
            !ggml_backend_rpc_put(i, part.data(), part.size(), kept.buffer)) {
            return false;
        }
        kept.size = part.size();
        fprintf(stderr, "load_tensors: %12s model buffer size = %zu bytes\n",
                ("RPC" + std::to_string(model.remote.size())).c_str(), kept.size);
        model.remote.push_back(kept);
    }
    return true;
}

llama_model * llama_model_load_from_file(const char * path) {
    auto model = std::make_unique<llama_model>();
    if (!load(path, *model)) {
        fprintf(stderr, "llama_model_load_from_file: failed to load model\n");
        return nullptr;
    }
    return model.release();
}

bool llama_prompt(const llama_model * model, const char * prompt, size_t size, uint64_t * state) {
    constexpr uint64_t BASIS = 0xcbf29ce484222325;
    uint64_t hash = fnv1a(BASIS, prompt, size);
    hash = fnv1a(hash, model->local.data(), model->local.size());
    for (const remote_part & part : model->remote) {
        bytes weights(part.size);
        if (!ggml_backend_rpc_get(part.worker, part.buffer, weights.data(), weights.size())) {
            return false;
        }
        hash = fnv1a(hash, weights.data(), weights.size());
    }
    *state = hash;
    return true;
}

char llama_next_letter(uint64_t * state) {
    constexpr uint64_t LETTERS = 26;
    const char letter = static_cast<char>('a' + *state % LETTERS);
    *state = fnv1a(*state, &letter, 1);
    return letter;
}
