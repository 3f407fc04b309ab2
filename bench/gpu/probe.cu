// Measures what a limit on a card costs and how exactly it holds. One task a run, one name=value a line; measure.py
// builds it with nvcc, runs it under each setting and keeps the figures.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;

static double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

__global__ void nothing() {}

__global__ void arithmetic(float *out, int rounds) {  // the same work on every multiprocessor
  float x = threadIdx.x, y = blockIdx.x;
  for (int i = 0; i < rounds; i++) { x = x * 1.0001f + y; y = y * 0.9999f + x; }
  if (x == 12345.f) out[0] = y;
}

static void launch_cost() {
  for (int i = 0; i < 5000; i++) nothing<<<1, 1>>>();
  cudaDeviceSynchronize();
  double best = 1e9;
  for (int run = 0; run < 25; run++) {  // the least of several: others on the machine only add
    const int count = 20000;
    auto start = Clock::now();
    for (int i = 0; i < count; i++) { nothing<<<1, 1>>>(); if (i % 500 == 0) cudaDeviceSynchronize(); }
    cudaDeviceSynchronize();
    double each = seconds_since(start) / count * 1e9;
    if (each < best) best = each;
  }
  printf("launch_ns=%.0f\n", best);
}

// What a preloaded library adds to a launch: its function and the driver's own by turns in one process, since two
// processes differ by more than that.
static void launch_overhead() {
  using Launch = CUresult (*)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **);
  using Lookup = void *(*)(void *, const char *);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *libc = dlopen("libc.so.6", RTLD_NOW);
  auto lookup = (Lookup)dlvsym(libc, "dlsym", "GLIBC_2.34"); if (!lookup) lookup = (Lookup)dlvsym(libc, "dlsym", "GLIBC_2.2.5");
  Launch launches[2] = {(Launch)lookup(driver, "cuLaunchKernel"), (Launch)dlsym(driver, "cuLaunchKernel")};
  cudaFunction_t function; cudaGetFuncBySymbol(&function, (const void *)nothing);
  std::vector<double> times[2];
  for (int block = 0; block < 60; block++) {
    auto launch = launches[block % 2]; const int count = 10000; cudaDeviceSynchronize(); auto start = Clock::now();
    for (int i = 0; i < count; i++) { launch((CUfunction)function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr); if (i % 500 == 0) cudaDeviceSynchronize(); }
    times[block % 2].push_back(seconds_since(start) / count * 1e9);
  }
  for (auto &each : times) std::sort(each.begin(), each.end());
  double plain = times[0][times[0].size() / 2], wrapped = times[1][times[1].size() / 2];
  printf("is_wrapped=%d\ndriver_ns=%.1f\nwrapped_ns=%.1f\nadded_ns=%.1f\nadded_percent=%.2f\n", launches[0] != launches[1], plain, wrapped, wrapped - plain, 100 * (wrapped / plain - 1));
}

static void small_kernels(double seconds) {  // kernels of about 5 us, one after the other
  float *out; cudaMalloc(&out, 4);
  for (int i = 0; i < 1000; i++) arithmetic<<<132, 256>>>(out, 800);
  cudaDeviceSynchronize();
  auto start = Clock::now(); long count = 0;
  while (seconds_since(start) < seconds) { for (int i = 0; i < 200; i++, count++) arithmetic<<<132, 256>>>(out, 800); cudaDeviceSynchronize(); }
  printf("small_per_s=%.0f\n", count / seconds_since(start));
}

static void allocation_cost() {
  void *p; cudaMalloc(&p, 2 << 20); cudaFree(p);
  const int count = 3000; auto start = Clock::now();
  for (int i = 0; i < count; i++) { cudaMalloc(&p, 2 << 20); cudaFree(p); }
  printf("malloc_free_ns=%.0f\n", seconds_since(start) / count * 1e9);
  cudaStream_t stream; cudaStreamCreate(&stream); start = Clock::now();
  for (int i = 0; i < count; i++) { cudaMallocAsync(&p, 1 << 20, stream); cudaFreeAsync(p, stream); }
  cudaStreamSynchronize(stream);
  printf("async_free_ns=%.0f\n", seconds_since(start) / count * 1e9);
}

static cudaError_t graph_allocation(size_t bytes) {  // a graph that allocates and keeps what it allocated
  cudaGraph_t graph; cudaGraphExec_t exec; cudaGraphNode_t node; cudaGraphCreate(&graph, 0);
  cudaMemAllocNodeParams params = {}; params.bytesize = bytes;
  params.poolProps.allocType = cudaMemAllocationTypePinned; params.poolProps.location.type = cudaMemLocationTypeDevice;
  auto error = cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &params);
  if (!error) error = cudaGraphInstantiate(&exec, graph, 0);
  if (!error) error = cudaGraphLaunch(exec, 0);
  return error ? error : cudaDeviceSynchronize();
}

