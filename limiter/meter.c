/* Measures how long the card works for this process, by events on the streams that it launches on.

   A mark is an event on a stream. The stretch between two marks of a stream is busy unless the stream was found idle
   between them, in which case the second is a fresh start. A mark costs a microsecond or two, so launches are marked
   only when what they are expected to take adds up: expected is what the same function with the same grid took before.
   The account is debited by the expectation at the launch, so that queues cannot run ahead, and put right when the mark
   has passed. Streams that are being captured are never touched. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "gate.h"
#include "limiter.h"
#include "spans.h"

#define LANES_MAX 16
#define STREAMS_MAX 32
#define MARKS_MAX 64
#define COSTS_MAX 4096
#define UNKNOWN_COST_NS 1000000LL     /* until the first measurement is back */
#define MARK_EVERY_NS 1000000LL       /* expected work between two marks */
#define MARK_EVERY_LAUNCHES 512
#define LEARN_EVERY_LAUNCHES 1024
#define IDLE_CHECK_TICKS 60000ULL     /* some 25 us: launches closer than this are taken for one stretch */
#define SHORTEST_NS 500LL             /* no kernel is shorter */
#define OVERHEAD_MOST_NS 5000LL       /* two marks that took longer were interrupted */
#define QUIET_NS 300000ULL
#define REFERENCE_NS 500000000LL      /* an elapsed time is a float of milliseconds: exact to 0.03 us over this */

struct cost { uint64_t key; int64_t ns; unsigned launches; bool is_known; };

struct mark {
    CUevent event;
    bool is_start;
    unsigned launches;   /* since the mark before */
    int64_t expected_ns; /* what they were debited with */
    struct cost *cost;   /* of these launches, where they are all of one kind */
};

struct lane_stream {
    CUstream stream;
    bool is_used;
    uint64_t launched_tick; /* 0: never */
    unsigned launches;
    int64_t expected_ns;
    struct cost *cost;
    int64_t busy_since_ns; /* on the card's clock, of the last mark that passed */
    unsigned first, count; /* the ring of marks that have not passed */
    struct mark marks[MARKS_MAX];
};

/* One context: its streams, its events and its clock. */
struct lane {
    pthread_mutex_t lock;
    _Atomic(CUcontext) context;
    int device;
    uint64_t launches, seen_launches, seen_at; /* the helper thread sees from these when launches stopped */
    struct lane_stream streams[STREAMS_MAX];
    struct cost costs[COSTS_MAX];
    CUevent spare[STREAMS_MAX * MARKS_MAX];
    int spare_count;
    CUevent reference; /* a passed event whose time on the lane's clock is known */
    int64_t reference_ns;
    int64_t overhead_ns; /* what two marks take with nothing between them; 0: not measured yet */
    struct spans spans;
};

/* Ticks of the processor where it has a steady count, which is cheaper to read than a clock; else nanoseconds. */
static uint64_t ticks(void) {
#ifdef __x86_64__
    return __builtin_ia32_rdtsc();
#else
    return now_ns();
#endif
}

static struct lane *_Atomic lanes[LANES_MAX];
static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int captures;
_Atomic bool compute_is_limited;

void meter_reload(void) {
    bool is_limited = false;
    for (int device = 0; device < DEVICES_MAX; device++) is_limited |= core_limit(device) < 100;
    atomic_store(&compute_is_limited, is_limited && !has_policy(POLICY_DISABLE) && limiter_is_on());
}

/* Captures ------------------------------------------------------------------------------------------------------- */

bool is_capturing(CUstream stream) {
    int status = 0;
    if (LIKELY(atomic_load_explicit(&captures, memory_order_relaxed) == 0)) return false;
    return REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS || status != 0;
}

/* Under every lane's lock: the helper thread looks at `captures` and marks a stream in one step. */
void meter_capture_begins(void) {
    for (int index = 0; index < LANES_MAX; index++) {
        struct lane *lane = atomic_load(&lanes[index]);
        if (lane) pthread_mutex_lock(&lane->lock);
    }
    atomic_fetch_add(&captures, 1);
    for (int index = LANES_MAX - 1; index >= 0; index--) {
        struct lane *lane = atomic_load(&lanes[index]);
        if (lane) pthread_mutex_unlock(&lane->lock);
    }
}

