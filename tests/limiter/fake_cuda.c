/* A stand-in for libcuda.so.1: it counts bytes as the driver does (2 MiB steps, pools of 32 MiB, a context that takes
   its own) in a file that all processes of a test share, and runs kernels on a clock. A kernel lasts grid_x us.
   FAKE_CARD names the file; FAKE_CONTEXT_MIB is what a context takes. Built and loaded by tests/limiter. */
#define _GNU_SOURCE
#include "fake_card.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../limiter/wrappers.h"

static __thread CUcontext current;
static int has_context;
struct CUctx_st { int device; };
static struct CUctx_st the_context;

static uint64_t round_up(uint64_t bytes, uint64_t step) { return (bytes + step - 1) / step * step; }
static uint64_t mib(const char *name, uint64_t standard) { return (getenv(name) ? strtoull(getenv(name), NULL, 10) : standard) << 20; }

/* Contexts ------------------------------------------------------------------------------------------------------- */

CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
CUresult cuCtxGetCurrent(CUcontext *context) { *context = current; return 0; }
CUresult cuCtxSetCurrent(CUcontext context) { current = context; return 0; }
CUresult cuCtxGetDevice(CUdevice *device) { *device = 0; return current ? 0 : CUDA_ERROR_INVALID_CONTEXT; }
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) { memset(uuid, 0xab + device, sizeof *uuid); return 0; }
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *is_active) { *flags = (unsigned)device; *is_active = has_context; return 0; }

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (device != 0) return 101;
    if (!has_context && !card_take(mib("FAKE_CONTEXT_MIB", 500))) return CUDA_ERROR_OUT_OF_MEMORY;
    has_context = 1;
    *context = current = &the_context;
    return 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { (void)device; card_give(mib("FAKE_CONTEXT_MIB", 500)); has_context = 0; return 0; }
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return cuDevicePrimaryCtxRelease_v2(device); }
CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) { (void)flags; return cuDevicePrimaryCtxRetain(context, device); }
CUresult cuCtxCreate_v3(CUcontext *context, void *a, int n, unsigned flags, CUdevice device) { (void)a; (void)n; return cuCtxCreate_v2(context, flags, device); }
CUresult cuCtxCreate_v4(CUcontext *context, void *p, unsigned flags, CUdevice device) { (void)p; return cuCtxCreate_v2(context, flags, device); }
CUresult cuCtxDestroy_v2(CUcontext context) { (void)context; return cuDevicePrimaryCtxRelease_v2(0); }

/* Memory: an allocation's size stands in a page of host memory whose address is its pointer. ------------------------ */

static CUresult take(uint64_t bytes, uint64_t *pointer) {
    if (!card_take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t *record = malloc(64);
    record[0] = bytes;
    record[1] = 0;
    *pointer = (uintptr_t)record;
    return 0;
}
static CUresult give(uint64_t pointer) {
    if (!pointer) return CUDA_ERROR_INVALID_VALUE;
    uint64_t *record = (uint64_t *)(uintptr_t)pointer;
    if (record[1]) atomic_fetch_add(card_own(), record[0]);
    card_give(record[0]);
    free((void *)(uintptr_t)pointer);
    return 0;
}
static uint64_t plain(uint64_t bytes) { return bytes > 1 << 20 ? round_up(bytes, 2 << 20) : round_up(bytes, 512); }

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes) { return bytes ? take(plain(bytes), (uint64_t *)pointer) : CUDA_ERROR_INVALID_VALUE; }
CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height, unsigned element) {
    (void)element;
    *pitch = round_up(width, 512);
    return take(plain(*pitch * height), (uint64_t *)pointer);
}
/* NVML does not show managed memory with the process that has it. */
CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned flags) {
    (void)flags;
    CUresult result = take(round_up(bytes, 2 << 20), (uint64_t *)pointer);
    if (result != CUDA_SUCCESS) return result;
    uint64_t *record = (uint64_t *)(uintptr_t)*pointer;
    record[1] = 1;
    atomic_fetch_sub(card_own(), record[0]);
    return CUDA_SUCCESS;
}
CUresult cuMemFree_v2(CUdeviceptr pointer) { return give(pointer); }
CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    uint64_t size = shape->width * (shape->height ? shape->height : 1) * (shape->depth ? shape->depth : 1) * shape->channels * (shape->format == 0x20 ? 4 : 1);
    return take(round_up(size, 64 << 10), (uint64_t *)array);
}
CUresult cuArrayCreate_v2(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *shape) {
    CUDA_ARRAY3D_DESCRIPTOR whole = {shape->width, shape->height, 0, shape->format, shape->channels, 0};
    return cuArray3DCreate_v2(array, &whole);
}
CUresult cuArrayDestroy(CUarray array) { return give((uintptr_t)array); }
CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned levels) { (void)levels; return cuArray3DCreate_v2((CUarray *)array, shape); }
CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) { return give((uintptr_t)array); }
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    if (!free_bytes || !total) return CUDA_ERROR_INVALID_VALUE;
    *total = CARD_BYTES;
    *free_bytes = CARD_BYTES - atomic_load(&card()->used);
    return 0;
}
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) { (void)device; *bytes = CARD_BYTES; return 0; }

