/* A CUDA program for the tests: it finds the driver as applications do (dlopen, dlsym, cuGetProcAddress) and prints what
   it saw as name=value. Built and run by tests/limiter, with the limiter preloaded. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../limiter/wrappers.h"

CUresult cuInit(unsigned flags);
CUresult cuStreamCreate(CUstream *stream, unsigned flags);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count, CUDA_MEM_ALLOC_NODE_PARAMS *params);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);

static void *driver, *nvml;
#define CUDA(name) ((__typeof__(&name))dlsym(driver, #name))
#define NVML(name) ((__typeof__(&name))dlsym(nvml, #name))

static CUresult begin(void) {
    CUcontext context;
    driver = dlopen("libcuda.so.1", RTLD_LAZY);
    nvml = dlopen("libnvidia-ml.so.1", RTLD_LAZY);
    if (!driver || !nvml) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    CUDA(cuInit)(0);
    return CUDA(cuDevicePrimaryCtxRetain)(&context, 0);
}

static CUresult allocate(const char *how, size_t bytes) {
    CUdeviceptr pointer;
    CUarray array;
    size_t pitch;
    static CUmemoryPool pool;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
    CUmemPoolProps pool_props = {.allocation_type = 1, .location = {LOCATION_DEVICE, 0}};
    CUDA_ARRAY_DESCRIPTOR flat = {1024, bytes / 4096, 0x20, 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {256, 4, bytes / 4096, 0x20, 1, 0};
    if (!strcmp(how, "plain")) return CUDA(cuMemAlloc_v2)(&pointer, bytes);
    if (!strcmp(how, "pitch")) return CUDA(cuMemAllocPitch_v2)(&pointer, &pitch, 4096, bytes / 4096, 4);
    if (!strcmp(how, "managed")) return CUDA(cuMemAllocManaged)(&pointer, bytes, 1);
    if (!strcmp(how, "async")) return CUDA(cuMemAllocAsync)(&pointer, bytes, NULL);
    if (!strcmp(how, "async_ptsz")) return CUDA(cuMemAllocAsync_ptsz)(&pointer, bytes, NULL);
    if (!strcmp(how, "virtual")) return CUDA(cuMemCreate)(&handle, bytes, &prop, 0);
    if (!strcmp(how, "array")) return CUDA(cuArrayCreate_v2)(&array, &flat);
    if (!strcmp(how, "array3d")) return CUDA(cuArray3DCreate_v2)(&array, &deep);
    if (!strcmp(how, "mipmap")) return CUDA(cuMipmappedArrayCreate)((CUmipmappedArray *)&array, &deep, 1);
    if (!strcmp(how, "pool")) {
        if (!pool) CUDA(cuMemPoolCreate)(&pool, &pool_props);
        return CUDA(cuMemAllocFromPoolAsync)(&pointer, bytes, pool, NULL);
    }
    if (!strcmp(how, "graph")) {
        CUgraph graph;
        CUgraphNode node;
        CUgraphExec exec;
        CUDA_MEM_ALLOC_NODE_PARAMS params = {.pool = pool_props, .bytes = bytes};
        CUDA(cuGraphCreate)(&graph, 0);
        CUDA(cuGraphAddMemAllocNode)(&node, graph, NULL, 0, &params);
        CUDA(cuGraphInstantiateWithFlags)(&exec, graph, 0);
        return CUDA(cuGraphLaunch)(exec, NULL);
    }
    exit(4);
}

static void show_views(void) {
    size_t left, total, device_total;
    nvmlDevice_t device;
    nvmlMemory_t memory;
    nvmlMemory_v2_t second = {.version = 2};
    unsigned count = 64;
    nvmlProcessInfo_v2_t processes[64];
    CUDA(cuMemGetInfo_v2)(&left, &total);
    CUDA(cuDeviceTotalMem_v2)(&device_total, 0);
    NVML(nvmlDeviceGetHandleByIndex_v2)(0, &device);
    NVML(nvmlDeviceGetMemoryInfo)(device, &memory);
    NVML(nvmlDeviceGetMemoryInfo_v2)(device, &second);
    NVML(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, processes);
    printf("free=%zu\ntotal=%zu\ndevice_total=%zu\nnvml_total=%llu\nnvml_used=%llu\nnvml2_total=%llu\nnvml2_used=%llu\nprocesses=%u\n", left, total,
           device_total, memory.total, memory.used, second.total, second.used, count);
    printf("null=%d\n", CUDA(cuMemGetInfo_v2)(NULL, NULL));
}

static void fill(const char *how, size_t step, size_t cap) {
    size_t got = 0;
    CUresult result = CUDA_SUCCESS;
    while (got < cap && (result = allocate(how, step)) == CUDA_SUCCESS) got += step;
    printf("got=%zu\nresult=%d\n", got, result);
    show_views();
}

/* Allocate and free at random for a number of rounds, or with a dot now and then until killed. */
static void churn(unsigned seed, long rounds, size_t most) {
    enum { LIVE = 64 };
    CUdeviceptr pointers[LIVE] = {0};
    CUmemGenericAllocationHandle handles[LIVE] = {0};
    CUmemAllocationProp prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
    for (long round = 0; rounds == 0 || round < rounds; round++) {
        if (rounds == 0 && round % 8 == 0) (void)!write(1, ".", 1);
        unsigned place = (unsigned)rand_r(&seed) % LIVE;
        size_t bytes = (size_t)(rand_r(&seed) % (int)(most >> 12)) * 4096 + 256;
        if (pointers[place]) CUDA(cuMemFree_v2)(pointers[place]), pointers[place] = 0;
        else if (CUDA(cuMemAlloc_v2)(&pointers[place], bytes) != CUDA_SUCCESS) pointers[place] = 0;
        if (handles[place]) CUDA(cuMemRelease)(handles[place]), handles[place] = 0;
        else if (CUDA(cuMemCreate)(&handles[place], bytes & ~4095ULL, &prop, 0) != CUDA_SUCCESS) handles[place] = 0;
    }
    for (int place = 0; place < LIVE; place++) {
        if (pointers[place]) CUDA(cuMemFree_v2)(pointers[place]);
        if (handles[place]) CUDA(cuMemRelease)(handles[place]);
    }
}

