/* A stand-in for libnvidia-ml.so.1 over the card that fake_cuda.c counts on. Built and loaded by tests/limiter. */
#include "fake_card.h"

#include <stdio.h>
#include <string.h>

#include "../../limiter/wrappers.h"

struct nvmlDevice_st { int index; };
static struct nvmlDevice_st the_device;

nvmlReturn_t nvmlInit_v2(void) { return 0; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) { *device = &the_device; return index ? 6 : 0; }
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) { *device = &the_device; return strncmp(uuid, "GPU-abab", 8) ? 6 : 0; }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size) { (void)device; snprintf(uuid, size, "GPU-abababab-abab-abab-abab-abababababab"); return 0; }
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) { (void)device; *index = 0; return 0; }
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    (void)device;
    uint64_t used = atomic_load(&card()->used);
    *memory = (nvmlMemory_t){CARD_BYTES, CARD_BYTES - used, used};
    return 0;
}
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    (void)device;
    uint64_t used = atomic_load(&card()->used);
    *memory = (nvmlMemory_v2_t){2, CARD_BYTES, 1 << 20, CARD_BYTES - used, used};
    return 0;
}
static nvmlReturn_t list(unsigned *count, nvmlProcessInfo_v2_t *processes) {
    unsigned found = 0;
    for (int index = 0; index < CARD_PROCESSES; index++) {
        uint32_t pid = atomic_load(&card()->processes[index].pid);
        if (!pid) continue;
        if (processes && found < *count) processes[found] = (nvmlProcessInfo_v2_t){pid, atomic_load(&card()->processes[index].used), 0, 0};
        found++;
    }
    nvmlReturn_t result = found > *count ? NVML_INSUFFICIENT_SIZE : NVML_SUCCESS;
    *count = found;
    return result;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *processes) { (void)device; return list(count, processes); }
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *processes) { (void)device; return list(count, processes); }
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *processes) { (void)device; (void)processes; *count = 0; return 0; }