/* Pools ---------------------------------------------------------------------------------------------------------- */

struct CUmemPool_st { pthread_mutex_t lock; uint64_t used, reserved; };
static struct CUmemPool_st default_pool = {.lock = PTHREAD_MUTEX_INITIALIZER};
struct piece { struct CUmemPool_st *pool; uint64_t bytes; };

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) { (void)device; *pool = &default_pool; return 0; }
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); }
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
    pthread_mutex_lock(&pool->lock);
    *(uint64_t *)value = attribute == POOL_RESERVED_CURRENT ? pool->reserved : pool->used;
    pthread_mutex_unlock(&pool->lock);
    return 0;
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool, CUstream stream) {
    (void)stream;
    pthread_mutex_lock(&pool->lock);
    uint64_t needed = pool->used + bytes, growth = needed > pool->reserved ? round_up(needed - pool->reserved, 32 << 20) : 0;
    CUresult result = growth && !card_take(growth) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        struct piece *piece = malloc(sizeof *piece);
        *piece = (struct piece){pool, bytes};
        *pointer = (uintptr_t)piece;
        pool->reserved += growth;
        pool->used += bytes;
    }
    pthread_mutex_unlock(&pool->lock);
    return result;
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *p, size_t b, CUmemoryPool pool, CUstream s) { return cuMemAllocFromPoolAsync(p, b, pool, s); }
CUresult cuMemAllocAsync(CUdeviceptr *pointer, size_t bytes, CUstream stream) { return cuMemAllocFromPoolAsync(pointer, bytes, &default_pool, stream); }
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream) { return cuMemAllocAsync(pointer, bytes, stream); }
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream) {
    (void)stream;
    struct piece *piece = (struct piece *)(uintptr_t)pointer;
    pthread_mutex_lock(&piece->pool->lock);
    piece->pool->used -= piece->bytes;
    pthread_mutex_unlock(&piece->pool->lock);
    free(piece);
    return 0;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    pthread_mutex_lock(&pool->lock);
    uint64_t least = round_up(pool->used > keep ? pool->used : keep, 32 << 20);
    if (least < pool->reserved) {
        card_give(pool->reserved - least);
        pool->reserved = least;
    }
    pthread_mutex_unlock(&pool->lock);
    return 0;
}
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    (void)props;
    *pool = calloc(1, sizeof **pool);
    pthread_mutex_init(&(*pool)->lock, NULL);
    return 0;
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) { card_give(pool->reserved); free(pool); return 0; }

/* Blocks and mappings: one mapping a block is enough here. ------------------------------------------------------- */

struct physical { uint64_t bytes; int holders; };
static struct physical *mapped[1024];

