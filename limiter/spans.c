/* See spans.h. Called by meter.c. */
#include "spans.h"

#include <string.h>

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static void replace(struct spans *spans, int first, int after, int64_t start, int64_t end) {
    int tail = spans->count - after;
    memmove(&spans->starts[first + 1], &spans->starts[after], (size_t)tail * sizeof *spans->starts);
    memmove(&spans->ends[first + 1], &spans->ends[after], (size_t)tail * sizeof *spans->ends);
    spans->starts[first] = start;
    spans->ends[first] = end;
    spans->count = first + 1 + tail;
}

/* Room for one more: the gap between the two oldest counts as covered. Nothing so old is expected any more. */
static void forget_oldest_gap(struct spans *spans) {
    replace(spans, 0, 2, spans->starts[0], spans->ends[1]);
}

int64_t spans_add(struct spans *spans, int64_t start, int64_t end) {
    if (end <= start) return 0;
    if (spans->count == SPANS_MAX) forget_oldest_gap(spans);
    int first = 0;
    while (first < spans->count && spans->ends[first] < start) first++;
    int after = first;
    int64_t covered = 0, from = start, to = end;
    for (; after < spans->count && spans->starts[after] <= end; after++) {
        covered += larger(0, smaller(end, spans->ends[after]) - larger(start, spans->starts[after]));
        from = smaller(from, spans->starts[after]);
        to = larger(to, spans->ends[after]);
    }
    replace(spans, first, after, from, to);
    return end - start - covered;
}
