/* The shared region: mapping it, taking a slot, charging, and freeing the slots of the dead. Called by state.c,
   memory.c and the views. */
#define _GNU_SOURCE
#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* An owner word is state (2 bits), start time of the process (30 bits) and pid (32 bits): a pid that was given to
   another process does not match. */
enum { OWNER_CLAIMING = 1, OWNER_LIVE = 2 };

static uint64_t owner_word(unsigned state, uint32_t start, uint32_t pid) {
    return (uint64_t)state << 62 | (uint64_t)(start & 0x3fffffff) << 32 | pid;
}

/* The 22nd field of /proc/PID/stat, 0 where there is no such process or only its corpse. The name may hold blanks and
   brackets, so the fields are counted from the last bracket. */
static uint32_t start_time(uint32_t pid) {
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0) return 0;
    text[size] = 0;
    char *field = strrchr(text, ')');
    if (!field || field[1] != ' ' || field[2] == 'Z' || field[2] == 'X') return 0;
    for (int left = 20; field && left > 0; left--) field = strchr(field + 1, ' ');
    return field ? (uint32_t)strtoull(field + 1, NULL, 10) | 1u << 31 : 0;
}

static bool is_alive(uint64_t owner) {
    uint32_t start = start_time((uint32_t)owner);
    return start != 0 && (start & 0x3fffffff) == ((owner >> 32) & 0x3fffffff);
}

static bool is_whole(const struct region *region) {
    return region->magic == REGION_MAGIC && region->version == REGION_VERSION && region->size == sizeof *region;
}

static struct region *map_file(int file) {
    struct stat found;
    if (fstat(file, &found) != 0 || (size_t)found.st_size < sizeof(struct region)) return NULL;
    struct region *region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (region == MAP_FAILED) return NULL;
    if (is_whole(region)) return region;
    munmap(region, sizeof *region);
    return NULL;
}

static bool write_header(int file) {
    struct region header = {.magic = REGION_MAGIC, .version = REGION_VERSION, .size = sizeof header};
    return ftruncate(file, sizeof header) == 0 && pwrite(file, &header, 32, 0) == 32;
}

/* Made whole under another name and then linked, so that nobody maps a half made one; the first link wins. */
static void create_file(const char *path) {
    char fresh[4096];
    if (snprintf(fresh, sizeof fresh, "%s.%d", path, (int)getpid()) >= (int)sizeof fresh) return;
    int file = open(fresh, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return;
    if (write_header(file)) (void)!link(fresh, path);
    close(file);
    unlink(fresh);
}

/* The region at this path, made where there is none; without a path, or where it cannot be had, one of this process
   alone. */
struct region *region_map(const char *path) {
    for (int attempt = 0; path && *path && attempt < 2; attempt++) {
        int file = open(path, O_RDWR | O_CLOEXEC);
        if (file >= 0) {
            struct region *region = map_file(file);
            close(file);
            if (region) return region;
            break;
        }
        if (errno == ENOENT) create_file(path);
    }
    if (path && *path) fprintf(stderr, "muster-limiter: %s is no region that can be used; counting this process alone\n", path);
    struct region *region = mmap(NULL, sizeof *region, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED) return NULL;
    region->magic = REGION_MAGIC;
    region->version = REGION_VERSION;
    region->size = sizeof *region;
    return region;
}

static void forget_charges(struct region_slot *slot) {
    atomic_store(&slot->host_pid, 0);
    for (int device = 0; device < DEVICES_MAX; device++) {
        atomic_store(&slot->charged[device], 0);
        atomic_store(&slot->residual[device], 0);
        atomic_store(&slot->busy_ns[device], 0);
    }
}

static void raise_slots_used(struct region *region, uint32_t used) {
    uint32_t seen = atomic_load(&region->slots_used);
    while (seen < used && !atomic_compare_exchange_weak(&region->slots_used, &seen, used)) {}
}

/* A slot for this process, or nothing when all are held by live ones. A slot is emptied by the one that takes it and
   not by the one that frees it: so no slow reaper can wipe what the next owner charged. */
struct region_slot *region_claim(struct region *region) {
    uint32_t pid = (uint32_t)getpid(), start = start_time(pid);
    for (int attempt = 0; attempt < 2; attempt++) {
        for (uint32_t index = 0; index < SLOTS_MAX; index++) {
            struct region_slot *slot = &region->slots[index];
            uint64_t free_word = 0;
            if (!atomic_compare_exchange_strong(&slot->owner, &free_word, owner_word(OWNER_CLAIMING, start, pid))) continue;
            raise_slots_used(region, index + 1);
            forget_charges(slot);
            atomic_store(&slot->owner, owner_word(OWNER_LIVE, start, pid));
            return slot;
        }
        region_reap(region);
    }
    return NULL;
}

/* Free the slots whose process is gone, and with them what it held: the driver has taken that back. */
void region_reap(struct region *region) {
    uint32_t used = atomic_load(&region->slots_used);
    for (uint32_t index = 0; index < used && index < SLOTS_MAX; index++) {
        uint64_t owner = atomic_load(&region->slots[index].owner);
        if (owner != 0 && !is_alive(owner)) atomic_compare_exchange_strong(&region->slots[index].owner, &owner, 0);
    }
}

uint64_t region_total(struct region *region, int device) {
    uint64_t total = 0;
    uint32_t used = atomic_load(&region->slots_used);
    for (uint32_t index = 0; index < used && index < SLOTS_MAX; index++)
        if (atomic_load(&region->slots[index].owner) >> 62 == OWNER_LIVE)
            total += atomic_load(&region->slots[index].charged[device]);
    return total;
}

/* Add first, then sum, and take it back when it is too much: of any number that race, the last to add sees all the
   others, so that no set of them is over the limit. Racers at the very edge may refuse each other; memory.c asks
   again. */
bool region_charge(struct region *region, struct region_slot *slot, int device, uint64_t bytes, uint64_t limit) {
    if (bytes > limit) return false;
    atomic_fetch_add(&slot->charged[device], bytes);
    if (limit == UINT64_MAX || region_total(region, device) <= limit) return true;
    atomic_fetch_sub(&slot->charged[device], bytes);
    return false;
}

bool region_has_process(struct region *region, unsigned pid) {
    uint32_t used = atomic_load(&region->slots_used);
    for (uint32_t index = 0; index < used && index < SLOTS_MAX; index++) {
        struct region_slot *slot = &region->slots[index];
        uint64_t owner = atomic_load(&slot->owner);
        if (owner >> 62 == OWNER_LIVE && ((uint32_t)owner == pid || atomic_load(&slot->host_pid) == pid)) return true;
    }
    return false;
}
