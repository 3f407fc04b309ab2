/* How calls reach the limiter and how the limiter reaches the driver.

   An application finds the driver's functions in three ways: by the linker (our exported names come first), by dlsym
   (ours is below) and by cuGetProcAddress (wrapped below). The second and the third ask the real one first and swap
   only an answer that is a function we replace, so that versions, flags and failures stay the driver's own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "wrappers.h"

typedef void *(*dlsym_function)(void *, const char *);

struct wrapper { const char *name; void *function; const char *base; int version; uint64_t flavour; };

#define ROW_OF_WRAPPED(name, base, version, flavour) { #name, (void *)(name), base, version, flavour },
#define ROW_OF_CALLED(name) { #name, NULL, "", 0, BOTH },
static const struct wrapper table[ENTRY_COUNT] = {
    FOR_EACH_WRAPPED_CUDA(ROW_OF_WRAPPED)
    FOR_EACH_WRAPPED_NVML(ROW_OF_WRAPPED)
    FOR_EACH_CALLED_CUDA(ROW_OF_CALLED)
    FOR_EACH_CALLED_NVML(ROW_OF_CALLED)
};

_Atomic(void *) real_functions[ENTRY_COUNT];

static bool is_of_nvml(enum entry entry) {
    return entry >= FIRST_CALLED_NVML || (entry >= FIRST_WRAPPED_NVML && entry < FIRST_CALLED_CUDA);
}

/* dlvsym is not replaced, so it leads to the real dlsym. The versions are those of x86-64, of arm64, and of glibc
   2.34, where dlsym moved. */
static dlsym_function real_dlsym(void) {
    static _Atomic(void *) found;
    void *function = atomic_load_explicit(&found, memory_order_acquire);
    if (LIKELY(function != NULL)) return (dlsym_function)function;
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (size_t index = 0; !function && index < sizeof versions / sizeof *versions; index++)
        function = dlvsym(RTLD_NEXT, "dlsym", versions[index]);
    if (!function) abort(); /* nothing in this process could look up a symbol */
    atomic_store_explicit(&found, function, memory_order_release);
    return (dlsym_function)function;
}

static void *open_library(bool is_nvml) {
    static _Atomic(void *) handles[2];
    void *handle = atomic_load(&handles[is_nvml]);
    if (handle) return handle;
    handle = dlopen(is_nvml ? "libnvidia-ml.so.1" : "libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    atomic_store(&handles[is_nvml], handle);
    return handle;
}

static CUresult answer_not_found(void) { return CUDA_ERROR_NOT_FOUND; }

static bool is_absent(enum entry entry) { return real_function(entry) == (void *)answer_not_found; }

/* The driver's function for this entry. One that this driver lacks is a function that says so. */
void *resolve(enum entry entry) {
    void *library = open_library(is_of_nvml(entry));
    void *found = library ? real_dlsym()(library, table[entry].name) : NULL;
    if (!found) found = (void *)answer_not_found;
    atomic_store_explicit(&real_functions[entry], found, memory_order_release);
    return found;
}

/* From the driver's pointer to our wrapper ----------------------------------------------------------------------- */

#define POINTERS_MAX 512
static struct { void *driver; void *wrapper; } pointers[POINTERS_MAX];
static pthread_once_t pointers_once = PTHREAD_ONCE_INIT;

static size_t place_of(void *driver) {
    size_t place = (size_t)(((uintptr_t)driver >> 4) * 0x9e3779b97f4a7c15ULL >> 55) % POINTERS_MAX;
    while (pointers[place].driver && pointers[place].driver != driver) place = (place + 1) % POINTERS_MAX;
    return place;
}

static void remember_pointer(void *driver, void *wrapper) {
    if (!driver || driver == (void *)answer_not_found) return;
    size_t place = place_of(driver);
    if (!pointers[place].driver) pointers[place].wrapper = wrapper;
    pointers[place].driver = driver;
}

static void *ask_driver(const struct wrapper *row) {
    void *found = NULL;
    if (!is_absent(ENTRY_cuGetProcAddress_v2)) {
        int status = 0;
        if (REAL(cuGetProcAddress_v2)(row->base, &found, row->version, row->flavour, &status) != CUDA_SUCCESS) return NULL;
    } else if (REAL(cuGetProcAddress)(row->base, &found, row->version, row->flavour) != CUDA_SUCCESS) {
        return NULL;
    }
    return found;
}

/* Asked for with the very release that brought it, the driver gives the very function that we replace; and by its
   exported name as well, in case the two differ. */
static void gather_pointers(void) {
    for (int entry = 0; entry < FIRST_WRAPPED_NVML; entry++) {
        remember_pointer(real_function((enum entry)entry), table[entry].function);
        remember_pointer(ask_driver(&table[entry]), table[entry].function);
    }
}

static void *wrapper_or_same(void *driver) {
    pthread_once(&pointers_once, gather_pointers);
    size_t place = place_of(driver);
    return pointers[place].driver ? pointers[place].wrapper : driver;
}

EXPORTED CUresult cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    CUresult result = REAL(cuGetProcAddress_v2)(symbol, function, version, flags, status);
    if (result == CUDA_SUCCESS && function && *function) *function = wrapper_or_same(*function);
    return result;
}

EXPORTED CUresult cuGetProcAddress(const char *symbol, void **function, int version, uint64_t flags) {
    CUresult result = REAL(cuGetProcAddress)(symbol, function, version, flags);
    if (result == CUDA_SUCCESS && function && *function) *function = wrapper_or_same(*function);
    return result;
}

/* dlsym ---------------------------------------------------------------------------------------------------------- */

static const struct wrapper *wrapper_named(const char *name) {
    for (int entry = 0; entry < FIRST_CALLED_CUDA; entry++)
        if (strcmp(table[entry].name, name) == 0) return &table[entry];
    return NULL;
}

static bool is_of_driver(void *function) {
    Dl_info where;
    return dladdr(function, &where) && where.dli_fname &&
           (strstr(where.dli_fname, "libcuda.so") || strstr(where.dli_fname, "libnvidia-ml.so"));
}

static void *swapped(void *handle, const char *name) {
    void *found = real_dlsym()(handle, name);
    const struct wrapper *wrapper = found ? wrapper_named(name) : NULL;
    return wrapper && is_of_driver(found) ? wrapper->function : found;
}

/* RTLD_NEXT and RTLD_DEFAULT mean the scope of the caller, which the real dlsym reads from its return address: the
   call must be a jump, which it is with optimisation (a test checks it). */
EXPORTED void *dlsym(void *handle, const char *name) {
    bool may_be_ours = (name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v');
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !may_be_ours) return real_dlsym()(handle, name);
    return swapped(handle, name);
}
