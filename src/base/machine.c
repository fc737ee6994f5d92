#include "base/machine.h"

#include "base/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void kvsi_machine_processor(char *out, size_t size)
{
    static const char key[] = "model name";
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(out, size, "unknown");
    if (!file && errno == ENOMEM)
        kvsi_memory_note_lost();
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
