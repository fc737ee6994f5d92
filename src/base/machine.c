#include "base/machine.h"

#include "base/status.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

void kvsi_machine_processor(char *out, size_t size)
{
    static const char key[] = "model name";
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(out, size, "unknown");
    if (!file && errno == ENOMEM)
        kvsi_nomem_set();
    while (file && fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, key, sizeof key - 1) != 0 || !colon)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (file)
        fclose(file);
}

void kvsi_machine_time(char *out, size_t size)
{
    const time_t now = time(NULL);
    struct tm parts;

    if (!gmtime_r(&now, &parts) || strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(out, size, "unknown");
}

/* ---- memory ---------------------------------------------------------------------------------- */

enum { PATH_SIZE = 1024 };

/* The number after `key` at the start of a line; NaN = none.  Key "" reads the first line. */
static double number_in(const char *path, const char *key)
{
    FILE *file = fopen(path, "r");
    const size_t length = strlen(key);
    char line[256];
    double number = NAN;

    while (file && isnan(number) && fgets(line, sizeof line, file)) {
        char *end;

        if (strncmp(line, key, length) != 0)
            continue;
        number = strtod(line + length, &end);
        if (end == line + length)
            number = NAN; /* "max" */
    }
    if (file)
        fclose(file);
    return number;
}

/* File names of control groups, versions 1 and 2. */
typedef struct group_files {
    const char *mount, *limit, *usage, *inactive, *active;
} group_files;

static const group_files version_1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                      "memory.usage_in_bytes", "total_inactive_file ",
                                      "total_active_file "};
static const group_files version_2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                      "inactive_file ", "active_file "};

static double number_at(const char *root, const group_files *names, const char *group,
                        const char *file, const char *key)
{
    char path[PATH_SIZE];

    if (snprintf(path, sizeof path, "%s%s%s/%s", root, names->mount, group, file) >= PATH_SIZE)
        return NAN;
    return number_in(path, key);
}

/* The limit minus the usage.  The page cache counts as used but can be reclaimed. */
static double free_in_group(const char *root, const group_files *names, const char *group)
{
    const double used = number_at(root, names, group, names->usage, "");
    const double files = number_at(root, names, group, "memory.stat", names->inactive) +
                         number_at(root, names, group, "memory.stat", names->active);

    return number_at(root, names, group, names->limit, "") - used + (isnan(files) ? 0 : files);
}

/* The smallest limit of the group and its parents.  In a container the group's own path may not
 * exist; then the outermost group is the container's. */
static double free_in_groups(const char *root, const group_files *names, char *group)
{
    double least = NAN;

    for (;;) {
        char *slash = strrchr(group, '/');

        if (slash && !slash[1])
            *slash = '\0'; /* "/" is the mount point */
        least = fmin(least, free_in_group(root, names, group));
        slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* Whether a list such as "cpu,memory" contains the word. */
static int lists_memory(const char *controllers)
{
    for (const char *at = controllers; (at = strstr(at, "memory")); at += 6)
        if ((at == controllers || at[-1] == ',') && (!at[6] || at[6] == ','))
            return 1;
    return 0;
}

/* /proc/self/cgroup has lines NUMBER:CONTROLLERS:PATH; version 2 has one without controllers. */
static double free_by_groups(const char *root)
{
    char path[PATH_SIZE], line[PATH_SIZE];
    double least = NAN;
    FILE *file;

    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *const number_end = strchr(line, ':'), *controllers, *group;

        if (!number_end || !(group = strchr(number_end + 1, ':')))
            continue;
        controllers = number_end + 1;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (!*controllers)
            least = fmin(least, free_in_groups(root, &version_2, group));
        else if (lists_memory(controllers))
            least = fmin(least, free_in_groups(root, &version_1, group));
    }
    if (file)
        fclose(file);
    return least;
}

/* What RLIMIT_AS leaves. */
static double free_by_limit(const char *root)
{
    char path[PATH_SIZE];
    struct rlimit limit;

    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return NAN;
    snprintf(path, sizeof path, "%s/proc/self/statm", root);
    return (double)limit.rlim_cur - number_in(path, "") * (double)sysconf(_SC_PAGESIZE);
}

double kvsi_machine_free_memory(const char *root, size_t processes)
{
    char path[PATH_SIZE];
    double bytes;

    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    bytes = fmin(1024 * number_in(path, "MemAvailable:"), free_by_groups(root));
    bytes = fmin(bytes / (double)processes, free_by_limit(root)); /* fmin ignores NaN */
    return bytes < 0 ? 0 : bytes;
}
