/* What this process knows about itself: its limits, its region and its slot there, the clock. Made at first use, since
   the library is loaded into every process of a container and most never touch a card. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#include "limiter.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct {
    _Atomic uint64_t memory[DEVICES_MAX];
    _Atomic uint32_t cores[DEVICES_MAX];
    _Atomic uint32_t policy, priority;
    _Atomic bool is_on, oversubscribes;
    struct region *region;
    _Atomic(struct region_slot *) slot;
    pthread_mutex_t slot_lock;
} state = {.slot_lock = PTHREAD_MUTEX_INITIALIZER};

static void take_limits(void) {
    struct limits limits;
    limits_read(&limits);
    for (int device = 0; device < DEVICES_MAX; device++) {
        atomic_store(&state.memory[device], limits.memory[device]);
        atomic_store(&state.cores[device], limits.cores[device]);
        if (!state.region) continue;
        atomic_store(&state.region->devices[device].memory_limit, limits.memory[device]);
        atomic_store(&state.region->devices[device].core_limit, limits.cores[device]);
    }
    atomic_store(&state.policy, limits.policy);
    atomic_store(&state.priority, limits.priority);
    atomic_store(&state.oversubscribes, limits.oversubscribes);
    atomic_store(&state.is_on, limits.is_on && state.region != NULL);
}

/* A forked child is another process: it takes a slot of its own. */
static void forget_slot(void) {
    pthread_mutex_init(&state.slot_lock, NULL);
    atomic_store(&state.slot, NULL);
}

static void begin(void) {
    struct limits limits;
    limits_read(&limits);
    if (!limits.is_on) return;
    limits_file_changed();
    state.region = region_map(getenv("MUSTER_REGION"));
    pthread_atfork(NULL, NULL, forget_slot);
    take_limits();
}

bool limiter_is_on(void) {
    pthread_once(&once, begin);
    return atomic_load_explicit(&state.is_on, memory_order_relaxed);
}

void state_reload(void) {
    take_limits();
    meter_reload();
}

uint64_t memory_limit(int device) { return atomic_load_explicit(&state.memory[device], memory_order_relaxed); }
unsigned core_limit(int device) { return atomic_load_explicit(&state.cores[device], memory_order_relaxed); }
unsigned task_priority(void) { return atomic_load_explicit(&state.priority, memory_order_relaxed); }
bool has_policy(enum policy policy) { return atomic_load_explicit(&state.policy, memory_order_relaxed) == policy; }
bool may_oversubscribe(void) { return atomic_load_explicit(&state.oversubscribes, memory_order_relaxed); }
struct region *own_region(void) { return state.region; }

/* This process's slot, or nothing when the container has too many processes. */
struct region_slot *own_slot(void) {
    struct region_slot *slot = atomic_load_explicit(&state.slot, memory_order_acquire);
    if (LIKELY(slot != NULL)) return slot;
    pthread_mutex_lock(&state.slot_lock);
    slot = atomic_load(&state.slot);
    if (!slot) slot = region_claim(state.region);
    atomic_store_explicit(&state.slot, slot, memory_order_release);
    pthread_mutex_unlock(&state.slot_lock);
    return slot;
}

uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

void sleep_ns(uint64_t ns) {
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000ULL), .tv_nsec = (long)(ns % 1000000000ULL)};
    nanosleep(&time, NULL);
}

/* The device of the calling thread's context, -1 where there is none that can be counted. */
int current_device(void) {
    CUdevice device = -1;
    if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS || device < 0 || device >= DEVICES_MAX) return -1;
    return device;
}
