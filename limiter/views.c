/* What CUDA tells the application about the size of its card: its share. */
#include "wrappers.h"

EXPORTED CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
    CUresult result = REAL(cuMemGetInfo_v2)(free, total);
    int device = result == CUDA_SUCCESS && free && total && limiter_is_on() ? current_device() : -1;
    if (device < 0 || memory_limit(device) >= *total) return result;
    memory_release_begin();
    pools_settle(device);
    memory_release_finish(CUDA_SUCCESS, 0, 0);
    uint64_t limit = memory_limit(device), used = memory_used(device), left = used < limit ? limit - used : 0;
    *total = limit;
    if (left < *free) *free = left;
    return result;
}

EXPORTED CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    CUresult result = REAL(cuDeviceTotalMem_v2)(bytes, device);
    bool is_limited = result == CUDA_SUCCESS && bytes && limiter_is_on() && device >= 0 && device < DEVICES_MAX;
    if (is_limited && memory_limit(device) < *bytes) *bytes = memory_limit(device);
    return result;
}
