/* The tables of driver functions: which the limiter replaces and which it only calls. Read by hook.c, and by every
   wrapper through REAL(name).

   WRAPPED(name, base, version, flavour): `name` is the exported symbol; `base`, `version` and `flavour` are what
   cuGetProcAddress is asked to get that very function, `version` being the CUDA release that brought it. */
#ifndef MUSTER_ENTRIES_H
#define MUSTER_ENTRIES_H

#define BOTH 0
#define LEGACY GET_PROC_LEGACY_STREAM
#define PER_THREAD GET_PROC_PER_THREAD_STREAM

#define FOR_EACH_WRAPPED_CUDA(WRAPPED)                                                       \
    WRAPPED(cuGetProcAddress, "cuGetProcAddress", 11030, BOTH)                               \
    WRAPPED(cuGetProcAddress_v2, "cuGetProcAddress", 12000, BOTH)                            \
    WRAPPED(cuMemAlloc_v2, "cuMemAlloc", 3020, BOTH)                                         \
    WRAPPED(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, BOTH)                               \
    WRAPPED(cuMemAllocManaged, "cuMemAllocManaged", 6000, BOTH)                              \
    WRAPPED(cuMemFree_v2, "cuMemFree", 3020, BOTH)                                           \
    WRAPPED(cuArrayCreate_v2, "cuArrayCreate", 3020, BOTH)                                   \
    WRAPPED(cuArray3DCreate_v2, "cuArray3DCreate", 3020, BOTH)                               \
    WRAPPED(cuArrayDestroy, "cuArrayDestroy", 2000, BOTH)                                    \
    WRAPPED(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, BOTH)                    \
    WRAPPED(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, BOTH)                  \
    WRAPPED(cuMemAllocAsync, "cuMemAllocAsync", 11020, LEGACY)                               \
    WRAPPED(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, PER_THREAD)                      \
    WRAPPED(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, LEGACY)               \
    WRAPPED(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, PER_THREAD)      \
    WRAPPED(cuMemPoolCreate, "cuMemPoolCreate", 11020, BOTH)                                 \
    WRAPPED(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, BOTH)                               \
    WRAPPED(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, BOTH)                                 \
    WRAPPED(cuMemCreate, "cuMemCreate", 10020, BOTH)                                         \
    WRAPPED(cuMemRelease, "cuMemRelease", 10020, BOTH)                                       \
    WRAPPED(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, BOTH)         \
    WRAPPED(cuMemMap, "cuMemMap", 10020, BOTH)                                               \
    WRAPPED(cuMemUnmap, "cuMemUnmap", 10020, BOTH)                                           \
    WRAPPED(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, BOTH)                        \
    WRAPPED(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, BOTH)         \
    WRAPPED(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, LEGACY)     \
    WRAPPED(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, PER_THREAD) \
    WRAPPED(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, BOTH)                           \
    WRAPPED(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, BOTH)                       \
    WRAPPED(cuGraphLaunch, "cuGraphLaunch", 10000, LEGACY)                                   \
    WRAPPED(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, PER_THREAD)                          \
    WRAPPED(cuGraphUpload, "cuGraphUpload", 11010, LEGACY)                                   \
    WRAPPED(cuGraphUpload_ptsz, "cuGraphUpload", 11010, PER_THREAD)                          \
    WRAPPED(cuLaunchKernel, "cuLaunchKernel", 4000, LEGACY)                                  \
    WRAPPED(cuLaunchKernel_ptsz, "cuLaunchKernel", 7000, PER_THREAD)                         \
    WRAPPED(cuLaunchKernelEx, "cuLaunchKernelEx", 11060, LEGACY)                             \
    WRAPPED(cuLaunchKernelEx_ptsz, "cuLaunchKernelEx", 11060, PER_THREAD)                    \
    WRAPPED(cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel", 9000, LEGACY)            \
    WRAPPED(cuLaunchCooperativeKernel_ptsz, "cuLaunchCooperativeKernel", 9000, PER_THREAD)   \
    WRAPPED(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, LEGACY)                  \
    WRAPPED(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010, PER_THREAD)         \
    WRAPPED(cuStreamEndCapture, "cuStreamEndCapture", 10000, LEGACY)                         \
    WRAPPED(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000, PER_THREAD)                \
    WRAPPED(cuStreamDestroy_v2, "cuStreamDestroy", 4000, BOTH)                               \
    WRAPPED(cuCtxCreate_v2, "cuCtxCreate", 3020, BOTH)                                       \
    WRAPPED(cuCtxCreate_v3, "cuCtxCreate", 11040, BOTH)                                      \
    WRAPPED(cuCtxCreate_v4, "cuCtxCreate", 12050, BOTH)                                      \
    WRAPPED(cuCtxDestroy_v2, "cuCtxDestroy", 4000, BOTH)                                     \
    WRAPPED(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, BOTH)                \
    WRAPPED(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, BOTH)          \
    WRAPPED(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, BOTH)              \
    WRAPPED(cuMemGetInfo_v2, "cuMemGetInfo", 3020, BOTH)                                     \
    WRAPPED(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, BOTH)

#define FOR_EACH_WRAPPED_NVML(WRAPPED)                                                       \
    WRAPPED(nvmlDeviceGetMemoryInfo, "", 0, BOTH)                                            \
    WRAPPED(nvmlDeviceGetMemoryInfo_v2, "", 0, BOTH)                                         \
    WRAPPED(nvmlDeviceGetComputeRunningProcesses, "", 0, BOTH)                               \
    WRAPPED(nvmlDeviceGetComputeRunningProcesses_v2, "", 0, BOTH)                            \
    WRAPPED(nvmlDeviceGetComputeRunningProcesses_v3, "", 0, BOTH)

#define FOR_EACH_CALLED_CUDA(CALLED)                                                         \
    CALLED(cuCtxGetCurrent) CALLED(cuCtxSetCurrent) CALLED(cuCtxGetDevice) CALLED(cuDeviceGetUuid) \
    CALLED(cuDevicePrimaryCtxGetState) CALLED(cuDeviceGetDefaultMemPool) CALLED(cuDeviceGetMemPool) \
    CALLED(cuMemPoolGetAttribute) CALLED(cuMemFreeAsync) CALLED(cuDeviceGetGraphMemAttribute) \
    CALLED(cuGraphGetNodes) CALLED(cuGraphNodeGetType) CALLED(cuGraphMemAllocNodeGetParams)  \
    CALLED(cuStreamIsCapturing) CALLED(cuStreamQuery) CALLED(cuThreadExchangeStreamCaptureMode) \
    CALLED(cuEventCreate) CALLED(cuEventRecord) CALLED(cuEventQuery) CALLED(cuEventElapsedTime)

#define FOR_EACH_CALLED_NVML(CALLED)                                                         \
    CALLED(nvmlInit_v2) CALLED(nvmlDeviceGetHandleByUUID) CALLED(nvmlDeviceGetUUID) CALLED(nvmlDeviceGetIndex)

#define ENTRY_OF_WRAPPED(name, base, version, flavour) ENTRY_##name,
#define ENTRY_OF_CALLED(name) ENTRY_##name,
enum entry {
    FOR_EACH_WRAPPED_CUDA(ENTRY_OF_WRAPPED)
    FIRST_WRAPPED_NVML,
    BEFORE_WRAPPED_NVML = FIRST_WRAPPED_NVML - 1,
    FOR_EACH_WRAPPED_NVML(ENTRY_OF_WRAPPED)
    FIRST_CALLED_CUDA,
    BEFORE_CALLED_CUDA = FIRST_CALLED_CUDA - 1,
    FOR_EACH_CALLED_CUDA(ENTRY_OF_CALLED)
    FIRST_CALLED_NVML,
    BEFORE_CALLED_NVML = FIRST_CALLED_NVML - 1,
    FOR_EACH_CALLED_NVML(ENTRY_OF_CALLED)
    ENTRY_COUNT
};

#endif
