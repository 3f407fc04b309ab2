/* The part of the CUDA driver's and NVML's binary interface that the limiter meets: types, numbers and prototypes.
   Written from the documented interface, so that building needs no vendor headers. Included by every file. */
#ifndef MUSTER_CUDA_ABI_H
#define MUSTER_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUfunc_st *CUfunction;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUmemPool_st *CUmemoryPool;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct { char bytes[16]; } CUuuid;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NOT_FOUND = 500,
};

enum { GET_PROC_LEGACY_STREAM = 1, GET_PROC_PER_THREAD_STREAM = 2 };
enum { LOCATION_DEVICE = 1 };
enum { POOL_RESERVED_CURRENT = 5, POOL_USED_CURRENT = 7 };
enum { GRAPH_MEMORY_RESERVED_CURRENT = 2 };
enum { GRAPH_NODE_MEMORY_ALLOCATION = 10 };
enum { CAPTURE_MODE_RELAXED = 2 };
enum { ARRAY_SPARSE = 0x40, ARRAY_DEFERRED_MAPPING = 0x80 };

#define STREAM_PER_THREAD ((CUstream)2)

typedef struct { int type; int id; } CUmemLocation;

typedef struct {
    int type;
    int requested_handle_types;
    CUmemLocation location;
    void *win32_metadata;
    unsigned char flags[8];
} CUmemAllocationProp;

typedef struct {
    int allocation_type;
    int handle_types;
    CUmemLocation location;
    void *win32_attributes;
    size_t max_size;
    unsigned char reserved[56];
} CUmemPoolProps;

typedef struct { size_t width, height; int format; unsigned channels; } CUDA_ARRAY_DESCRIPTOR;
typedef struct { size_t width, height, depth; int format; unsigned channels; unsigned flags; } CUDA_ARRAY3D_DESCRIPTOR;

typedef struct {
    unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    CUstream stream;
    void *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

typedef struct {
    CUmemPoolProps pool;
    const void *access;
    size_t access_count;
    size_t bytes;
    CUdeviceptr pointer;
} CUDA_MEM_ALLOC_NODE_PARAMS;

typedef int nvmlReturn_t;
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;
typedef struct { unsigned pid; unsigned long long used; } nvmlProcessInfo_v1_t;
typedef struct { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; } nvmlProcessInfo_v2_t;
enum { NVML_SUCCESS = 0, NVML_INSUFFICIENT_SIZE = 7 };

/* What the limiter calls and does not replace. */
CUresult cuCtxGetCurrent(CUcontext *context);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuCtxGetDevice(CUdevice *device);
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *is_active);
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
CUresult cuMemFreeAsync(CUdeviceptr pointer, CUstream stream);
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, void *value);
CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
CUresult cuGraphNodeGetType(CUgraphNode node, int *type);
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *params);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuStreamQuery(CUstream stream);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end);
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned size);
nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index);

#endif
