/* The helper thread of a process: it follows the marks of the meter closely while work is on the card, and five times
   a second it settles memory and looks whether the limits were rewritten. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "limiter.h"

#define CLOSE_LOOK_NS 50000ULL /* somebody waits for our work to end */
#define EASY_LOOK_NS 1000000ULL
#define CHORES_NS 200000000ULL

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool is_running, is_ending;
/* A futex. The thread dozes between two looks at work that nobody waits for; a launch does not wake it from that. */
enum { AWAKE, DOZES, SLEEPS };
static _Atomic uint32_t rest;

static void rest_until_woken(uint32_t how, uint64_t limit_ns) {
    struct timespec limit = {.tv_sec = 0, .tv_nsec = (long)limit_ns};
    atomic_store(&rest, how);
    syscall(SYS_futex, &rest, FUTEX_WAIT_PRIVATE, how, &limit, NULL, 0);
    atomic_store(&rest, AWAKE);
}

static void wake_from(uint32_t how) {
    if (LIKELY(atomic_load_explicit(&rest, memory_order_relaxed) < how)) return;
    atomic_store(&rest, AWAKE);
    syscall(SYS_futex, &rest, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void keeper_wake(void) { wake_from(SLEEPS); }
void keeper_hurry(void) { wake_from(DOZES); }

static void do_chores(void) {
    if (limits_file_changed()) state_reload();
    struct region_slot *slot = own_slot();
    for (int device = 0; slot && device < DEVICES_MAX; device++)
        if (atomic_load(&slot->charged[device])) memory_settle(device);
}

static void *keep(void *nothing) {
    int mode = CAPTURE_MODE_RELAXED; /* our queries must not break captures of other threads */
    REAL(cuThreadExchangeStreamCaptureMode)(&mode);
    prctl(PR_SET_TIMERSLACK, 1000UL);
    prctl(PR_SET_NAME, "muster-limiter");
    uint64_t chores_at = 0;
    while (!atomic_load(&is_ending)) {
        uint64_t now = now_ns();
        enum pace pace = atomic_load(&compute_is_limited) ? meter_collect(now) : PACE_ASLEEP;
        if (now >= chores_at) {
            do_chores();
            chores_at = now + CHORES_NS;
        }
        if (pace == PACE_CLOSE) sleep_ns(CLOSE_LOOK_NS);
        else if (pace == PACE_EASY) rest_until_woken(DOZES, EASY_LOOK_NS);
        else rest_until_woken(SLEEPS, CHORES_NS);
    }
    return nothing;
}

/* Before the driver takes itself down; the thread itself may be in a call and is not waited for. */
static void end(void) { atomic_store(&is_ending, true); }

static void forget_thread(void) { atomic_store(&is_running, false); }

/* Signals are for the application's threads. */
void keeper_start(void) {
    static bool has_handlers;
    pthread_mutex_lock(&start_lock);
    if (!atomic_load(&is_running)) {
        meter_reload();
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_t thread;
        if (pthread_create(&thread, NULL, keep, NULL) == 0) {
            pthread_detach(thread);
            atomic_store(&is_running, true);
        }
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (!has_handlers) {
            has_handlers = true;
            atexit(end);
            pthread_atfork(NULL, NULL, forget_thread);
        }
    }
    pthread_mutex_unlock(&start_lock);
}
