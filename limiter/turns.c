/* See turns.h. Called by meter.c. */
#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The file of this card in this directory, made where there is none: all zero is a good beginning. */
struct turns *turns_map(const char *directory, const char *card) {
    char path[4096];
    if (!directory || !*directory || snprintf(path, sizeof path, "%s/%s", directory, card) >= (int)sizeof path) return NULL;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || ftruncate(file, sizeof(struct turns)) != 0) {
        if (file >= 0) close(file);
        fprintf(stderr, "muster-limiter: %s cannot be used; tenants of this card take no turns\n", path);
        return NULL;
    }
    struct turns *turns = mmap(NULL, sizeof *turns, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (turns == MAP_FAILED) return NULL;
    uint64_t fresh = 0;
    if (atomic_compare_exchange_strong(&turns->magic, &fresh, TURN_MAGIC) || fresh == TURN_MAGIC) return turns;
    munmap(turns, sizeof *turns);
    return NULL;
}

/* Times from a clock that began anew count as old. */
static bool is_older(uint64_t seen, uint64_t age, uint64_t now) { return seen > now + age || now > seen + age; }

static bool is_live(const struct turn_slot *slot, uint64_t now) {
    uint64_t seen = atomic_load(&slot->seen_ns);
    return seen != 0 && !is_older(seen, TURN_SLOT_STALE_NS, now);
}

/* A slot, or -1 when all are taken. */
int turn_join(struct turns *turns, uint64_t tenant, uint64_t now) {
    for (int index = 0; index < TURN_SLOTS; index++) {
        struct turn_slot *slot = &turns->slots[index];
        uint64_t seen = atomic_load(&slot->seen_ns);
        if (seen != 0 && !is_older(seen, TURN_SLOT_STALE_NS, now)) continue;
        if (!atomic_compare_exchange_strong(&slot->seen_ns, &seen, now)) continue;
        atomic_store(&slot->wants, 0);
        atomic_store(&slot->tenant, tenant);
        return index;
    }
    return -1;
}

void turn_show(struct turns *turns, int slot, unsigned priority, uint64_t now) {
    atomic_store(&turns->slots[slot].seen_ns, now);
    atomic_store(&turns->slots[slot].priority, priority);
}

static bool is_stale_holder(struct turns *turns, uint64_t holder, uint64_t now) {
    return holder > TURN_SLOTS || is_older(atomic_load(&turns->slots[holder - 1].seen_ns), TURN_HOLDER_STALE_NS, now);
}

bool turn_try(struct turns *turns, int slot, uint64_t now) {
    uint64_t holder = atomic_load(&turns->holder), own = (uint64_t)slot + 1;
    bool is_free = holder == 0 || (holder != own && is_stale_holder(turns, holder, now));
    bool has_it = holder == own || (is_free && atomic_compare_exchange_strong(&turns->holder, &holder, own));
    atomic_store(&turns->slots[slot].wants, !has_it);
    return has_it;
}

/* Who is next: the lower number of priority first, then the next in the round. */
static int next_slot(struct turns *turns, int slot, uint64_t now) {
    int best = -1;
    for (int step = 1; step < TURN_SLOTS; step++) {
        int index = (slot + step) % TURN_SLOTS;
        struct turn_slot *other = &turns->slots[index];
        if (!atomic_load(&other->wants) || !is_live(other, now)) continue;
        if (best < 0 || atomic_load(&other->priority) < atomic_load(&turns->slots[best].priority)) best = index;
    }
    return best;
}

void turn_pass(struct turns *turns, int slot, uint64_t now) {
    uint64_t own = (uint64_t)slot + 1;
    int next = next_slot(turns, slot, now);
    atomic_compare_exchange_strong(&turns->holder, &own, next < 0 ? 0 : (uint64_t)next + 1);
    atomic_fetch_add(&turns->bell, 1);
    syscall(SYS_futex, &turns->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool turn_is_wanted(struct turns *turns, int slot, uint64_t now) { return next_slot(turns, slot, now) >= 0; }

/* Whether another tenant uses the card at all. */
bool turn_has_others(struct turns *turns, int slot, uint64_t now) {
    uint64_t tenant = atomic_load(&turns->slots[slot].tenant);
    for (int index = 0; index < TURN_SLOTS; index++)
        if (is_live(&turns->slots[index], now) && atomic_load(&turns->slots[index].tenant) != tenant) return true;
    return false;
}

void turn_wait(struct turns *turns, uint32_t bell, uint64_t limit_ns) {
    struct timespec limit = {.tv_sec = 0, .tv_nsec = (long)limit_ns};
    syscall(SYS_futex, &turns->bell, FUTEX_WAIT, bell, &limit, NULL, 0);
}
