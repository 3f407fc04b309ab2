/* A hash from handles to what was charged for them, in shards with a lock each and without an allocation per entry.
   Called by the wrappers that allocate and free. */
#include <stdlib.h>
#include <string.h>

#include "limiter.h"

#define EMPTY 0ULL /* no pointer and no handle of the driver is 0 */

static uint64_t mixed(uint64_t key) {
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdULL;
    key ^= key >> 33;
    return key;
}

static struct ledger_shard *shard_of(struct ledger *ledger, uint64_t key) {
    return &ledger->shards[mixed(key) % LEDGER_SHARDS];
}

static size_t place_of(const struct ledger_shard *shard, uint64_t key) {
    size_t place = (mixed(key) / LEDGER_SHARDS) & (shard->capacity - 1);
    while (shard->keys[place] != EMPTY && shard->keys[place] != key) place = (place + 1) & (shard->capacity - 1);
    return place;
}

static bool grow(struct ledger_shard *shard) {
    struct ledger_shard wider = {.capacity = shard->capacity ? shard->capacity * 2 : 64, .count = shard->count};
    wider.keys = calloc(wider.capacity, sizeof *wider.keys);
    wider.entries = calloc(wider.capacity, sizeof *wider.entries);
    if (!wider.keys || !wider.entries) {
        free(wider.keys);
        free(wider.entries);
        return false;
    }
    for (size_t place = 0; place < shard->capacity; place++) {
        if (shard->keys[place] == EMPTY) continue;
        size_t next = place_of(&wider, shard->keys[place]);
        wider.keys[next] = shard->keys[place];
        wider.entries[next] = shard->entries[place];
    }
    free(shard->keys);
    free(shard->entries);
    shard->keys = wider.keys;
    shard->entries = wider.entries;
    shard->capacity = wider.capacity;
    return true;
}

/* Close the hole, so that later keys are still found: entries move back over it unless they are at home after it. */
static void remove_at(struct ledger_shard *shard, size_t hole) {
    size_t mask = shard->capacity - 1;
    for (size_t place = (hole + 1) & mask; shard->keys[place] != EMPTY; place = (place + 1) & mask) {
        size_t home = (mixed(shard->keys[place]) / LEDGER_SHARDS) & mask;
        if (((place - home) & mask) < ((place - hole) & mask)) continue;
        shard->keys[hole] = shard->keys[place];
        shard->entries[hole] = shard->entries[place];
        hole = place;
    }
    shard->keys[hole] = EMPTY;
    shard->count--;
}

bool ledger_put(struct ledger *ledger, uint64_t key, struct ledger_entry entry) {
    struct ledger_shard *shard = shard_of(ledger, key);
    pthread_mutex_lock(&shard->lock);
    bool has_room = shard->count * 4 < shard->capacity * 3 || grow(shard);
    if (has_room) {
        size_t place = place_of(shard, key);
        if (shard->keys[place] == EMPTY) shard->count++;
        shard->keys[place] = key;
        shard->entries[place] = entry;
    }
    pthread_mutex_unlock(&shard->lock);
    return has_room;
}

static bool find(struct ledger *ledger, uint64_t key, struct ledger_entry *entry, bool takes) {
    struct ledger_shard *shard = shard_of(ledger, key);
    pthread_mutex_lock(&shard->lock);
    size_t place = shard->capacity ? place_of(shard, key) : 0;
    bool is_found = shard->capacity && key != EMPTY && shard->keys[place] == key;
    if (is_found) {
        *entry = shard->entries[place];
        if (takes) remove_at(shard, place);
    }
    pthread_mutex_unlock(&shard->lock);
    return is_found;
}

bool ledger_get(struct ledger *ledger, uint64_t key, struct ledger_entry *entry) { return find(ledger, key, entry, false); }
bool ledger_take(struct ledger *ledger, uint64_t key, struct ledger_entry *entry) { return find(ledger, key, entry, true); }

/* Take out everything of a context, for which the driver has freed it; the bytes that it held. Moved entries may come round again, so each place is looked
   at until it keeps still. */
uint64_t ledger_drop(struct ledger *ledger, CUcontext context) {
    uint64_t bytes = 0;
    for (int index = 0; index < LEDGER_SHARDS; index++) {
        struct ledger_shard *shard = &ledger->shards[index];
        pthread_mutex_lock(&shard->lock);
        for (size_t place = 0; place < shard->capacity; place++)
            while (shard->keys[place] != EMPTY && shard->entries[place].context == context) {
                bytes += shard->entries[place].bytes;
                remove_at(shard, place);
            }
        pthread_mutex_unlock(&shard->lock);
    }
    return bytes;
}
