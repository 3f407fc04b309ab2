/* What the tenant may use: the lines of the file MUSTER_LIMITS, which it cannot write, or else the environment, both
   with HAMi's names. Called by state.c. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "limiter.h"

extern char **environ;

void limits_clear(struct limits *limits) {
    memset(limits, 0, sizeof *limits);
    for (int device = 0; device < DEVICES_MAX; device++) {
        limits->memory[device] = NO_LIMIT;
        limits->cores[device] = 100;
    }
}

/* "8000m", "10g", "512k" or bytes; 0 and what is no number mean no limit. */
static uint64_t parse_bytes(const char *text) {
    char *end;
    unsigned long long number = strtoull(text, &end, 10);
    unsigned shift = 0;
    switch (tolower((unsigned char)*end)) {
        case 'k': shift = 10; break;
        case 'm': shift = 20; break;
        case 'g': shift = 30; break;
        default: break;
    }
    if (end == text || number == 0 || number > UINT64_MAX >> shift) return NO_LIMIT;
    return number << shift;
}

static unsigned parse_percent(const char *text) {
    long number = strtol(text, NULL, 10);
    return number <= 0 || number >= 100 ? 100 : (unsigned)number;
}

/* The device in NAME_3 after this prefix; -1 for NAME alone, which means all; -2 for another name. */
static int device_of(const char *name, const char *prefix) {
    size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0) return -2;
    if (name[length] == 0) return -1;
    char *end;
    long device = name[length] == '_' && isdigit((unsigned char)name[length + 1]) ? strtol(name + length + 1, &end, 10) : -2;
    return device >= 0 && device < DEVICES_MAX && *end == 0 ? (int)device : -2;
}

static bool is_true(const char *value) { return strcasecmp(value, "true") == 0 || strcmp(value, "1") == 0; }

static enum policy parse_policy(const char *value) {
    if (strcasecmp(value, "force") == 0) return POLICY_FORCE;
    return strcasecmp(value, "disable") == 0 ? POLICY_DISABLE : POLICY_DEFAULT;
}

/* Take one setting; false for a name that is none. What is said of one device wins over what is said of all, in
   whichever order they come: so the general ones only fill what nobody set. */
bool limits_parse_line(struct limits *limits, const char *name, const char *value) {
    int device = device_of(name, "CUDA_DEVICE_MEMORY_LIMIT");
    if (device >= -1) {
        limits->is_on = true;
        if (device >= 0) limits->memory[device] = parse_bytes(value);
        for (int each = 0; device < 0 && each < DEVICES_MAX; each++)
            if (limits->memory[each] == NO_LIMIT) limits->memory[each] = parse_bytes(value);
        return true;
    }
    device = device_of(name, "CUDA_DEVICE_SM_LIMIT");
    if (device >= -1) {
        limits->is_on = true;
        if (device >= 0) limits->cores[device] = parse_percent(value);
        for (int each = 0; device < 0 && each < DEVICES_MAX; each++)
            if (limits->cores[each] == 100) limits->cores[each] = parse_percent(value);
        return true;
    }
    if (strcmp(name, "GPU_CORE_UTILIZATION_POLICY") == 0) limits->policy = parse_policy(value);
    else if (strcmp(name, "CUDA_TASK_PRIORITY") == 0) limits->priority = strtol(value, NULL, 10) > 0;
    else if (strcmp(name, "CUDA_OVERSUBSCRIBE") == 0) limits->oversubscribes = is_true(value);
    else return false;
    return true;
}

static void take_assignment(struct limits *limits, const char *text) {
    char line[256];
    if (strlen(text) >= sizeof line) return; /* none of our settings is so long */
    strcpy(line, text);
    line[strcspn(line, "\r\n")] = 0;
    char *value = strchr(line, '=');
    if (!value) return;
    *value++ = 0;
    limits_parse_line(limits, line, value);
}

static bool read_file(struct limits *limits, const char *path) {
    FILE *file = fopen(path, "re");
    if (!file) return false;
    char line[256];
    for (int lines = 0; lines < 256 && fgets(line, sizeof line, file); lines++) take_assignment(limits, line);
    fclose(file);
    limits->is_on = true;
    return true;
}

void limits_read(struct limits *limits) {
    limits_clear(limits);
    const char *path = getenv("MUSTER_LIMITS");
    if (path && *path && read_file(limits, path)) return;
    const char *disabled = getenv("CUDA_DISABLE_CONTROL");
    if (disabled && is_true(disabled)) return;
    for (char **each = environ; *each; each++)
        if (strncmp(*each, "CUDA_", 5) == 0 || strncmp(*each, "GPU_CORE_", 9) == 0) take_assignment(limits, *each);
}

/* Whether the file was written anew since the last call. */
bool limits_file_changed(void) {
    static struct timespec seen;
    static ino_t inode;
    const char *path = getenv("MUSTER_LIMITS");
    struct stat found;
    if (!path || stat(path, &found) != 0) return false;
    bool is_same = found.st_mtim.tv_sec == seen.tv_sec && found.st_mtim.tv_nsec == seen.tv_nsec && found.st_ino == inode;
    seen = found.st_mtim;
    inode = found.st_ino;
    return !is_same;
}
