/* The card that the stand-ins for the driver and for NVML share: a file mapped by all processes of a test. */
#ifndef MUSTER_FAKE_CARD_H
#define MUSTER_FAKE_CARD_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CARD_BYTES (64ULL << 30)
#define CARD_PROCESSES 512

struct fake_card {
    _Atomic uint64_t used, most_used; /* of live and dead; the dead are taken off by card_bury() */
    _Atomic uint64_t busy_until;
    _Atomic uint64_t launches, events, captured_events;
    struct { _Atomic uint32_t pid; _Atomic uint64_t used; } processes[CARD_PROCESSES];
};

static inline struct fake_card *card(void) {
    static _Atomic(struct fake_card *) mapped;
    struct fake_card *found = atomic_load(&mapped);
    if (found) return found;
    int file = open(getenv("FAKE_CARD"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || ftruncate(file, sizeof(struct fake_card)) != 0) abort();
    found = mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (found == MAP_FAILED) abort();
    atomic_store(&mapped, found);
    return found;
}

/* What the driver does when a process dies: its memory comes back. */
static inline void card_bury(void) {
    for (int index = 0; index < CARD_PROCESSES; index++) {
        uint32_t pid = atomic_load(&card()->processes[index].pid);
        if (pid == 0 || kill((pid_t)pid, 0) == 0) continue;
        if (!atomic_compare_exchange_strong(&card()->processes[index].pid, &pid, 0)) continue;
        atomic_fetch_sub(&card()->used, atomic_exchange(&card()->processes[index].used, 0));
    }
}

static inline _Atomic uint64_t *card_own(void) {
    uint32_t own = (uint32_t)getpid();
    for (int index = 0; index < CARD_PROCESSES; index++)
        if (atomic_load(&card()->processes[index].pid) == own) return &card()->processes[index].used;
    for (int index = 0; index < CARD_PROCESSES; index++) {
        uint32_t nobody = 0;
        if (atomic_compare_exchange_strong(&card()->processes[index].pid, &nobody, own)) return &card()->processes[index].used;
    }
    abort();
}

/* The card's count comes first and goes last: a process that is killed between the two leaves the card a little fuller,
   which has room, and never takes back more than it had. */
static inline bool card_take(uint64_t bytes) {
    card_bury();
    uint64_t used = atomic_fetch_add(&card()->used, bytes) + bytes;
    atomic_fetch_add(card_own(), bytes);
    if (used > CARD_BYTES) {
        atomic_fetch_sub(card_own(), bytes);
        atomic_fetch_sub(&card()->used, bytes);
        return false;
    }
    uint64_t most = atomic_load(&card()->most_used);
    while (used > most && !atomic_compare_exchange_weak(&card()->most_used, &most, used)) {}
    return true;
}

static inline void card_give(uint64_t bytes) {
    atomic_fetch_sub(card_own(), bytes);
    atomic_fetch_sub(&card()->used, bytes);
}

/* One kernel after the other; the end of this one. */
static inline uint64_t card_run(uint64_t now, uint64_t ns) {
    uint64_t until = atomic_load(&card()->busy_until), end;
    do end = (until > now ? until : now) + ns;
    while (!atomic_compare_exchange_weak(&card()->busy_until, &until, end));
    return end;
}

#endif
