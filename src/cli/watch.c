#include "cli/watch.h"

#include "base/clock.h"
#include "cli/signals.h"

#include <stdio.h>
#include <unistd.h>

static const double QUIET_SECONDS = 2, TERMINAL_SECONDS = 0.1, PLAIN_SECONDS = 10;

void kvsi_watch_start(kvsi_watch *watch, int quiet)
{
    kvsi_catch_stop();
    *watch = (kvsi_watch){
        .quiet = quiet, .terminal = isatty(STDERR_FILENO), .started = kvsi_clock_seconds()};
}

int kvsi_watch_is_due(kvsi_watch *watch, double *elapsed)
{
    const double now = kvsi_clock_seconds();

    *elapsed = now - watch->started;
    if (watch->quiet || *elapsed < QUIET_SECONDS ||
        now - watch->shown < (watch->terminal ? TERMINAL_SECONDS : PLAIN_SECONDS))
        return 0;
    watch->shown = now;
    return 1;
}

void kvsi_watch_show(kvsi_watch *watch, const char *line)
{
    fprintf(stderr, "%s%s%s", watch->terminal ? "\r" : "", line, watch->terminal ? "\x1b[K" : "\n");
    watch->line_open = watch->terminal;
}

void kvsi_watch_end(kvsi_watch *watch)
{
    if (watch->line_open)
        fputc('\n', stderr);
    watch->line_open = 0;
}
