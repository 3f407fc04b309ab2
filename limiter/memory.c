/* Memory by pointer and by array, and the way in which every allocation is charged: first the charge, then the driver,
   and back if the driver refuses. Called by the application; memory_* by the other files that allocate.

   Charge and call happen under the shared side of `calls`; who compares what is charged with what the driver says is in
   use takes the other side, and so never sees one without the other. */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "wrappers.h"

static pthread_rwlock_t calls = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static struct ledger pointers = LEDGER_INITIALIZER;
static struct ledger arrays = LEDGER_INITIALIZER;
static struct ledger managed = LEDGER_INITIALIZER;
static _Atomic uint64_t managed_bytes[DEVICES_MAX]; /* NVML does not show it with the process */

uint64_t rounded_up(uint64_t bytes, uint64_t step) {
    return bytes > UINT64_MAX - step ? UINT64_MAX : (bytes + step - 1) / step * step;
}

/* What the driver takes for a plain allocation: small ones come out of blocks that it holds already. What this misses
   the residual finds. */
static uint64_t plain_size(uint64_t bytes) { return bytes > 1 << 20 ? rounded_up(bytes, 2 << 20) : rounded_up(bytes, 512); }

/* Set what this process holds beyond its allocations (contexts, modules, the stack of kernels) to what NVML shows. */
static void measure_residual(int device, struct region_slot *slot) {
    unsigned pid = atomic_load(&slot->host_pid);
    uint64_t used;
    if (!nvml_used_by_process(device, pid ? pid : (unsigned)getpid(), &used)) return;
    uint64_t residual = atomic_load(&slot->residual[device]);
    uint64_t allocated = atomic_load(&slot->charged[device]) - residual - atomic_load(&managed_bytes[device]);
    uint64_t measured = used > allocated ? used - allocated : 0;
    atomic_store(&slot->residual[device], measured);
    atomic_fetch_add(&slot->charged[device], measured - residual); /* wraps to a subtraction */
}

/* Bring the charge in line with what is really held. Skipped where a call of the driver lasts long: it holds the lock
   and the next round finds the same. */
void memory_settle(int device) {
    struct region_slot *slot = own_slot();
    if (!slot) return;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    if (pthread_rwlock_timedwrlock(&calls, &until) != 0) return;
    pools_settle(device);
    graphs_settle(device);
    measure_residual(device, slot);
    pthread_rwlock_unlock(&calls);
}

/* Charge, and keep the lock for the call of the driver. A first refusal is looked into: pools shrink without telling,
   and processes die. The tries after it are for racers that refused each other at the edge. */
bool memory_begin(int device, uint64_t bytes) {
    struct region *region = own_region();
    struct region_slot *slot = own_slot();
    if (!slot) return false;
    for (int attempt = 0; attempt < 4; attempt++) {
        pthread_rwlock_rdlock(&calls);
        if (region_charge(region, slot, device, bytes, memory_limit(device))) return true;
        pthread_rwlock_unlock(&calls);
        if (attempt > 0) {
            sched_yield();
            continue;
        }
        region_reap(region);
        memory_settle(device);
    }
    atomic_fetch_add(&region->devices[device].refusals, 1);
    return false;
}

void memory_finish(CUresult result, int device, uint64_t bytes) {
    if (result != CUDA_SUCCESS) atomic_fetch_sub(&own_slot()->charged[device], bytes);
    pthread_rwlock_unlock(&calls);
}

void memory_release_begin(void) { pthread_rwlock_rdlock(&calls); }

void memory_release_finish(CUresult result, int device, uint64_t bytes) {
    if (result == CUDA_SUCCESS && bytes) atomic_fetch_sub(&own_slot()->charged[device], bytes);
    pthread_rwlock_unlock(&calls);
}

/* A context that goes takes its pointers and arrays along without a call for each. */
void memory_forget_context(CUcontext context, int device) {
    pthread_rwlock_rdlock(&calls);
    uint64_t shared = ledger_drop(&managed, context);
    atomic_fetch_sub(&managed_bytes[device], shared);
    memory_release_finish(CUDA_SUCCESS, device, ledger_drop(&pointers, context) + ledger_drop(&arrays, context) + shared);
}

uint64_t memory_used(int device) { return region_total(own_region(), device); }

/* The device to charge, -1 where nothing is counted. */
static int counted_device(void) { return limiter_is_on() ? current_device() : -1; }

static struct ledger_entry charged_here(uint64_t bytes, int device) {
    CUcontext context = NULL;
    REAL(cuCtxGetCurrent)(&context);
    return (struct ledger_entry){bytes, (uint64_t)device, context};
}

static void remember(struct ledger *ledger, CUresult result, uint64_t key, struct ledger_entry entry) {
    if (result == CUDA_SUCCESS) ledger_put(ledger, key, entry);
}

