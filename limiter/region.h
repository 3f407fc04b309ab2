/* The shared region: one file per container, mapped by all its processes and read by the node agent
   (muster/agent/region.py knows the same layout; tests/limiter compares them).

   What a device holds is the sum over the slots; there is no second number that could disagree after a crash. A slot
   is written by its owner alone, and a dead owner's slot is freed by one compare-and-swap. */
#ifndef MUSTER_REGION_H
#define MUSTER_REGION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "account.h"

#define DEVICES_MAX 16
#define SLOTS_MAX 256
#define REGION_MAGIC 0x314e4f494745524dULL /* "MREGION1" */
#define REGION_VERSION 1u

struct region_device {
    char uuid[48];
    _Atomic uint64_t memory_limit; /* as the processes last read it; for watchers, never for deciding */
    _Atomic uint32_t core_limit;
    uint32_t unused;
    struct account account;
    _Atomic uint64_t context_bytes; /* what a fresh context was seen to take */
    _Atomic uint64_t throttled_ns;
    _Atomic uint64_t refusals;
    uint64_t spare[3];
};

struct region_slot {
    _Atomic uint64_t owner;    /* see owner_word() in region.c; 0: free */
    _Atomic uint32_t host_pid; /* written by the agent where the container has pids of its own */
    uint32_t unused;
    _Atomic uint64_t charged[DEVICES_MAX];
    _Atomic uint64_t residual[DEVICES_MAX]; /* the part of `charged` for contexts, modules and the like */
    _Atomic uint64_t busy_ns[DEVICES_MAX];
    uint64_t spare[14];
};

struct region {
    uint64_t magic;
    uint32_t version;
    uint32_t size;
    _Atomic uint32_t slots_used; /* slots above were never taken, so that sums are short */
    uint32_t unused;
    uint64_t spare[29];
    struct region_device devices[DEVICES_MAX];
    uint8_t padding[4096 - 256 - DEVICES_MAX * 128];
    struct region_slot slots[SLOTS_MAX];
};

_Static_assert(sizeof(struct region_device) == 128, "the agent reads 128 bytes a device");
_Static_assert(sizeof(struct region_slot) == 512, "the agent reads 512 bytes a slot");
_Static_assert(__builtin_offsetof(struct region, slots) == 4096, "the slots begin after one page");

struct region *region_map(const char *path);
struct region_slot *region_claim(struct region *region);
void region_reap(struct region *region);
uint64_t region_total(struct region *region, int device);
bool region_charge(struct region *region, struct region_slot *slot, int device, uint64_t bytes, uint64_t limit);
bool region_has_process(struct region *region, unsigned pid);

#endif
