/* Contexts: each takes memory of the card by itself, which is charged before it is made by what the last one took, and
   afterwards by what NVML shows. They come before anything else on a card, so the helper thread starts here. */
#include "wrappers.h"

static uint64_t expected_bytes(int device) { return atomic_load(&own_region()->devices[device].context_bytes); }

static _Atomic(CUcontext) primary[DEVICES_MAX];

/* Until NVML was asked the charge stands as part of the residual. */
static void context_made(CUresult result, int device, uint64_t bytes) {
    struct region_slot *slot = own_slot();
    if (result == CUDA_SUCCESS) atomic_fetch_add(&slot->residual[device], bytes);
    memory_finish(result, device, bytes);
    if (result != CUDA_SUCCESS) return;
    uint64_t before = atomic_load(&slot->residual[device]) - bytes;
    memory_settle(device);
    uint64_t after = atomic_load(&slot->residual[device]), taken = after > before ? after - before : 0;
    if (taken) atomic_store(&own_region()->devices[device].context_bytes, taken);
    keeper_start();
}

static bool is_counted(CUdevice device) { return limiter_is_on() && device >= 0 && device < DEVICES_MAX; }

EXPORTED CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device) {
    if (!is_counted(device)) return REAL(cuCtxCreate_v2)(context, flags, device);
    uint64_t bytes = expected_bytes(device);
    if (!memory_begin(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuCtxCreate_v2)(context, flags, device);
    context_made(result, device, bytes);
    return result;
}

EXPORTED CUresult cuCtxCreate_v3(CUcontext *context, void *affinity, int count, unsigned flags, CUdevice device) {
    if (!is_counted(device)) return REAL(cuCtxCreate_v3)(context, affinity, count, flags, device);
    uint64_t bytes = expected_bytes(device);
    if (!memory_begin(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuCtxCreate_v3)(context, affinity, count, flags, device);
    context_made(result, device, bytes);
    return result;
}

EXPORTED CUresult cuCtxCreate_v4(CUcontext *context, void *params, unsigned flags, CUdevice device) {
    if (!is_counted(device)) return REAL(cuCtxCreate_v4)(context, params, flags, device);
    uint64_t bytes = expected_bytes(device);
    if (!memory_begin(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuCtxCreate_v4)(context, params, flags, device);
    context_made(result, device, bytes);
    return result;
}

static bool has_primary(CUdevice device) {
    unsigned flags = 0;
    int is_active = 0;
    return REAL(cuDevicePrimaryCtxGetState)(device, &flags, &is_active) == CUDA_SUCCESS && is_active;
}

EXPORTED CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    if (!is_counted(device) || has_primary(device)) return REAL(cuDevicePrimaryCtxRetain)(context, device);
    uint64_t bytes = expected_bytes(device);
    if (!memory_begin(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = REAL(cuDevicePrimaryCtxRetain)(context, device);
    if (result == CUDA_SUCCESS) atomic_store(&primary[device], *context);
    context_made(result, device, bytes);
    return result;
}

static void context_gone(CUcontext context, int device) {
    memory_forget_context(context, device);
    memory_settle(device);
}

EXPORTED CUresult cuCtxDestroy_v2(CUcontext context) {
    if (!limiter_is_on()) return REAL(cuCtxDestroy_v2)(context);
    meter_forget_context(context);
    CUcontext before = NULL;
    REAL(cuCtxGetCurrent)(&before);
    if (before != context) REAL(cuCtxSetCurrent)(context);
    int device = current_device();
    if (before != context) REAL(cuCtxSetCurrent)(before);
    CUresult result = REAL(cuCtxDestroy_v2)(context);
    if (result == CUDA_SUCCESS && device >= 0) context_gone(context, device);
    return result;
}

EXPORTED CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    if (!is_counted(device)) return REAL(cuDevicePrimaryCtxRelease_v2)(device);
    meter_forget_context(atomic_load(&primary[device]));
    CUresult result = REAL(cuDevicePrimaryCtxRelease_v2)(device);
    if (result == CUDA_SUCCESS && !has_primary(device)) context_gone(atomic_load(&primary[device]), device);
    return result;
}

EXPORTED CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    if (!is_counted(device)) return REAL(cuDevicePrimaryCtxReset_v2)(device);
    meter_forget_context(atomic_load(&primary[device]));
    CUresult result = REAL(cuDevicePrimaryCtxReset_v2)(device);
    if (result == CUDA_SUCCESS) context_gone(atomic_load(&primary[device]), device);
    return result;
}
