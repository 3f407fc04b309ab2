/* Stream-ordered memory. What the card loses to a pool is what the pool reserves, in steps of its own; so pools are
   charged by what the driver says they reserve, and an allocation that makes a pool grow is charged before it. */
#include "wrappers.h"

#define POOL_STEP (32ULL << 20) /* how a pool grows, as measured */
#define POOLS_MAX 64

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pool { CUmemoryPool pool; int device; uint64_t charged; } pools[POOLS_MAX];

/* The record of a pool, made where there is none and `device` is known; the caller holds the lock. */
static struct pool *pool_of(CUmemoryPool pool, int device) {
    struct pool *room = NULL;
    for (int index = 0; index < POOLS_MAX; index++) {
        if (pools[index].pool == pool) return &pools[index];
        if (!pools[index].pool && !room) room = &pools[index];
    }
    if (!room || device < 0) return NULL;
    *room = (struct pool){pool, device, 0};
    return room;
}

static uint64_t attribute_of(CUmemoryPool pool, int attribute) {
    uint64_t value = 0;
    return REAL(cuMemPoolGetAttribute)(pool, attribute, &value) == CUDA_SUCCESS ? value : 0;
}

static void settle(struct pool *pool) {
    uint64_t reserved = attribute_of(pool->pool, POOL_RESERVED_CURRENT);
    atomic_fetch_add(&own_slot()->charged[pool->device], reserved - pool->charged); /* wraps to a subtraction */
    pool->charged = reserved;
}

void pools_settle(int device) {
    pthread_mutex_lock(&lock);
    for (int index = 0; index < POOLS_MAX; index++)
        if (pools[index].pool && pools[index].device == device) settle(&pools[index]);
    pthread_mutex_unlock(&lock);
}

static uint64_t expected_growth(CUmemoryPool pool, size_t bytes) {
    uint64_t reserved = attribute_of(pool, POOL_RESERVED_CURRENT), used = attribute_of(pool, POOL_USED_CURRENT);
    uint64_t needed = used > UINT64_MAX - bytes ? UINT64_MAX : used + bytes;
    return needed <= reserved ? 0 : rounded_up(needed - reserved, POOL_STEP);
}

typedef CUresult (*allocate_function)(CUdeviceptr *, size_t, CUmemoryPool, CUstream);

/* Hand over from the expected growth to the real one, in one step. False where the pool grew beyond the limit, as one
   in pieces may. */
static bool take_over(CUmemoryPool pool, int device, uint64_t growth) {
    pthread_mutex_lock(&lock);
    struct pool *known = pool_of(pool, device);
    if (known) settle(known);
    atomic_fetch_sub(&own_slot()->charged[device], growth);
    pthread_mutex_unlock(&lock);
    return memory_used(device) <= memory_limit(device);
}

static CUresult allocate(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream, allocate_function call) {
    int device = current_device();
    uint64_t growth = expected_growth(pool, bytes);
    if (device < 0 || !memory_begin(device, growth)) return device < 0 ? call(pointer, bytes, pool, stream) : CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = call(pointer, bytes, pool, stream);
    if (!take_over(pool, device, growth) && result == CUDA_SUCCESS && growth == 0) {
        REAL(cuMemFreeAsync)(*pointer, stream);
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    memory_finish(CUDA_SUCCESS, device, 0);
    return result;
}

static bool is_passed_through(CUstream stream) { return !limiter_is_on() || is_capturing(stream); }

static CUresult call_default(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    (void)pool;
    return REAL(cuMemAllocAsync)(pointer, bytes, stream);
}

static CUresult call_pool(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return REAL(cuMemAllocFromPoolAsync)(pointer, bytes, pool, stream);
}

EXPORTED CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    CUmemoryPool pool;
    if (is_passed_through(stream) || REAL(cuDeviceGetMemPool)(&pool, current_device()) != CUDA_SUCCESS)
        return REAL(cuMemAllocAsync)(pointer, bytes, stream);
    return allocate(pointer, bytes, pool, stream, call_default);
}

EXPORTED CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    if (is_passed_through(stream)) return REAL(cuMemAllocFromPoolAsync)(pointer, bytes, pool, stream);
    return allocate(pointer, bytes, pool, stream, call_pool);
}

/* The flavour for programs whose default stream is one per thread: the same with that stream named. */
static CUstream per_thread(CUstream stream) { return stream ? stream : STREAM_PER_THREAD; }

EXPORTED CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream) {
    return cuMemAllocAsync(pointer, bytes, per_thread(stream));
}

EXPORTED CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    return cuMemAllocFromPoolAsync(pointer, bytes, pool, per_thread(stream));
}

EXPORTED CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    CUresult result = REAL(cuMemPoolCreate)(pool, props);
    if (result != CUDA_SUCCESS || !limiter_is_on() || props->location.type != LOCATION_DEVICE) return result;
    pthread_mutex_lock(&lock);
    pool_of(*pool, props->location.id < DEVICES_MAX ? props->location.id : -1);
    pthread_mutex_unlock(&lock);
    return result;
}

static void forget_pool(CUmemoryPool pool) {
    pthread_mutex_lock(&lock);
    struct pool *known = pool_of(pool, -1);
    if (known) {
        atomic_fetch_sub(&own_slot()->charged[known->device], known->charged);
        *known = (struct pool){NULL, 0, 0};
    }
    pthread_mutex_unlock(&lock);
}

/* A pool's memory goes when its last allocation does, which may be later: until then the residual holds it. */
EXPORTED CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    if (!limiter_is_on()) return REAL(cuMemPoolDestroy)(pool);
    memory_release_begin();
    forget_pool(pool);
    CUresult result = REAL(cuMemPoolDestroy)(pool);
    memory_release_finish(result, 0, 0);
    return result;
}

EXPORTED CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    if (!limiter_is_on()) return REAL(cuMemPoolTrimTo)(pool, keep);
    memory_release_begin();
    CUresult result = REAL(cuMemPoolTrimTo)(pool, keep);
    pthread_mutex_lock(&lock);
    struct pool *known = pool_of(pool, -1);
    if (known) settle(known);
    pthread_mutex_unlock(&lock);
    memory_release_finish(result, 0, 0);
    return result;
}