static std::string allocate(const std::string &how, size_t bytes) {  // "" or the name of the error
  void *p; size_t pitch; cudaError_t error = cudaSuccess; static cudaStream_t stream; static cudaMemPool_t pool;
  if (!stream) cudaStreamCreate(&stream);
  if (how == "plain") error = cudaMalloc(&p, bytes);
  else if (how == "pitch") error = cudaMallocPitch(&p, &pitch, 1 << 20, bytes >> 20);
  else if (how == "managed") { error = cudaMallocManaged(&p, bytes); if (!error) error = cudaMemset(p, 1, bytes); }
  else if (how == "async") { error = cudaMallocAsync(&p, bytes, stream); if (!error) error = cudaStreamSynchronize(stream); }
  else if (how == "pool") {
    if (!pool) { cudaMemPoolProps props = {}; props.allocType = cudaMemAllocationTypePinned; props.location.type = cudaMemLocationTypeDevice; cudaMemPoolCreate(&pool, &props); }
    error = cudaMallocFromPoolAsync(&p, bytes, pool, stream); if (!error) error = cudaStreamSynchronize(stream);
  } else if (how == "array") { cudaArray_t array; auto format = cudaCreateChannelDesc<float4>(); error = cudaMallocArray(&array, &format, 1024, bytes / 16384); }
  else if (how == "array3d") { cudaArray_t array; auto format = cudaCreateChannelDesc<float>(); error = cudaMalloc3DArray(&array, &format, make_cudaExtent(256, 256, bytes / 262144)); }
  else if (how == "graph") error = graph_allocation(bytes);
  else if (how == "virtual") {
    CUmemAllocationProp props = {}; props.type = CU_MEM_ALLOCATION_TYPE_PINNED; props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle; auto result = cuMemCreate(&handle, bytes, &props, 0);
    const char *name = ""; if (result) cuGetErrorName(result, &name); return name;
  }
  return error ? cudaGetErrorName(error) : "";
}

// Waits at the end for a line, so that the one who started it can look at the card from outside.
static void fill(const std::string &how, size_t step_mib, size_t cap_mib) {
  size_t got = 0, left, total; std::string error;
  while (got < cap_mib && (error = allocate(how, step_mib << 20)).empty()) got += step_mib;
  cudaGetLastError(); cudaMemGetInfo(&left, &total);
  printf("got_mib=%zu\nend=%s\nfree_mib=%zu\ntotal_mib=%zu\nfilled=1\n", got, error.empty() ? "cap" : error.c_str(), left >> 20, total >> 20);
  fflush(stdout); char line[8]; if (!fgets(line, sizeof line, stdin)) return;
}

static void burn(double seconds, int streams, bool uses_graph) {
  float *out; cudaMalloc(&out, 4); std::vector<cudaStream_t> all(streams); std::vector<cudaGraphExec_t> execs(streams);
  for (auto &stream : all) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  const int rounds = 200000, blocks = 132 * 8;
  arithmetic<<<blocks, 256, 0, all[0]>>>(out, 1000); cudaDeviceSynchronize();
  for (int i = 0; uses_graph && i < streams; i++) {
    cudaGraph_t graph; cudaStreamBeginCapture(all[i], cudaStreamCaptureModeGlobal);
    for (int k = 0; k < 4; k++) arithmetic<<<blocks, 256, 0, all[i]>>>(out, rounds / 4);
    cudaStreamEndCapture(all[i], &graph); cudaGraphInstantiate(&execs[i], graph, 0);
  }
  auto start = Clock::now(); long count = 0;
  while (seconds_since(start) < seconds) {
    for (int i = 0; i < 8; i++, count++) {
      if (uses_graph) cudaGraphLaunch(execs[i % streams], all[i % streams]);
      else arithmetic<<<blocks, 256, 0, all[i % streams]>>>(out, rounds);
    }
    cudaDeviceSynchronize();
  }
  auto error = cudaGetLastError();
  printf("per_s=%.2f\nerror=%s\n", count / seconds_since(start), cudaGetErrorName(error));
}

static void churn() {  // until killed
  std::vector<void *> held(32, nullptr); unsigned seed = getpid();
  for (;;) {
    auto &one = held[rand_r(&seed) % held.size()];
    if (one) { cudaFree(one); one = nullptr; } else if (cudaMalloc(&one, (size_t)(1 + rand_r(&seed) % 64) << 20)) { one = nullptr; cudaGetLastError(); }
  }
}

static void race(size_t step_mib) {  // context first, then all at once on a line, then wait to be counted
  printf("ready=1\n"); fflush(stdout); char line[8]; if (!fgets(line, sizeof line, stdin)) return;
  size_t got = 0; while (allocate("plain", step_mib << 20).empty()) got += step_mib;
  printf("got_mib=%zu\n", got); fflush(stdout); if (!fgets(line, sizeof line, stdin)) return;
}

int main(int count, char **words) {
  std::string task = count > 1 ? words[1] : ""; auto error = cudaFree(0);
  if (error) { printf("context=%s\n", cudaGetErrorName(error)); return 1; }
  if (task == "launch") launch_cost();
  else if (task == "overhead") launch_overhead();
  else if (task == "small") small_kernels(atof(words[2]));
  else if (task == "alloc") allocation_cost();
  else if (task == "fill") fill(words[2], atoi(words[3]), atoi(words[4]));
  else if (task == "burn") burn(atof(words[2]), count > 3 ? atoi(words[3]) : 1, count > 4 && !strcmp(words[4], "graph"));
  else if (task == "churn") churn();
  else if (task == "race") race(atoi(words[2]));
  return 0;
}
