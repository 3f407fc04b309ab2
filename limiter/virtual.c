/* Virtual memory management: physical blocks by handle, mapped anywhere. A block is charged when it is made and given
   back when neither a handle nor a mapping holds it, as the driver keeps it. */
#include <stdlib.h>

#include "wrappers.h"

struct block { uint64_t bytes; int device; int holders; };

static struct ledger handles = LEDGER_INITIALIZER;  /* handle -> its block */
static struct ledger mappings = LEDGER_INITIALIZER; /* address -> its block; `device` holds the mapping's length */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct block *block_of(struct ledger_entry entry) { return (struct block *)(uintptr_t)entry.bytes; }

/* One holder less; the bytes that this frees. */
static uint64_t let_go(struct block *block, int *device) {
    pthread_mutex_lock(&lock);
    bool is_last = --block->holders == 0;
    pthread_mutex_unlock(&lock);
    uint64_t bytes = is_last ? block->bytes : 0;
    *device = block->device;
    if (is_last) free(block);
    return bytes;
}

static void hold(struct block *block) {
    pthread_mutex_lock(&lock);
    block->holders++;
    pthread_mutex_unlock(&lock);
}

static void give_back(int device, uint64_t bytes) {
    if (bytes) atomic_fetch_sub(&own_slot()->charged[device], bytes);
}

EXPORTED CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop, uint64_t flags) {
    bool is_counted = limiter_is_on() && handle && prop && prop->location.type == LOCATION_DEVICE &&
                      prop->location.id >= 0 && prop->location.id < DEVICES_MAX;
    struct block *block = is_counted ? malloc(sizeof *block) : NULL;
    if (!block) return REAL(cuMemCreate)(handle, bytes, prop, flags);
    int device = prop->location.id;
    *block = (struct block){bytes, device, 1};
    if (!memory_begin(device, bytes)) {
        free(block);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = REAL(cuMemCreate)(handle, bytes, prop, flags);
    if (result == CUDA_SUCCESS) ledger_put(&handles, *handle, (struct ledger_entry){(uintptr_t)block, 0, NULL});
    else free(block);
    memory_finish(result, device, bytes);
    return result;
}

/* A handle that was retained stands once for each time; the driver counts those itself, so it is known until the last
   release: the entry's second number is how many more there are. */
EXPORTED CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    struct ledger_entry entry;
    if (!limiter_is_on()) return REAL(cuMemRelease)(handle);
    memory_release_begin();
    bool is_known = ledger_take(&handles, handle, &entry);
    CUresult result = REAL(cuMemRelease)(handle);
    if (is_known && (result != CUDA_SUCCESS || entry.device > 0)) {
        if (result == CUDA_SUCCESS) entry.device--;
        ledger_put(&handles, handle, entry);
    } else if (is_known) {
        int device;
        uint64_t bytes = let_go(block_of(entry), &device);
        give_back(device, bytes);
    }
    memory_release_finish(result, 0, 0);
    return result;
}

EXPORTED CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
    CUresult result = REAL(cuMemRetainAllocationHandle)(handle, address);
    struct ledger_entry entry, mapping;
    if (result != CUDA_SUCCESS || !limiter_is_on()) return result;
    if (ledger_take(&handles, *handle, &entry)) {
        entry.device++;
        ledger_put(&handles, *handle, entry);
    } else if (ledger_get(&mappings, (uintptr_t)address, &mapping)) {
        hold(block_of(mapping));
        ledger_put(&handles, *handle, (struct ledger_entry){mapping.bytes, 0, NULL});
    }
    return result;
}

EXPORTED CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, uint64_t flags) {
    CUresult result = REAL(cuMemMap)(pointer, bytes, offset, handle, flags);
    struct ledger_entry entry;
    if (result != CUDA_SUCCESS || !limiter_is_on() || !ledger_get(&handles, handle, &entry)) return result;
    hold(block_of(entry));
    ledger_put(&mappings, pointer, (struct ledger_entry){entry.bytes, bytes, NULL});
    return result;
}

/* One call may end many mappings that lie side by side. */
EXPORTED CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
    if (!limiter_is_on()) return REAL(cuMemUnmap)(pointer, bytes);
    memory_release_begin();
    CUresult result = REAL(cuMemUnmap)(pointer, bytes);
    struct ledger_entry mapping;
    for (size_t done = 0; result == CUDA_SUCCESS && done < bytes; done += mapping.device) {
        if (!ledger_take(&mappings, pointer + done, &mapping) || mapping.device == 0) break;
        int device;
        uint64_t freed = let_go(block_of(mapping), &device);
        give_back(device, freed);
    }
    memory_release_finish(result, 0, 0);
    return result;
}
