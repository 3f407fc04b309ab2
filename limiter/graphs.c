/* Memory that graphs allocate while they run. The driver takes it when an executable graph is first uploaded or
   launched and keeps it for the next; so a graph is charged then by the sum of its allocations, and put right by what
   the driver says it reserves for graphs. */
#include <stdlib.h>

#include "wrappers.h"

static struct ledger execs = LEDGER_INITIALIZER; /* executable graph -> bytes it allocates, until charged */
static _Atomic uint64_t charged[DEVICES_MAX];
static _Atomic bool has_allocations;

#define GRAPH_STEP (32ULL << 20) /* in which the driver takes memory for graphs, as measured */

/* Called under the memory lock; `charged` is swapped, so that two settlements count a change once. */
void graphs_settle(int device) {
    uint64_t reserved = 0;
    if (!atomic_load(&has_allocations)) return;
    if (REAL(cuDeviceGetGraphMemAttribute)(device, GRAPH_MEMORY_RESERVED_CURRENT, &reserved) != CUDA_SUCCESS) return;
    uint64_t before = atomic_exchange(&charged[device], reserved);
    atomic_fetch_add(&own_slot()->charged[device], reserved - before); /* wraps to a subtraction */
}

static uint64_t bytes_of_node(CUgraphNode node, int *device) {
    int type = -1;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {0};
    if (REAL(cuGraphNodeGetType)(node, &type) != CUDA_SUCCESS || type != GRAPH_NODE_MEMORY_ALLOCATION) return 0;
    if (REAL(cuGraphMemAllocNodeGetParams)(node, &params) != CUDA_SUCCESS) return 0;
    *device = params.pool.location.id;
    return params.bytes;
}

static uint64_t bytes_of_graph(CUgraph graph, int *device) {
    size_t count = 0;
    uint64_t bytes = 0;
    if (REAL(cuGraphGetNodes)(graph, NULL, &count) != CUDA_SUCCESS || count == 0) return 0;
    CUgraphNode *nodes = calloc(count, sizeof *nodes);
    if (nodes && REAL(cuGraphGetNodes)(graph, nodes, &count) == CUDA_SUCCESS)
        for (size_t index = 0; index < count; index++) bytes += bytes_of_node(nodes[index], device);
    free(nodes);
    return rounded_up(bytes, GRAPH_STEP);
}

static CUresult note(CUresult result, CUgraphExec *exec, CUgraph graph) {
    int device = 0;
    if (result != CUDA_SUCCESS || !limiter_is_on()) return result;
    uint64_t bytes = bytes_of_graph(graph, &device);
    if (bytes == 0 || device < 0 || device >= DEVICES_MAX) return result;
    atomic_store(&has_allocations, true);
    ledger_put(&execs, (uintptr_t)*exec, (struct ledger_entry){bytes, (uint64_t)device, NULL});
    return result;
}

/* Charge what the graph will take when it first runs. On success with bytes, graph_reserved must follow the call. */
CUresult graph_reserve(CUgraphExec exec, int *device, uint64_t *bytes) {
    struct ledger_entry entry;
    *bytes = 0;
    if (!atomic_load_explicit(&has_allocations, memory_order_relaxed)) return CUDA_SUCCESS;
    if (!ledger_take(&execs, (uintptr_t)exec, &entry)) return CUDA_SUCCESS;
    if (!memory_begin((int)entry.device, entry.bytes)) {
        ledger_put(&execs, (uintptr_t)exec, entry);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *device = (int)entry.device;
    *bytes = entry.bytes;
    return CUDA_SUCCESS;
}

void graph_reserved(int device, uint64_t bytes) {
    if (bytes == 0) return;
    graphs_settle(device);
    atomic_fetch_sub(&own_slot()->charged[device], bytes);
    memory_finish(CUDA_SUCCESS, device, 0);
}

EXPORTED CUresult cuGraphInstantiate_v2(CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t size) {
    return note(REAL(cuGraphInstantiate_v2)(exec, graph, node, log, size), exec, graph);
}

EXPORTED CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, uint64_t flags) {
    return note(REAL(cuGraphInstantiateWithFlags)(exec, graph, flags), exec, graph);
}

EXPORTED CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, void *params) {
    return note(REAL(cuGraphInstantiateWithParams)(exec, graph, params), exec, graph);
}

EXPORTED CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *exec, CUgraph graph, void *params) {
    return note(REAL(cuGraphInstantiateWithParams_ptsz)(exec, graph, params), exec, graph);
}

EXPORTED CUresult cuGraphExecDestroy(CUgraphExec exec) {
    struct ledger_entry entry;
    if (limiter_is_on()) ledger_take(&execs, (uintptr_t)exec, &entry);
    return REAL(cuGraphExecDestroy)(exec);
}

EXPORTED CUresult cuDeviceGraphMemTrim(CUdevice device) {
    if (!limiter_is_on() || device < 0 || device >= DEVICES_MAX) return REAL(cuDeviceGraphMemTrim)(device);
    memory_release_begin();
    CUresult result = REAL(cuDeviceGraphMemTrim)(device);
    graphs_settle(device);
    memory_release_finish(result, 0, 0);
    return result;
}
