/* What NVML shows: to the application its share and its own processes, to the limiter what its process really uses.
   nvidia-smi finds these functions through dlsym. */
#include <stdio.h>
#include <string.h>

#include "wrappers.h"

static void uuid_text(const CUuuid *uuid, char *text) {
    const unsigned char *b = (const unsigned char *)uuid->bytes;
    snprintf(text, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2], b[3],
             b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* NVML's handle of a CUDA device: the two number cards differently, so it goes by their UUID, which is also left in
   the region for processes that have no CUDA. */
static nvmlDevice_t handle_of(int device) {
    static _Atomic(nvmlDevice_t) handles[DEVICES_MAX];
    nvmlDevice_t handle = atomic_load(&handles[device]);
    CUuuid uuid;
    if (handle || REAL(cuDeviceGetUuid)(&uuid, device) != CUDA_SUCCESS) return handle;
    char *text = own_region()->devices[device].uuid;
    uuid_text(&uuid, text);
    if (REAL(nvmlInit_v2)() != NVML_SUCCESS || REAL(nvmlDeviceGetHandleByUUID)(text, &handle) != NVML_SUCCESS) return NULL;
    atomic_store(&handles[device], handle);
    return handle;
}

#define PROCESSES_MAX 512

bool nvml_used_by_process(int device, unsigned pid, uint64_t *bytes) {
    nvmlDevice_t handle = handle_of(device);
    if (!handle) return false;
    unsigned count = PROCESSES_MAX;
    nvmlProcessInfo_v2_t processes[PROCESSES_MAX];
    if (REAL(nvmlDeviceGetComputeRunningProcesses_v3)(handle, &count, processes) != NVML_SUCCESS) return false;
    for (unsigned index = 0; index < count && index < PROCESSES_MAX; index++) {
        if (processes[index].pid != pid || processes[index].used == UINT64_MAX) continue;
        *bytes = processes[index].used;
        return true;
    }
    return false;
}

/* The limited device that this handle is, -1 where none is. Where no process has used CUDA yet, a container's cards
   are numbered as NVML numbers them. */
static int device_of(nvmlDevice_t handle) {
    if (!limiter_is_on()) return -1;
    char uuid[96] = "";
    unsigned number = DEVICES_MAX;
    if (REAL(nvmlDeviceGetUUID)(handle, uuid, sizeof uuid) == NVML_SUCCESS)
        for (int device = 0; device < DEVICES_MAX; device++)
            if (*uuid && strncmp(uuid, own_region()->devices[device].uuid, 48) == 0) return device;
    if (REAL(nvmlDeviceGetIndex)(handle, &number) != NVML_SUCCESS || number >= DEVICES_MAX) return -1;
    return own_region()->devices[number].uuid[0] ? -1 : (int)number;
}

struct share { unsigned long long *total, *free, *used; };

static void show_share(nvmlDevice_t handle, struct share share) {
    int device = device_of(handle);
    if (device < 0 || memory_limit(device) >= *share.total) return;
    region_reap(own_region());
    uint64_t limit = memory_limit(device), used = memory_used(device);
    *share.total = limit;
    *share.used = used < limit ? used : limit;
    uint64_t left = limit - *share.used;
    if (left < *share.free) *share.free = left;
}

EXPORTED nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlReturn_t result = REAL(nvmlDeviceGetMemoryInfo)(device, memory);
    if (result == NVML_SUCCESS) show_share(device, (struct share){&memory->total, &memory->free, &memory->used});
    return result;
}

EXPORTED nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlReturn_t result = REAL(nvmlDeviceGetMemoryInfo_v2)(device, memory);
    if (result != NVML_SUCCESS) return result;
    unsigned long long whole = memory->total;
    show_share(device, (struct share){&memory->total, &memory->free, &memory->used});
    if (memory->total != whole) memory->reserved = 0; /* the card's own part lies outside of the share */
    return result;
}

EXPORTED nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *processes) {
    nvmlReturn_t result = REAL(nvmlDeviceGetComputeRunningProcesses)(device, count, processes);
    if (result != NVML_SUCCESS || !processes || device_of(device) < 0) return result;
    unsigned kept = 0;
    for (unsigned index = 0; index < *count; index++)
        if (region_has_process(own_region(), processes[index].pid)) processes[kept++] = processes[index];
    *count = kept;
    return result;
}

static void keep_own(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *processes) {
    if (!processes || device_of(device) < 0) return;
    unsigned kept = 0;
    for (unsigned index = 0; index < *count; index++)
        if (region_has_process(own_region(), processes[index].pid)) processes[kept++] = processes[index];
    *count = kept;
}

EXPORTED nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *processes) {
    nvmlReturn_t result = REAL(nvmlDeviceGetComputeRunningProcesses_v2)(device, count, processes);
    if (result == NVML_SUCCESS) keep_own(device, count, processes);
    return result;
}

EXPORTED nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *processes) {
    nvmlReturn_t result = REAL(nvmlDeviceGetComputeRunningProcesses_v3)(device, count, processes);
    if (result == NVML_SUCCESS) keep_own(device, count, processes);
    return result;
}
