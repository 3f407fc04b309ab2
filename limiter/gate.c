/* See gate.h. Called by meter.c. */
#define _GNU_SOURCE
#include "gate.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "limiter.h"
#include "turns.h"

#define TURN_NS_PER_PERCENT 300000LL /* 30 ms are shared out: long against the passing on, short for a person */
#define NAP_NS 1000000ULL
#define DRAIN_NAP_NS 50000ULL

static struct gate {
    pthread_mutex_t lock;
    struct turns *turns; /* none: this card has no file for turns */
    int slot;
    _Atomic bool holds, yields, is_wanted, is_enforced, has_joined;
    _Atomic int64_t turn_left_ns;
    _Atomic int waiting;
} gates[DEVICES_MAX] = {[0 ... DEVICES_MAX - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static struct account *account_of(int device) { return &own_region()->devices[device].account; }

/* Processes of one container share a region, so its file names the tenant. */
static uint64_t own_tenant(void) {
    const char *path = getenv("MUSTER_REGION");
    struct stat found;
    if (path && stat(path, &found) == 0) return (uint64_t)found.st_ino << 16 ^ (uint64_t)found.st_dev;
    return 1ULL << 63 | (uint64_t)getpid();
}

static void decide_enforcement(struct gate *gate, int device, uint64_t now) {
    bool is_limited = core_limit(device) < 100 && !has_policy(POLICY_DISABLE);
    bool is_alone = has_policy(POLICY_DEFAULT) && gate->turns && !turn_has_others(gate->turns, gate->slot, now);
    atomic_store(&gate->is_enforced, is_limited && !is_alone);
}

void gate_join(int device) {
    struct gate *gate = &gates[device];
    pthread_mutex_lock(&gate->lock);
    if (!atomic_load(&gate->has_joined)) {
        uint64_t now = now_ns();
        gate->turns = turns_map(getenv("MUSTER_TURNS"), own_region()->devices[device].uuid);
        if (gate->turns && (gate->slot = turn_join(gate->turns, own_tenant(), now)) < 0) gate->turns = NULL;
        decide_enforcement(gate, device, now);
        atomic_store(&gate->has_joined, true);
    }
    pthread_mutex_unlock(&gate->lock);
}

bool gate_is_waited_for(int device) {
    return atomic_load(&gates[device].waiting) > 0 || atomic_load(&gates[device].is_wanted);
}

bool gate_is_enforced(int device) { return atomic_load_explicit(&gates[device].is_enforced, memory_order_relaxed); }

static bool is_over(struct gate *gate) {
    return atomic_load_explicit(&gate->turn_left_ns, memory_order_relaxed) <= 0 &&
           atomic_load_explicit(&gate->is_wanted, memory_order_relaxed);
}

static bool has_turn(struct gate *gate) {
    return !gate->turns || (atomic_load(&gate->holds) && !atomic_load(&gate->yields) && !is_over(gate));
}

/* What a turn was overdrawn is missing from the next. */
static void begin_turn(struct gate *gate, int device) {
    int64_t left = atomic_load(&gate->turn_left_ns);
    atomic_store(&gate->turn_left_ns, (left < 0 ? left : 0) + TURN_NS_PER_PERCENT * core_limit(device));
    atomic_store(&gate->yields, false);
    atomic_store(&gate->holds, true);
}

/* One step of waiting. The helper thread passes the turn on when our work is done; until then we stay away. */
static void wait_a_little(struct gate *gate, int device) {
    uint64_t now = now_ns(), wait = account_wait_ns(account_of(device), core_limit(device));
    if (wait > 0) {
        atomic_store(&gate->yields, true);
        sleep_ns(wait < NAP_NS ? wait : NAP_NS);
    } else if (!gate->turns) {
        return; /* the refill of the helper thread was faster */
    } else if (atomic_load(&gate->holds)) {
        if (turn_is_wanted(gate->turns, gate->slot, now)) sleep_ns(DRAIN_NAP_NS);
        else atomic_store(&gate->yields, false), atomic_store(&gate->is_wanted, false);
    } else {
        uint32_t bell = atomic_load(&gate->turns->bell);
        if (turn_try(gate->turns, gate->slot, now)) begin_turn(gate, device);
        else turn_wait(gate->turns, bell, NAP_NS);
    }
}

static void wait_for_both(struct gate *gate, int device) {
    uint64_t began = now_ns();
    atomic_fetch_add(&gate->waiting, 1);
    pthread_mutex_lock(&gate->lock);
    while (gate_is_enforced(device)) {
        account_refill(account_of(device), core_limit(device), now_ns());
        if (account_balance(account_of(device)) >= 0 && has_turn(gate)) break;
        keeper_hurry();
        wait_a_little(gate, device);
    }
    pthread_mutex_unlock(&gate->lock);
    atomic_fetch_sub(&gate->waiting, 1);
    atomic_fetch_add(&own_region()->devices[device].throttled_ns, now_ns() - began);
}

void gate_enter(int device) {
    struct gate *gate = &gates[device];
    if (!gate_is_enforced(device)) return;
    if (LIKELY(account_balance(account_of(device)) >= 0 && has_turn(gate))) return;
    wait_for_both(gate, device);
}

void gate_debit(int device, int64_t ns) {
    account_debit(account_of(device), ns);
    atomic_fetch_sub(&gates[device].turn_left_ns, ns);
}

bool gate_is_closing(int device) { return account_balance(account_of(device)) < 0 || !has_turn(&gates[device]); }

void gate_tick(int device, bool is_drained, bool is_quiet, uint64_t now) {
    struct gate *gate = &gates[device];
    account_refill(account_of(device), core_limit(device), now);
    decide_enforcement(gate, device, now);
    if (!gate->turns) return;
    turn_show(gate->turns, gate->slot, task_priority(), now);
    if (!atomic_load(&gate->holds)) return;
    atomic_store(&gate->is_wanted, turn_is_wanted(gate->turns, gate->slot, now));
    if (!is_drained || !(atomic_load(&gate->yields) || is_over(gate) || is_quiet)) return;
    atomic_store(&gate->holds, false);
    atomic_store(&gate->is_wanted, false);
    turn_pass(gate->turns, gate->slot, now);
}
