#pragma once

#include <map>
#include <string>

extern const int  LLAMA_BUILD_NUMBER;
extern const char * const LLAMA_COMMIT;

// Values by the long name of their option, e.g. "--port" → "8080".
using common_params = std::map<std::string, std::string>;

// Reads the options that llama-cli, llama-server and llama-bench share, from left to right:
// `--list-devices` lists what is known when it is met, so `--rpc` goes before it.
// `--help`, `--version` and `--list-devices` end the program with 0, an unknown option with 1.
common_params common_params_parse(int argc, char ** argv, common_params defaults);

void common_print_version();
