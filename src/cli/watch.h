/* cli/watch.h - work that takes its time: a line on standard error now and then, and signals that
 * end it in order.
 *
 * Work of a few seconds shows nothing; on a terminal one line is rewritten, elsewhere there is a
 * line every ten seconds.  The first SIGINT or SIGTERM asks for an end, a second one ends the
 * process at once. */
#ifndef KVSI_CLI_WATCH_H
#define KVSI_CLI_WATCH_H

typedef struct kvsi_watch {
    int quiet, terminal, line_open;
    double started, shown; /* clock seconds */
} kvsi_watch;

void kvsi_watch_start(kvsi_watch *watch, int quiet);
/* Whether a line should be shown now; *elapsed receives the seconds since the start. */
int kvsi_watch_is_due(kvsi_watch *watch, double *elapsed);
void kvsi_watch_show(kvsi_watch *watch, const char *line);
void kvsi_watch_end(kvsi_watch *watch); /* leaves the line in place, ready for others */

#endif
