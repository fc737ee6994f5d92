#include "cli/progress.h"

#include "base/clock.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static const double SHORTEST_PAUSE = 0.1; /* seconds between two rewrites of the line */

enum { PLAIN_LINES = 20 };

static int on_terminal(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
}

static size_t terminal_width(void)
{
    struct winsize window;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
}

void kvsi_progress_start(kvsi_progress *progress, uint64_t steps, double epochs, int quiet)
{
    *progress = (kvsi_progress){
        .steps = steps,
        .epochs = epochs,
        .quiet = quiet,
        .terminal = on_terminal(),
        .started = kvsi_clock_seconds(),
        .eval_loss = NAN,
    };
}

static double mean_accuracy(const kvsi_progress *p)
{
    const uint64_t count = p->done < KVSI_PROGRESS_BATCHES ? p->done : KVSI_PROGRESS_BATCHES;
    double sum = 0;

    for (uint64_t i = 0; i < count; i++)
        sum += p->accuracies[i];
    return sum / (double)count;
}

static void describe(char *line, size_t size, const kvsi_progress *p, const kvs_step_record *record,
                     double elapsed)
{
    const double left = elapsed / (double)p->done * (double)(p->steps - record->step);
    char rate[32], elapsed_text[32], left_text[32];
    char epoch[32] = "", accuracy[32] = "", evaluation[32] = "";

    kvsi_format_count(rate, sizeof rate, elapsed > 0 ? (double)p->tokens / elapsed : 0);
    kvsi_format_duration(elapsed_text, sizeof elapsed_text, elapsed);
    kvsi_format_duration(left_text, sizeof left_text, left);
    if (p->epochs > 0)
        snprintf(epoch, sizeof epoch, "  epoch %.2f", p->epochs * (double)record->step);
    if (!isnan(mean_accuracy(p)))
        snprintf(accuracy, sizeof accuracy, "  accuracy %5.1f %%", 100 * mean_accuracy(p));
    if (!isnan(p->eval_loss))
        snprintf(evaluation, sizeof evaluation, " (evaluation %.4f)", p->eval_loss);
    snprintf(line, size,
             "step %" PRIu64 "/%" PRIu64 "%s  loss %.4f%s%s  lr %.2e  %s tokens/s  %s, %s left",
             record->step, p->steps, epoch, record->loss, evaluation, accuracy, record->lr, rate,
             elapsed_text, left_text);
}

static void show_line(kvsi_progress *p, const char *line)
{
    if (!p->terminal) {
        fprintf(stderr, "%s\n", line);
        return;
    }
    /* A line that wrapped could not be rewritten; the last column makes some terminals wrap. */
    fprintf(stderr, "\r%.*s\x1b[K", (int)terminal_width() - 1, line);
    fflush(stderr);
    p->line_open = 1;
}

void kvsi_progress_clear(kvsi_progress *progress)
{
    if (progress->line_open)
        fputs("\r\x1b[K", stderr);
    progress->line_open = 0;
}

static void show_evaluation(kvsi_progress *p, const kvs_step_record *record)
{
    kvsi_progress_clear(p);
    fprintf(stderr, "step %" PRIu64 ": evaluation loss %.4f", record->step, record->eval_loss);
    if (!isnan(record->eval_accuracy))
        fprintf(stderr, ", accuracy %.1f %%", 100 * record->eval_accuracy);
    fprintf(stderr, "\n");
    p->eval_loss = record->eval_loss;
}

static int is_due(const kvsi_progress *p, const kvs_step_record *record, double now)
{
    const uint64_t stride = (p->steps + PLAIN_LINES - 1) / PLAIN_LINES;

    if (record->step == p->steps)
        return 1;
    return p->terminal ? now - p->shown >= SHORTEST_PAUSE : record->step % stride == 0;
}

void kvsi_progress_step(kvsi_progress *progress, const kvs_step_record *record)
{
    const double now = kvsi_clock_seconds();
    char line[256];

    progress->accuracies[progress->done++ % KVSI_PROGRESS_BATCHES] = record->accuracy;
    progress->tokens += record->tokens;
    if (progress->quiet)
        return;
    if (!isnan(record->eval_loss))
        show_evaluation(progress, record);
    if (!is_due(progress, record, now))
        return;
    describe(line, sizeof line, progress, record, now - progress->started);
    show_line(progress, line);
    progress->shown = now;
}

void kvsi_progress_end(kvsi_progress *progress)
{
    if (progress->line_open)
        fprintf(stderr, "\n");
    progress->line_open = 0;
}
