/* The union of stretches of time: several streams run at once, and a moment in which two are busy counts once. */
#ifndef MUSTER_SPANS_H
#define MUSTER_SPANS_H

#include <stdint.h>

#define SPANS_MAX 32

struct spans {
    int count;
    int64_t starts[SPANS_MAX], ends[SPANS_MAX]; /* apart from each other, oldest first */
};

/* Add a stretch; how much of it was not covered yet. They may come in any order that is not too far off. */
int64_t spans_add(struct spans *spans, int64_t start, int64_t end);

#endif