void meter_capture_ended(void) {
    int open = atomic_load(&captures);
    while (open > 0 && !atomic_compare_exchange_weak(&captures, &open, open - 1)) {}
}

/* Lanes and streams ---------------------------------------------------------------------------------------------- */

static struct lane *make_lane(CUcontext context) {
    int device = current_device();
    if (device < 0) return NULL;
    gate_join(device);
    for (int index = 0; index < LANES_MAX; index++) {
        struct lane *lane = atomic_load(&lanes[index]);
        if (lane && atomic_load(&lane->context)) continue;
        if (!lane && !(lane = calloc(1, sizeof *lane))) return NULL;
        pthread_mutex_init(&lane->lock, NULL);
        lane->device = device;
        atomic_store(&lane->context, context);
        atomic_store(&lanes[index], lane);
        return lane;
    }
    return NULL;
}

static struct lane *find_lane(CUcontext context) {
    for (int index = 0; index < LANES_MAX; index++) {
        struct lane *lane = atomic_load_explicit(&lanes[index], memory_order_acquire);
        if (!lane) return NULL;
        if (atomic_load_explicit(&lane->context, memory_order_relaxed) == context) return lane;
    }
    return NULL;
}

static struct lane *current_lane(void) {
    CUcontext context = NULL;
    if (REAL(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context) return NULL;
    struct lane *lane = find_lane(context);
    if (LIKELY(lane != NULL)) return lane;
    pthread_mutex_lock(&lanes_lock);
    lane = find_lane(context);
    if (!lane) lane = make_lane(context);
    pthread_mutex_unlock(&lanes_lock);
    return lane;
}

/* A place for this stream: its own, or one that has nothing under way. None: the launch is counted as expected. */
static struct lane_stream *stream_of(struct lane *lane, CUstream stream) {
    struct lane_stream *room = NULL;
    for (int index = 0; index < STREAMS_MAX; index++) {
        struct lane_stream *each = &lane->streams[index];
        if (each->is_used && each->stream == stream) return each;
        if (!room && (!each->is_used || (each->count == 0 && each->launches == 0))) room = each;
    }
    if (!room) return NULL;
    room->stream = stream;
    room->is_used = true;
    room->launched_tick = 0;
    return room;
}

static struct cost *cost_of(struct lane *lane, uint64_t key) {
    struct cost *cost = &lane->costs[key * 0x9e3779b97f4a7c15ULL >> 52];
    if (cost->key != key) *cost = (struct cost){.key = key, .ns = UNKNOWN_COST_NS};
    return cost;
}

/* Marks ---------------------------------------------------------------------------------------------------------- */

static CUevent take_event(struct lane *lane) {
    CUevent event = NULL;
    if (lane->spare_count > 0) return lane->spare[--lane->spare_count];
    return REAL(cuEventCreate)(&event, 0) == CUDA_SUCCESS ? event : NULL;
}

static void keep_event(struct lane *lane, CUevent event) {
    if (event && lane->spare_count < STREAMS_MAX * MARKS_MAX) lane->spare[lane->spare_count++] = event;
}

static void put_mark(struct lane *lane, struct lane_stream *stream, bool is_start) {
    if (stream->count == MARKS_MAX) return; /* the launches stay with the next mark */
    CUevent event = take_event(lane);
    if (!event || REAL(cuEventRecord)(event, stream->stream) != CUDA_SUCCESS) {
        keep_event(lane, event);
        return;
    }
    struct mark *mark = &stream->marks[(stream->first + stream->count++) % MARKS_MAX];
    *mark = (struct mark){event, is_start, stream->launches, stream->expected_ns, stream->cost};
    stream->launches = 0;
    stream->expected_ns = 0;
}

/* Whether the next launch on this stream begins a new stretch. What was launched before and not marked keeps its
   expected cost. */
static bool is_fresh(struct lane_stream *stream, uint64_t now_tick) {
    if (stream->launched_tick == 0) return true;
    return now_tick - stream->launched_tick > IDLE_CHECK_TICKS && REAL(cuStreamQuery)(stream->stream) == CUDA_SUCCESS;
}

static void expect(struct lane *lane, struct lane_stream *stream, struct cost *cost) {
    stream->cost = stream->launches == 0 || stream->cost == cost ? cost : NULL;
    stream->launches++;
    stream->expected_ns += cost->ns;
    cost->launches++;
    gate_debit(lane->device, cost->ns);
}

/* Often at first, since the first launch of a function also loads it; then now and then. */
static bool is_worth_learning(const struct cost *cost) {
    bool is_early = cost->launches < LEARN_EVERY_LAUNCHES && (cost->launches & (cost->launches - 1)) == 0;
    return !cost->is_known || is_early || cost->launches % LEARN_EVERY_LAUNCHES == 0;
}

/* A launch that is measured alone stands between two marks. */
struct ticket meter_before(uint64_t key, CUstream handle) {
    struct ticket ticket = {NULL, NULL, false};
    if (is_capturing(handle)) return ticket;
    struct lane *lane = current_lane();
    if (!lane) return ticket;
    gate_enter(lane->device);
    if (!gate_is_enforced(lane->device)) return ticket;
    uint64_t now = ticks();
    pthread_mutex_lock(&lane->lock);
    struct lane_stream *stream = stream_of(lane, handle);
    struct cost *cost = cost_of(lane, key);
    if (!stream) {
        gate_debit(lane->device, cost->ns);
    } else {
        bool is_alone = is_worth_learning(cost);
        if (is_fresh(stream, now)) {
            stream->launches = 0;
            stream->expected_ns = 0;
            put_mark(lane, stream, true);
            if (lane->overhead_ns == 0) put_mark(lane, stream, false);
        } else if (is_alone && stream->launches > 0) {
            put_mark(lane, stream, false);
        }
        expect(lane, stream, cost);
        stream->launched_tick = now;
        lane->launches++;
        ticket = (struct ticket){lane, stream, is_alone || stream->expected_ns >= MARK_EVERY_NS ||
                                 stream->launches >= MARK_EVERY_LAUNCHES || gate_is_closing(lane->device)};
    }
    pthread_mutex_unlock(&lane->lock);
    keeper_wake();
    return ticket;
}

void meter_after(struct ticket *ticket, CUstream stream) {
    if (!ticket->marks) return;
    pthread_mutex_lock(&ticket->lane->lock);
    if (ticket->stream->stream == stream && ticket->stream->launches > 0) put_mark(ticket->lane, ticket->stream, false);
    pthread_mutex_unlock(&ticket->lane->lock);
}

/* Collecting, by the helper thread ------------------------------------------------------------------------------- */

/* The time of a passed event on the lane's clock. */
static int64_t time_of(struct lane *lane, CUevent event) {
    float milliseconds = 0;
    if (!lane->reference) return lane->reference_ns;
    if (REAL(cuEventElapsedTime)(&milliseconds, lane->reference, event) != CUDA_SUCCESS) return lane->reference_ns;
    return lane->reference_ns + (int64_t)((double)milliseconds * 1e6);
}

static void retire_event(struct lane *lane, CUevent event, int64_t at) {
    bool is_next = !lane->reference || at - lane->reference_ns > REFERENCE_NS;
    if (!is_next) {
        keep_event(lane, event);
        return;
    }
    keep_event(lane, lane->reference);
    lane->reference = event;
    lane->reference_ns = at;
}

/* From launches of one kind. A launch between two marks of its own takes longer than one in a queue by what the marks
   take, which must not make short kernels look twice as long. */
static void learn(struct lane *lane, const struct mark *mark, int64_t took_ns) {
    struct cost *cost = mark->cost;
    int64_t ns = mark->launches > 1 ? took_ns / mark->launches : took_ns - lane->overhead_ns;
    if (ns < SHORTEST_NS) ns = SHORTEST_NS;
    if (!cost->is_known) cost->ns = ns;
    else cost->ns = ns < cost->ns ? (cost->ns + ns) / 2 : (cost->ns * 3 + ns) / 4;
    cost->is_known = true;
}

/* Several launches that took far longer than each does alone had pauses between them. */
static int64_t without_pauses(const struct mark *mark, int64_t busy) {
    int64_t most = mark->expected_ns + mark->expected_ns / 2;
    return mark->launches > 1 && busy > most ? most : busy;
}

static void note_overhead(struct lane *lane, int64_t ns) { lane->overhead_ns = ns < OVERHEAD_MOST_NS ? ns : OVERHEAD_MOST_NS; }

static void pass_mark(struct lane *lane, struct lane_stream *stream) {
    struct mark *mark = &stream->marks[stream->first];
    int64_t at = time_of(lane, mark->event);
    if (!mark->is_start) {
        int64_t busy = without_pauses(mark, spans_add(&lane->spans, stream->busy_since_ns, at));
        if (mark->launches == 0) note_overhead(lane, at - stream->busy_since_ns);
        else if (mark->cost) learn(lane, mark, at - stream->busy_since_ns);
        gate_debit(lane->device, busy - mark->expected_ns);
        atomic_fetch_add(&own_slot()->busy_ns[lane->device], (uint64_t)busy);
    }
    stream->busy_since_ns = at;
    retire_event(lane, mark->event, at);
    stream->first = (stream->first + 1) % MARKS_MAX;
    stream->count--;
}

/* A tail of launches that was too small for a mark gets one when nothing follows it. */
static void mark_tail(struct lane *lane, struct lane_stream *stream) {
    bool has_tail = stream->is_used && stream->launches > 0 && stream->count == 0;
    bool is_due = has_tail && ticks() - stream->launched_tick > IDLE_CHECK_TICKS;
    if (is_due && !is_capturing(stream->stream)) put_mark(lane, stream, false);
}

/* True while work is on the card. */
static bool collect_lane(struct lane *lane) {
    bool is_busy = false;
    for (int index = 0; index < STREAMS_MAX; index++) {
        struct lane_stream *stream = &lane->streams[index];
        while (stream->count > 0 && REAL(cuEventQuery)(stream->marks[stream->first].event) == CUDA_SUCCESS) pass_mark(lane, stream);
        mark_tail(lane, stream);
        is_busy |= stream->count > 0 || stream->launches > 0;
    }
    return is_busy;
}

static bool is_quiet_since(struct lane *lane, uint64_t now) {
    if (lane->seen_launches != lane->launches) {
        lane->seen_launches = lane->launches;
        lane->seen_at = now;
    }
    return now > lane->seen_at + QUIET_NS;
}

/* Look at all marks; how soon to look again. */
enum pace meter_collect(uint64_t now) {
    enum pace pace = PACE_ASLEEP;
    for (int index = 0; index < LANES_MAX; index++) {
        struct lane *lane = atomic_load(&lanes[index]);
        CUcontext context = lane ? atomic_load(&lane->context) : NULL;
        if (!context) continue;
        pthread_mutex_lock(&lane->lock);
        bool is_busy = false, is_quiet = true;
        if (atomic_load(&lane->context) == context && REAL(cuCtxSetCurrent)(context) == CUDA_SUCCESS) {
            is_busy = collect_lane(lane);
            is_quiet = is_quiet_since(lane, now);
        }
        gate_tick(lane->device, !is_busy, is_quiet, now);
        pthread_mutex_unlock(&lane->lock);
        enum pace own = gate_is_waited_for(lane->device) ? PACE_CLOSE : is_busy || !is_quiet ? PACE_EASY : PACE_ASLEEP;
        if (own > pace) pace = own;
    }
    return pace;
}

/* Forgetting ----------------------------------------------------------------------------------------------------- */

void meter_forget_stream(CUstream handle) {
    for (int index = 0; index < LANES_MAX; index++) {
        struct lane *lane = atomic_load(&lanes[index]);
        if (!lane) return;
        pthread_mutex_lock(&lane->lock);
        for (int place = 0; place < STREAMS_MAX; place++)
            if (lane->streams[place].is_used && lane->streams[place].stream == handle) {
                lane->streams[place].launches = 0;
                lane->streams[place].is_used = false;
            }
        pthread_mutex_unlock(&lane->lock);
    }
}

/* Before a context goes: its events go with it. */
void meter_forget_context(CUcontext context) {
    struct lane *lane = find_lane(context);
    if (!context || !lane) return;
    pthread_mutex_lock(&lane->lock);
    memset(lane->streams, 0, sizeof lane->streams);
    memset(&lane->spans, 0, sizeof lane->spans);
    lane->spare_count = 0;
    lane->reference = NULL;
    lane->reference_ns = lane->overhead_ns = 0;
    atomic_store(&lane->context, NULL);
    pthread_mutex_unlock(&lane->lock);
}