/* All make their context, then all allocate until all are refused, and none leaves before. */
static void race(int processes, size_t step) {
    int gate[2], ready[2], over[2];
    char word;
    (void)!pipe(gate);
    (void)!pipe(ready);
    (void)!pipe(over);
    for (int index = 0; index < processes; index++) {
        if (fork() != 0) continue;
        close(gate[1]);
        close(over[1]);
        if (begin() != CUDA_SUCCESS) _exit(1);
        (void)!write(ready[1], ".", 1);
        (void)!read(gate[0], &word, 1);
        while (allocate("plain", step) == CUDA_SUCCESS) {}
        (void)!write(ready[1], ".", 1);
        (void)!read(over[0], &word, 1);
        _exit(0);
    }
    close(ready[1]);
    for (int index = 0; index < processes; index++) (void)!read(ready[0], &word, 1);
    close(gate[1]);
    for (int index = 0; index < processes; index++) (void)!read(ready[0], &word, 1);
    close(over[1]);
    int status, failed = 0;
    while (wait(&status) > 0) failed += status != 0;
    printf("failed=%d\n", failed);
}

static void *churn_thread(void *seed) {
    CUcontext context;
    CUDA(cuDevicePrimaryCtxRetain)(&context, 0);
    CUDA(cuCtxSetCurrent)(context);
    churn((unsigned)(uintptr_t)seed, 300, 4 << 20);
    for (int index = 0; index < 50; index++) CUDA(cuLaunchKernel)(NULL, 20, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    return NULL;
}

static void threads(int count) {
    pthread_t threads[64];
    for (int index = 0; index < count; index++) pthread_create(&threads[index], NULL, churn_thread, (void *)(uintptr_t)(index + 1));
    for (int index = 0; index < count; index++) pthread_join(threads[index], NULL);
    show_views();
}

static void map_blocks(void) {
    CUmemGenericAllocationHandle first, second;
    CUmemAllocationProp prop = {.type = 1, .location = {LOCATION_DEVICE, 0}};
    size_t left[5], total;
    CUDA(cuMemGetInfo_v2)(&left[0], &total);
    CUDA(cuMemCreate)(&first, 2 << 20, &prop, 0);
    CUDA(cuMemCreate)(&second, 2 << 20, &prop, 0);
    CUDA(cuMemMap)(4 << 20, 2 << 20, 0, first, 0);
    CUDA(cuMemMap)(6 << 20, 2 << 20, 0, second, 0);
    CUDA(cuMemGetInfo_v2)(&left[1], &total);
    CUDA(cuMemRelease)(first);
    CUDA(cuMemRelease)(second);
    CUDA(cuMemGetInfo_v2)(&left[2], &total);
    CUDA(cuMemRetainAllocationHandle)(&first, (void *)(4 << 20));
    CUDA(cuMemUnmap)(4 << 20, 4 << 20);
    CUDA(cuMemGetInfo_v2)(&left[3], &total);
    CUDA(cuMemRelease)(first);
    CUDA(cuMemGetInfo_v2)(&left[4], &total);
    for (int index = 1; index < 5; index++) printf("held%d=%zu\n", index, left[0] - left[index]);
}

/* Every function that is replaced, by every way to it: the same wrapper must come out. */
static void routes(void) {
#define ROUTE(name, base, version, flavour)                                                                            \
    {                                                                                                                  \
        void *by_name = dlsym(driver, #name), *linked = dlsym(RTLD_DEFAULT, #name), *asked = NULL, *old = NULL;        \
        int status;                                                                                                    \
        CUDA(cuGetProcAddress_v2)(base, &asked, version, flavour, &status);                                            \
        CUDA(cuGetProcAddress)(base, &old, version, flavour);                                                          \
        Dl_info where = {0};                                                                                           \
        dladdr(by_name, &where);                                                                                       \
        printf(#name "=%d%d%d%d\n", strstr(where.dli_fname, "limiter") != NULL, linked == by_name, asked == by_name,   \
               old == by_name);                                                                                        \
    }
    FOR_EACH_WRAPPED_CUDA(ROUTE)
    void *asked = NULL;
    int status = -1;
    printf("missing=%d", CUDA(cuGetProcAddress_v2)("cuNoSuchThing", &asked, 13000, 0, &status));
    printf(" %d %d\nabsent=%d\n", asked != NULL, status, dlsym(driver, "cuNoSuchThing") != NULL);
}

static void launches(int count, unsigned us, int streams) {
    CUstream handles[8] = {NULL};
    for (int index = 1; index < streams; index++) CUDA(cuStreamCreate)(&handles[index], 0);
    for (int index = 0; index < count; index++) {
        CUDA(cuLaunchKernel)(NULL, us, 1, 1, 1, 1, 1, 0, handles[index % streams], NULL, NULL);
        if (index % 8 == 7) for (int each = 0; each < streams; each++) CUDA(cuStreamSynchronize)(handles[each]);
    }
    for (int each = 0; each < streams; each++) CUDA(cuStreamSynchronize)(handles[each]);
}

static void capture(void) {
    CUstream stream;
    CUgraph graph;
    CUDA(cuStreamCreate)(&stream, 0);
    CUDA(cuLaunchKernel)(NULL, 10, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    CUDA(cuStreamBeginCapture_v2)(stream, 0);
    for (int index = 0; index < 1000; index++) CUDA(cuLaunchKernel)(NULL, 100, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
    CUDA(cuStreamEndCapture)(stream, &graph);
    CUDA(cuStreamDestroy_v2)(stream);
}

int main(int count, char **words) {
    (void)count;
    if (!strcmp(words[1], "race")) return race(atoi(words[2]), strtoull(words[3], NULL, 10)), 0;
    CUresult result = begin();
    if (result != CUDA_SUCCESS) return printf("context=%d\n", result), 0;
    if (!strcmp(words[1], "fill")) fill(words[2], strtoull(words[3], NULL, 10), strtoull(words[4], NULL, 10));
    if (!strcmp(words[1], "views")) show_views();
    if (!strcmp(words[1], "churn")) churn((unsigned)atoi(words[2]), atol(words[3]), strtoull(words[4], NULL, 10)), show_views();
    if (!strcmp(words[1], "threads")) threads(atoi(words[2]));
    if (!strcmp(words[1], "routes")) routes();
    if (!strcmp(words[1], "map")) map_blocks();
    if (!strcmp(words[1], "launch")) launches(atoi(words[2]), (unsigned)atoi(words[3]), atoi(words[4]));
    if (!strcmp(words[1], "capture")) capture();
    if (!strcmp(words[1], "wait")) {
        char line[16];
        show_views();
        fflush(stdout);
        while (fgets(line, sizeof line, stdin)) show_views(), fflush(stdout);
    }
    return 0;
}
