/* Turns on one card. Without MPS the card runs one process at a time and switches between busy ones every few
   milliseconds, which costs a tenth of it and hides whose time is whose. So the limited tenants of a card take turns
   through a small shared file: one runs until its time is used up and its work is done, then passes on. Nobody waits
   for a dead or stopped holder: one that does not show itself loses the turn. Time comes in as an argument. */
#ifndef MUSTER_TURNS_H
#define MUSTER_TURNS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TURN_SLOTS 128
#define TURN_MAGIC 0x31534e5255544d00ULL
#define TURN_HOLDER_STALE_NS 100000000ULL
#define TURN_SLOT_STALE_NS 3000000000ULL

struct turn_slot {
    _Atomic uint64_t seen_ns; /* 0: free */
    _Atomic uint64_t tenant;  /* processes of one container share it */
    _Atomic uint32_t wants;
    _Atomic uint32_t priority;
    uint64_t spare[5];
};

struct turns {
    _Atomic uint64_t magic;
    _Atomic uint64_t holder; /* slot + 1; 0: nobody */
    _Atomic uint32_t bell;   /* a futex that rings at every pass */
    uint32_t unused;
    uint64_t spare[5];
    struct turn_slot slots[TURN_SLOTS];
};

struct turns *turns_map(const char *directory, const char *card);
int turn_join(struct turns *turns, uint64_t tenant, uint64_t now);
void turn_show(struct turns *turns, int slot, unsigned priority, uint64_t now);
bool turn_try(struct turns *turns, int slot, uint64_t now);
void turn_pass(struct turns *turns, int slot, uint64_t now);
bool turn_is_wanted(struct turns *turns, int slot, uint64_t now);
bool turn_has_others(struct turns *turns, int slot, uint64_t now);
/* Until the bell, read before the last try, has rung again. */
void turn_wait(struct turns *turns, uint32_t bell, uint64_t limit_ns);

#endif
