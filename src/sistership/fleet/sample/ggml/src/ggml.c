#define _DEFAULT_SOURCE

#include "ggml.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void ggml_abort(const char * file, int line, const char * condition) {
    fflush(stdout);
    fprintf(stderr, "%s:%d: GGML_ASSERT(%s) failed\n", file, line, condition);
    abort();
}

const char * ggml_version(void) {
    return GGML_VERSION;
}

const char * ggml_commit(void) {
    return GGML_COMMIT;
}

void ggml_memory(size_t * free, size_t * total) {
    const long page      = sysconf(_SC_PAGESIZE);
    const long pages     = sysconf(_SC_PHYS_PAGES);
    const long available = sysconf(_SC_AVPHYS_PAGES);
    *total = page > 0 && pages > 0 ? (size_t) page * (size_t) pages : 0;
    *free  = page > 0 && available > 0 ? (size_t) page * (size_t) available : 0;
}
