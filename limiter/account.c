/* See account.h. Called by meter.c. */
#include "account.h"

void account_refill(struct account *account, unsigned percent, uint64_t now_ns) {
    uint64_t last = atomic_load(&account->refilled_at_ns);
    if (last == 0 || last > now_ns) { /* fresh, or from before the machine restarted */
        atomic_compare_exchange_strong(&account->refilled_at_ns, &last, now_ns);
        return;
    }
    uint64_t passed = now_ns - last;
    if (passed < 1000 || !atomic_compare_exchange_strong(&account->refilled_at_ns, &last, now_ns))
        return; /* somebody else adds this stretch */
    int64_t most = (int64_t)(ACCOUNT_BURST_NS / 100 * percent);
    if (passed > 10000000000ULL) passed = 10000000000ULL;
    int64_t refill = (int64_t)(passed * percent / 100);
    int64_t balance = atomic_load(&account->balance_ns), next;
    do {
        next = balance + refill;
        if (next > most) next = most > balance ? most : balance;
    } while (!atomic_compare_exchange_weak(&account->balance_ns, &balance, next));
}

void account_debit(struct account *account, int64_t ns) { atomic_fetch_sub(&account->balance_ns, ns); }

int64_t account_balance(struct account *account) { return atomic_load(&account->balance_ns); }

uint64_t account_wait_ns(struct account *account, unsigned percent) {
    int64_t balance = account_balance(account);
    return balance >= 0 ? 0 : (uint64_t)-balance * 100 / (percent ? percent : 1);
}
