#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define GGML_NORETURN __attribute__((noreturn))
#else
#    define GGML_NORETURN
#endif

// Ends the process when a condition that only a broken or hostile peer can break does not hold.
#define GGML_ASSERT(x) do { if (!(x)) { ggml_abort(__FILE__, __LINE__, #x); } } while (0)

GGML_NORETURN void ggml_abort(const char * file, int line, const char * condition);

const char * ggml_version(void);
const char * ggml_commit(void);

// Memory of this machine in bytes.
void ggml_memory(size_t * free, size_t * total);

#ifdef __cplusplus
}
#endif