static void let_go(struct physical *block) {
    if (--block->holders > 0) return;
    card_give(block->bytes);
    free(block);
}
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, uint64_t flags) {
    (void)flags;
    if (prop->location.type == LOCATION_DEVICE && !card_take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    struct physical *block = malloc(sizeof *block);
    *block = (struct physical){prop->location.type == LOCATION_DEVICE ? bytes : 0, 1};
    *handle = (uintptr_t)block;
    return 0;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) { let_go((struct physical *)(uintptr_t)handle); return 0; }
CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, uint64_t flags) {
    (void)bytes; (void)offset; (void)flags;
    mapped[pointer >> 21] = (struct physical *)(uintptr_t)handle;
    mapped[pointer >> 21]->holders++;
    return 0;
}
CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    for (uint64_t page = pointer >> 21; page < (pointer + bytes) >> 21; page++) {
        if (mapped[page]) let_go(mapped[page]);
        mapped[page] = NULL;
    }
    return 0;
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    struct physical *block = mapped[(uintptr_t)address >> 21];
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    block->holders++;
    *handle = (uintptr_t)block;
    return 0;
}

/* Time: the card runs one kernel after the other, whatever the stream. ------------------------------------------- */

struct CUstream_st { _Atomic uint64_t busy_until; int is_capturing; };
struct CUevent_st { _Atomic uint64_t at; };
static struct CUstream_st default_stream;

static uint64_t clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}
static struct CUstream_st *stream_at(CUstream stream) { return (uintptr_t)stream <= 2 ? &default_stream : stream; }
static CUresult run(CUstream handle, uint64_t ns) {
    struct CUstream_st *stream = stream_at(handle);
    atomic_fetch_add(&card()->launches, 1);
    if (stream->is_capturing) return 0;
    atomic_store(&stream->busy_until, card_run(clock_ns(), ns));
    return 0;
}
CUresult cuStreamCreate(CUstream *stream, unsigned flags) { (void)flags; *stream = calloc(1, sizeof **stream); return 0; }
CUresult cuStreamDestroy_v2(CUstream stream) { free(stream); return 0; }
CUresult cuStreamQuery(CUstream stream) { return clock_ns() >= atomic_load(&stream_at(stream)->busy_until) ? 0 : 600; }
CUresult cuStreamSynchronize(CUstream stream) {
    while (cuStreamQuery(stream)) nanosleep(&(struct timespec){0, 20000}, NULL);
    return 0;
}
CUresult cuStreamIsCapturing(CUstream stream, int *status) { *status = stream_at(stream)->is_capturing; return 0; }
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) { (void)mode; stream_at(stream)->is_capturing = 1; return 0; }
CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode) { return cuStreamBeginCapture_v2(stream, mode); }
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) { stream_at(stream)->is_capturing = 0; *graph = NULL; return 0; }
CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) { return cuStreamEndCapture(stream, graph); }
CUresult cuThreadExchangeStreamCaptureMode(int *mode) { *mode = 0; return 0; }
CUresult cuEventCreate(CUevent *event, unsigned flags) { (void)flags; *event = calloc(1, sizeof **event); return 0; }
CUresult cuEventRecord(CUevent event, CUstream handle) {
    struct CUstream_st *stream = stream_at(handle);
    if (stream->is_capturing) atomic_fetch_add(&card()->captured_events, 1);
    atomic_fetch_add(&card()->events, 1);
    uint64_t now = clock_ns(), until = atomic_load(&stream->busy_until);
    atomic_store(&event->at, now > until ? now : until);
    return 0;
}
CUresult cuEventQuery(CUevent event) { return clock_ns() >= atomic_load(&event->at) ? 0 : 600; }
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    *milliseconds = (float)((double)((int64_t)atomic_load(&end->at) - (int64_t)atomic_load(&start->at)) / 1e6);
    return 0;
}
#define GRID unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz
#define UNUSED (void)f, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared, (void)params
CUresult cuLaunchKernel(CUfunction f, GRID, unsigned shared, CUstream stream, void **params, void **extra) { UNUSED; (void)extra; return run(stream, x * 1000ULL); }
CUresult cuLaunchKernel_ptsz(CUfunction f, GRID, unsigned shared, CUstream stream, void **params, void **extra) { UNUSED; (void)extra; return run(stream, x * 1000ULL); }
CUresult cuLaunchCooperativeKernel(CUfunction f, GRID, unsigned shared, CUstream stream, void **params) { UNUSED; return run(stream, x * 1000ULL); }
CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, GRID, unsigned shared, CUstream stream, void **params) { UNUSED; return run(stream, x * 1000ULL); }
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) { (void)f; (void)params; (void)extra; return run(config->stream, config->grid_x * 1000ULL); }
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params, void **extra) { return cuLaunchKernelEx(config, f, params, extra); }

