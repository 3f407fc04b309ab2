/* The gate before every launch on a limited device: it opens while the account has time left and the turn is ours. */
#ifndef MUSTER_GATE_H
#define MUSTER_GATE_H

#include <stdbool.h>
#include <stdint.h>

void gate_join(int device);
void gate_enter(int device);
void gate_debit(int device, int64_t ns);
bool gate_is_closing(int device);
bool gate_is_enforced(int device);
/* A launch of ours waits, or another tenant does for the turn that we hold. */
bool gate_is_waited_for(int device);
/* By the helper thread: `is_drained` says that no work of ours is on the card, `is_quiet` that none came for a while. */
void gate_tick(int device, bool is_drained, bool is_quiet, uint64_t now);

#endif
