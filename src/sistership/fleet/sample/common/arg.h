#pragma once

#include <map>
#include <string>

extern const int  LLAMA_BUILD_NUMBER;
extern const char * const LLAMA_COMMIT;

// Values by the long name of their option, e.g. "--port" → "8080".
using common_params = std::map<std::string, std::string>;

// Decides which options `--help` names.
enum common_program { COMMON_PROGRAM_CLI, COMMON_PROGRAM_SERVER, COMMON_PROGRAM_BENCH };

// Reads the options that llama-cli, llama-server and llama-bench share, from left to right:
// `--list-devices` lists what is known when it is met, so `--rpc` goes before it.
// `--help`, `--version` and `--list-devices` end the program with 0, an unknown option with 1.
common_params common_params_parse(int argc, char ** argv, common_program program, common_params defaults);

void common_print_version();