/* Graphs: a graph is a list of allocations, and takes its memory when it first runs. ------------------------------ */

struct CUgraphNode_st { uint64_t bytes; };
struct CUgraph_st { size_t count; struct CUgraphNode_st nodes[8]; };
struct CUgraphExec_st { uint64_t bytes; int has_run; };
static _Atomic uint64_t graph_reserved_bytes;

CUresult cuGraphCreate(CUgraph *graph, unsigned flags) { (void)flags; *graph = calloc(1, sizeof **graph); return 0; }
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params) {
    (void)after; (void)count;
    graph->nodes[graph->count].bytes = params->bytes;
    *node = &graph->nodes[graph->count++];
    return 0;
}
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    for (size_t index = 0; nodes && index < graph->count; index++) nodes[index] = &graph->nodes[index];
    *count = graph->count;
    return 0;
}
CUresult cuGraphNodeGetType(CUgraphNode node, int *type) { (void)node; *type = GRAPH_NODE_MEMORY_ALLOCATION; return 0; }
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params) { params->bytes = node->bytes; params->pool.location.id = 0; return 0; }
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags) {
    (void)flags;
    *exec = calloc(1, sizeof **exec);
    for (size_t index = 0; index < graph->count; index++) (*exec)->bytes += round_up(graph->nodes[index].bytes, 2 << 20);
    return 0;
}
CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size) { (void)node; (void)log; (void)size; return cuGraphInstantiateWithFlags(exec, graph, 0); }
CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params) { (void)params; return cuGraphInstantiateWithFlags(exec, graph, 0); }
CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params) { (void)params; return cuGraphInstantiateWithFlags(exec, graph, 0); }
CUresult cuGraphExecDestroy(CUgraphExec exec) { free(exec); return 0; }
CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    (void)stream;
    if (exec->has_run) return 0;
    if (!card_take(exec->bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    exec->has_run = 1;
    atomic_fetch_add(&graph_reserved_bytes, exec->bytes);
    return 0;
}
CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) { return cuGraphUpload(exec, stream); }
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) { CUresult result = cuGraphUpload(exec, stream); return result ? result : run(stream, 1000000); }
CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) { return cuGraphLaunch(exec, stream); }
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value) { (void)device; (void)attribute; *(uint64_t *)value = atomic_load(&graph_reserved_bytes); return 0; }
CUresult cuDeviceGraphMemTrim(CUdevice device) { (void)device; card_give(atomic_exchange(&graph_reserved_bytes, 0)); return 0; }

/* Looking up ----------------------------------------------------------------------------------------------------- */

#define ROW(name, base, version, flavour) { #name, base, version, flavour },
static const struct { const char *name, *base; int version; uint64_t flavour; } rows[] = { FOR_EACH_WRAPPED_CUDA(ROW) };

/* The newest function of that name in this release and flavour, as the driver chooses; others by their own name. */
CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    const char *best = NULL;
    int best_version = 0;
    for (size_t index = 0; index < sizeof rows / sizeof *rows; index++) {
        bool fits = strcmp(rows[index].base, symbol) == 0 && rows[index].version <= version && rows[index].version > best_version;
        bool is_flavour = rows[index].flavour == BOTH || rows[index].flavour == (flags & PER_THREAD ? PER_THREAD : LEGACY);
        if (fits && is_flavour) best = rows[index].name, best_version = rows[index].version;
    }
    void *self = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *function = dlvsym(self, best ? best : symbol, "FAKE");
    if (status) *status = *function ? 0 : 1;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) { return cuGetProcAddress_v2(symbol, function, version, flags, NULL); }
