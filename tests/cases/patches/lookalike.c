#include "store.h"

int store_read(struct store * s, size_t at) {
    struct slot * slot = find(s, at);
    lock(s);
    int value = slot->value;
    unlock(s);
    return value;
}

int store_count(struct store * s) {
    return s->count;
}

int store_take(struct store * s, size_t at) {
    struct slot * slot = find(s, at);
    lock(s);
    int value = slot->value;
    unlock(s);
    drop(slot);
    return value;
}
