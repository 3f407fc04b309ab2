/* The account of GPU time: a balance in nanoseconds that refills with the limit's part of wall time. It lies in the
   shared region, so that all processes of a container draw on one. Time comes in as an argument: tests have no clock. */
#ifndef MUSTER_ACCOUNT_H
#define MUSTER_ACCOUNT_H

#include <stdatomic.h>
#include <stdint.h>

struct account {
    _Atomic int64_t balance_ns;
    _Atomic uint64_t refilled_at_ns;
};

/* A tenant that was idle may use this much wall time's refill at once; it also bounds what is lost while it waits for
   its turn. */
#define ACCOUNT_BURST_NS 100000000ULL

void account_refill(struct account *account, unsigned percent, uint64_t now_ns);
void account_debit(struct account *account, int64_t ns);
int64_t account_balance(struct account *account);
/* How long the refill takes to lift the balance to zero. */
uint64_t account_wait_ns(struct account *account, unsigned percent);

#endif
