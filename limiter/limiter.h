/* What the files of the limiter give each other. docs/limiter.md explains the whole. */
#ifndef MUSTER_LIMITER_H
#define MUSTER_LIMITER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cuda_abi.h"
#include "entries.h"
#include "region.h"

#define EXPORTED __attribute__((visibility("default")))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define NO_LIMIT UINT64_MAX

/* hook.c: the way to the driver. */
extern _Atomic(void *) real_functions[ENTRY_COUNT];
void *resolve(enum entry entry);
static inline void *real_function(enum entry entry) {
    void *found = atomic_load_explicit(&real_functions[entry], memory_order_acquire);
    return LIKELY(found != NULL) ? found : resolve(entry);
}
/* A function that the driver lacks answers NOT_FOUND, see resolve(). */
#define REAL(name) ((__typeof__(&name))real_function(ENTRY_##name))

/* limits.c: what is asked, from a file that the tenant cannot write or from the environment. */
enum policy { POLICY_DEFAULT, POLICY_FORCE, POLICY_DISABLE };
struct limits {
    uint64_t memory[DEVICES_MAX]; /* bytes, NO_LIMIT where none is set */
    unsigned cores[DEVICES_MAX];  /* per cent of the card's time; 100: no limit */
    enum policy policy;
    unsigned priority; /* 0 is served before 1 */
    bool is_on;        /* any limit was named; otherwise everything passes through untouched */
    bool oversubscribes;
};
void limits_read(struct limits *limits);
bool limits_parse_line(struct limits *limits, const char *name, const char *value);
void limits_clear(struct limits *limits);
bool limits_file_changed(void);

/* state.c: what this process knows about itself. */
bool limiter_is_on(void);
uint64_t memory_limit(int device);
unsigned core_limit(int device);
unsigned task_priority(void);
bool has_policy(enum policy policy);
bool may_oversubscribe(void);
struct region *own_region(void);
struct region_slot *own_slot(void);
void state_reload(void);
uint64_t now_ns(void);
void sleep_ns(uint64_t ns);
int current_device(void);

/* ledger.c: handle -> what was charged for it. */
struct ledger_entry { uint64_t bytes; uint64_t device; CUcontext context; };
#define LEDGER_SHARDS 16
struct ledger_shard {
    pthread_mutex_t lock;
    uint64_t *keys;
    struct ledger_entry *entries;
    size_t capacity, count;
};
struct ledger { struct ledger_shard shards[LEDGER_SHARDS]; };
#define LEDGER_INITIALIZER { .shards = { [0 ... LEDGER_SHARDS - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER } } }
bool ledger_put(struct ledger *ledger, uint64_t key, struct ledger_entry entry);
bool ledger_get(struct ledger *ledger, uint64_t key, struct ledger_entry *entry);
bool ledger_take(struct ledger *ledger, uint64_t key, struct ledger_entry *entry);
uint64_t ledger_drop(struct ledger *ledger, CUcontext context);

/* memory.c: charging around a call of the driver. */
bool memory_begin(int device, uint64_t bytes);
void memory_finish(CUresult result, int device, uint64_t bytes);
void memory_release_begin(void);
void memory_release_finish(CUresult result, int device, uint64_t bytes);
void memory_forget_context(CUcontext context, int device);
uint64_t memory_used(int device);
void memory_settle(int device);
uint64_t rounded_up(uint64_t bytes, uint64_t step);

/* pools.c and graphs.c: what pools and graphs hold is read from the driver; both are called under the memory lock. */
void pools_settle(int device);
void graphs_settle(int device);
CUresult graph_reserve(CUgraphExec exec, int *device, uint64_t *bytes);
void graph_reserved(int device, uint64_t bytes);

/* nvml.c: what the driver says the process really uses. */
bool nvml_used_by_process(int device, unsigned pid, uint64_t *bytes);

/* meter.c: GPU time. */
extern _Atomic bool compute_is_limited;
struct ticket { struct lane *lane; struct lane_stream *stream; bool marks; };
struct ticket meter_before(uint64_t key, CUstream stream);
void meter_after(struct ticket *ticket, CUstream stream);
void meter_capture_begins(void);
void meter_capture_ended(void);
void meter_forget_stream(CUstream stream);
void meter_forget_context(CUcontext context);
enum pace { PACE_ASLEEP, PACE_EASY, PACE_CLOSE };
enum pace meter_collect(uint64_t now);
void meter_reload(void);
bool is_capturing(CUstream stream);

/* keeper.c: the helper thread. */
void keeper_start(void);
void keeper_wake(void);  /* a launch: there is work to follow */
void keeper_hurry(void); /* a launch waits for the work to end */

#endif
