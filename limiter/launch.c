/* The launches. Without a limit on compute each costs one branch. */
#include "wrappers.h"

static bool is_metered(void) { return __builtin_expect(atomic_load_explicit(&compute_is_limited, memory_order_relaxed), 0); }

static CUstream per_thread(CUstream stream) { return stream ? stream : STREAM_PER_THREAD; }

/* The same function over another grid is another amount of work. */
static uint64_t key_of(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z) {
    uint64_t key = (uintptr_t)function;
    key = (key ^ grid_x) * 0xff51afd7ed558ccdULL;
    key = (key ^ grid_y) * 0xff51afd7ed558ccdULL;
    return (key ^ grid_z) * 0xff51afd7ed558ccdULL;
}

/* Each flavour calls its own function of the driver; the meter is told the stream that is meant. */
#define METERED(key, stream, call)                          \
    do {                                                    \
        struct ticket ticket = meter_before(key, (stream)); \
        CUresult result = call;                             \
        meter_after(&ticket, (stream));                     \
        return result;                                      \
    } while (0)

#define GRID unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z
#define GRID_VALUES grid_x, grid_y, grid_z, block_x, block_y, block_z

EXPORTED CUresult cuLaunchKernel(CUfunction function, GRID, unsigned shared, CUstream stream, void **params, void **extra) {
    if (!is_metered()) return REAL(cuLaunchKernel)(function, GRID_VALUES, shared, stream, params, extra);
    METERED(key_of(function, grid_x, grid_y, grid_z), stream,
            REAL(cuLaunchKernel)(function, GRID_VALUES, shared, stream, params, extra));
}

EXPORTED CUresult cuLaunchKernel_ptsz(CUfunction function, GRID, unsigned shared, CUstream stream, void **params, void **extra) {
    if (!is_metered()) return REAL(cuLaunchKernel_ptsz)(function, GRID_VALUES, shared, stream, params, extra);
    METERED(key_of(function, grid_x, grid_y, grid_z), per_thread(stream),
            REAL(cuLaunchKernel_ptsz)(function, GRID_VALUES, shared, stream, params, extra));
}

EXPORTED CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    if (!is_metered() || !config) return REAL(cuLaunchKernelEx)(config, function, params, extra);
    METERED(key_of(function, config->grid_x, config->grid_y, config->grid_z), config->stream,
            REAL(cuLaunchKernelEx)(config, function, params, extra));
}

EXPORTED CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction function, void **params, void **extra) {
    if (!is_metered() || !config) return REAL(cuLaunchKernelEx_ptsz)(config, function, params, extra);
    METERED(key_of(function, config->grid_x, config->grid_y, config->grid_z), per_thread(config->stream),
            REAL(cuLaunchKernelEx_ptsz)(config, function, params, extra));
}

EXPORTED CUresult cuLaunchCooperativeKernel(CUfunction function, GRID, unsigned shared, CUstream stream, void **params) {
    if (!is_metered()) return REAL(cuLaunchCooperativeKernel)(function, GRID_VALUES, shared, stream, params);
    METERED(key_of(function, grid_x, grid_y, grid_z), stream,
            REAL(cuLaunchCooperativeKernel)(function, GRID_VALUES, shared, stream, params));
}

EXPORTED CUresult cuLaunchCooperativeKernel_ptsz(CUfunction function, GRID, unsigned shared, CUstream stream, void **params) {
    if (!is_metered()) return REAL(cuLaunchCooperativeKernel_ptsz)(function, GRID_VALUES, shared, stream, params);
    METERED(key_of(function, grid_x, grid_y, grid_z), per_thread(stream),
            REAL(cuLaunchCooperativeKernel_ptsz)(function, GRID_VALUES, shared, stream, params));
}

/* Graphs: one launch is one stretch of work, and the first may take memory. */
static CUresult launch_graph(CUgraphExec exec, CUstream stream, CUstream meant, enum entry entry) {
    CUresult (*launch)(CUgraphExec, CUstream) = (CUresult (*)(CUgraphExec, CUstream))real_function(entry);
    int device = 0;
    uint64_t bytes;
    struct ticket ticket = {NULL, NULL, false};
    if (is_metered()) ticket = meter_before((uintptr_t)exec, meant);
    CUresult result = graph_reserve(exec, &device, &bytes);
    if (result == CUDA_SUCCESS) {
        result = launch(exec, stream);
        graph_reserved(device, bytes);
    }
    meter_after(&ticket, meant);
    return result;
}

EXPORTED CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    return launch_graph(exec, stream, stream, ENTRY_cuGraphLaunch);
}

EXPORTED CUresult cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
    return launch_graph(exec, stream, per_thread(stream), ENTRY_cuGraphLaunch_ptsz);
}

static CUresult upload_graph(CUgraphExec exec, CUstream stream, enum entry entry) {
    CUresult (*upload)(CUgraphExec, CUstream) = (CUresult (*)(CUgraphExec, CUstream))real_function(entry);
    int device = 0;
    uint64_t bytes;
    CUresult result = graph_reserve(exec, &device, &bytes);
    if (result != CUDA_SUCCESS) return result;
    result = upload(exec, stream);
    graph_reserved(device, bytes);
    return result;
}

EXPORTED CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) { return upload_graph(exec, stream, ENTRY_cuGraphUpload); }

EXPORTED CUresult cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
    return upload_graph(exec, stream, ENTRY_cuGraphUpload_ptsz);
}

/* Streams -------------------------------------------------------------------------------------------------------- */

static CUresult began(CUresult result) {
    if (result != CUDA_SUCCESS) meter_capture_ended();
    return result;
}

EXPORTED CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
    meter_capture_begins();
    return began(REAL(cuStreamBeginCapture_v2)(stream, mode));
}

EXPORTED CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, int mode) {
    meter_capture_begins();
    return began(REAL(cuStreamBeginCapture_v2_ptsz)(stream, mode));
}

EXPORTED CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    CUresult result = REAL(cuStreamEndCapture)(stream, graph);
    meter_capture_ended();
    return result;
}

EXPORTED CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    CUresult result = REAL(cuStreamEndCapture_ptsz)(stream, graph);
    meter_capture_ended();
    return result;
}

EXPORTED CUresult cuStreamDestroy_v2(CUstream stream) {
    meter_forget_stream(stream);
    return REAL(cuStreamDestroy_v2)(stream);
}