EXPORTED CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) {
    int device = counted_device();
    if (device < 0 || !pointer) return REAL(cuMemAlloc_v2)(pointer, bytes);
    uint64_t size = plain_size(bytes);
    if (!memory_begin(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuMemAlloc_v2)(pointer, bytes);
    remember(&pointers, result, *pointer, charged_here(size, device));
    memory_finish(result, device, size);
    return result;
}

/* The driver chooses the pitch: the charge is made with the widest it uses and put right after. */
EXPORTED CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    int device = counted_device();
    if (device < 0 || !pointer || !pitch) return REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    uint64_t wide = rounded_up(width, 512), most;
    if (__builtin_mul_overflow(wide, (uint64_t)height, &most) || !memory_begin(device, most = plain_size(most)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    uint64_t size = result == CUDA_SUCCESS ? plain_size((uint64_t)*pitch * height) : most;
    if (size < most) atomic_fetch_sub(&own_slot()->charged[device], most - size);
    else size = most;
    remember(&pointers, result, *pointer, charged_here(size, device));
    memory_finish(result, device, size);
    return result;
}

EXPORTED CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) {
    int device = may_oversubscribe() ? -1 : counted_device();
    if (device < 0 || !pointer) return REAL(cuMemAllocManaged)(pointer, bytes, flags);
    uint64_t size = rounded_up(bytes, 2 << 20);
    if (!memory_begin(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuMemAllocManaged)(pointer, bytes, flags);
    remember(&managed, result, *pointer, charged_here(size, device));
    if (result == CUDA_SUCCESS) atomic_fetch_add(&managed_bytes[device], size);
    memory_finish(result, device, size);
    return result;
}

/* Taken out of the ledger before the driver frees it: after, the same address may already be another's. */
EXPORTED CUresult cuMemFree_v2(CUdeviceptr pointer) {
    struct ledger_entry entry = {0, 0, NULL};
    if (!limiter_is_on()) return REAL(cuMemFree_v2)(pointer);
    memory_release_begin();
    bool is_plain = ledger_take(&pointers, pointer, &entry);
    bool is_managed = !is_plain && ledger_take(&managed, pointer, &entry);
    CUresult result = REAL(cuMemFree_v2)(pointer);
    if (result != CUDA_SUCCESS && (is_plain || is_managed)) ledger_put(is_plain ? &pointers : &managed, pointer, entry);
    if (result == CUDA_SUCCESS && is_managed) atomic_fetch_sub(&managed_bytes[entry.device], entry.bytes);
    memory_release_finish(result, (int)entry.device, entry.bytes);
    return result;
}

/* Arrays --------------------------------------------------------------------------------------------------------- */

static uint64_t bytes_per_channel(int format) {
    switch (format) {
        case 0x01: case 0x08: case 0xc0: case 0xc1: case 0xc2: case 0xc6: case 0xc7: case 0xc8: return 1;
        case 0x02: case 0x09: case 0x10: case 0xc3: case 0xc4: case 0xc5: case 0xc9: case 0xca: case 0xcb: return 2;
        default: return 4;
    }
}

static uint64_t array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    if (shape->flags & (ARRAY_SPARSE | ARRAY_DEFERRED_MAPPING)) return 0; /* gets its memory from cuMemCreate */
    uint64_t size = bytes_per_channel(shape->format) * shape->channels;
    size_t sides[3] = {shape->width, shape->height ? shape->height : 1, shape->depth ? shape->depth : 1};
    for (int side = 0; side < 3; side++)
        if (__builtin_mul_overflow(size, (uint64_t)sides[side], &size)) return UINT64_MAX / 2;
    return rounded_up(size, 64 << 10);
}

static uint64_t levels_size(CUDA_ARRAY3D_DESCRIPTOR shape, unsigned levels) {
    uint64_t size = 0;
    for (unsigned level = 0; level < levels && level < 32 && size < UINT64_MAX / 2; level++) {
        size += array_size(&shape);
        shape.width = shape.width > 1 ? shape.width / 2 : 1;
        shape.height = shape.height > 1 ? shape.height / 2 : shape.height;
        shape.depth = shape.depth > 1 ? shape.depth / 2 : shape.depth;
    }
    return size;
}

EXPORTED CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape) {
    int device = counted_device();
    if (device < 0 || !array || !shape) return REAL(cuArrayCreate_v2)(array, shape);
    CUDA_ARRAY3D_DESCRIPTOR whole = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
    uint64_t size = array_size(&whole);
    if (!memory_begin(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuArrayCreate_v2)(array, shape);
    remember(&arrays, result, (uintptr_t)*array, charged_here(size, device));
    memory_finish(result, device, size);
    return result;
}

EXPORTED CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    int device = counted_device();
    if (device < 0 || !array || !shape) return REAL(cuArray3DCreate_v2)(array, shape);
    uint64_t size = array_size(shape);
    if (!memory_begin(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuArray3DCreate_v2)(array, shape);
    remember(&arrays, result, (uintptr_t)*array, charged_here(size, device));
    memory_finish(result, device, size);
    return result;
}

EXPORTED CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels) {
    int device = counted_device();
    if (device < 0 || !array || !shape) return REAL(cuMipmappedArrayCreate)(array, shape, levels);
    uint64_t size = levels_size(*shape, levels);
    if (!memory_begin(device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuMipmappedArrayCreate)(array, shape, levels);
    remember(&arrays, result, (uintptr_t)*array, charged_here(size, device));
    memory_finish(result, device, size);
    return result;
}

EXPORTED CUresult cuArrayDestroy(CUarray array) {
    struct ledger_entry entry = {0, 0, NULL};
    if (!limiter_is_on()) return REAL(cuArrayDestroy)(array);
    memory_release_begin();
    bool is_known = ledger_take(&arrays, (uintptr_t)array, &entry);
    CUresult result = REAL(cuArrayDestroy)(array);
    if (is_known && result != CUDA_SUCCESS) ledger_put(&arrays, (uintptr_t)array, entry);
    memory_release_finish(result, (int)entry.device, entry.bytes);
    return result;
}

EXPORTED CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
    struct ledger_entry entry = {0, 0, NULL};
    if (!limiter_is_on()) return REAL(cuMipmappedArrayDestroy)(array);
    memory_release_begin();
    bool is_known = ledger_take(&arrays, (uintptr_t)array, &entry);
    CUresult result = REAL(cuMipmappedArrayDestroy)(array);
    if (is_known && result != CUDA_SUCCESS) ledger_put(&arrays, (uintptr_t)array, entry);
    memory_release_finish(result, (int)entry.device, entry.bytes);
    return result;
}
