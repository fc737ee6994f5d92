#include "cli/progress.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Nothing is shown before QUIET_SECONDS; then a line every TERMINAL_SECONDS or PLAIN_SECONDS. */
static const double QUIET_SECONDS = 2, TERMINAL_SECONDS = 0.1, PLAIN_SECONDS = 10;

enum { PLAIN_LINES = 20 }; /* of a training run */

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

void kvsi_progress_start(kvsi_progress *progress, int quiet)
{
    *progress =
        (kvsi_progress){.quiet = quiet, .terminal = on_terminal(), .started = kvsi_clock_seconds()};
}

int kvsi_progress_is_due(kvsi_progress *progress, double *elapsed)
{
    const double now = kvsi_clock_seconds();

    *elapsed = now - progress->started;
    return !progress->quiet && *elapsed >= QUIET_SECONDS &&
           now - progress->shown >= (progress->terminal ? TERMINAL_SECONDS : PLAIN_SECONDS);
}

/* The part of a line that fits: a line that wraps cannot be rewritten, and some terminals wrap
 * after the last column.  It ends between two items, which two blanks separate. */
static size_t shown_length(const char *line)
{
    const size_t width = terminal_width() - 1, length = strlen(line);
    size_t end = width;

    if (length <= width)
        return length;
    while (end > 0 && (line[end] != ' ' || line[end + 1] != ' '))
        end--;
    return end > 0 ? end : width;
}

void kvsi_progress_show(kvsi_progress *progress, const char *line)
{
    progress->shown = kvsi_clock_seconds();
    if (!progress->terminal) {
        fprintf(stderr, "%s\n", line);
        return;
    }
    fprintf(stderr, "\r%.*s\x1b[K", (int)shown_length(line), line);
    fflush(stderr);
    progress->line_open = 1;
}

void kvsi_progress_clear(kvsi_progress *progress)
{
    if (progress->line_open)
        fputs("\r\x1b[K", stderr);
    progress->line_open = 0;
}

void kvsi_progress_end(kvsi_progress *progress)
{
    if (progress->line_open)
        fputc('\n', stderr);
    progress->line_open = 0;
}

/* ---- work whose end cannot be foreseen ------------------------------------------------------- */

struct kvsi_waiting {
    const char *what;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int ended;
};

static void *show_waiting(void *data)
{
    kvsi_waiting *w = data;
    kvsi_progress progress;
    struct timespec next;

    kvsi_progress_start(&progress, 0);
    clock_gettime(CLOCK_REALTIME, &next);
    pthread_mutex_lock(&w->lock);
    for (next.tv_sec++; !w->ended; next.tv_sec++) {
        char time[32], line[128];
        double elapsed;

        if (pthread_cond_timedwait(&w->changed, &w->lock, &next) == 0 ||
            !kvsi_progress_is_due(&progress, &elapsed))
            continue;
        kvsi_format_duration(time, sizeof time, elapsed);
        snprintf(line, sizeof line, "%s, %s", w->what, time);
        kvsi_progress_show(&progress, line);
    }
    pthread_mutex_unlock(&w->lock);
    kvsi_progress_clear(&progress);
    return NULL;
}

kvsi_waiting *kvsi_waiting_start(const char *what)
{
    kvsi_waiting *w = on_terminal() ? kvsi_alloc(1, sizeof *w) : NULL;

    if (!w)
        return NULL;
    w->what = what;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (pthread_create(&w->thread, NULL, show_waiting, w) == 0)
        return w;
    kvsi_free(w);
    return NULL;
}

void kvsi_waiting_end(kvsi_waiting *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->ended = 1;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    kvsi_free(w);
}

/* ---- training -------------------------------------------------------------------------------- */

void kvsi_train_progress_start(kvsi_train_progress *p, uint64_t steps, double epochs_per_step,
                               int quiet)
{
    *p =
        (kvsi_train_progress){.steps = steps, .epochs_per_step = epochs_per_step, .eval_loss = NAN};
    kvsi_progress_start(&p->line, quiet);
}

static double mean_accuracy(const kvsi_train_progress *p)
{
    const uint64_t count = p->done < KVSI_PROGRESS_STEPS ? p->done : KVSI_PROGRESS_STEPS;
    double sum = 0;

    for (uint64_t i = 0; i < count; i++)
        sum += p->accuracies[i];
    return sum / (double)count;
}

static void format_step(char *line, size_t size, const kvsi_train_progress *p,
                        const kvs_step_record *record, double elapsed)
{
    const double left = elapsed / (double)p->done * (double)(p->steps - record->step);
    char rate[32], elapsed_text[32], left_text[32];
    char epoch[32] = "", accuracy[32] = "", evaluation[32] = "";

    kvsi_format_count(rate, sizeof rate, elapsed > 0 ? (double)p->tokens / elapsed : 0);
    kvsi_format_duration(elapsed_text, sizeof elapsed_text, elapsed);
    kvsi_format_duration(left_text, sizeof left_text, left);
    if (p->epochs_per_step > 0)
        snprintf(epoch, sizeof epoch, "  epoch %.2f", p->epochs_per_step * (double)record->step);
    if (!isnan(mean_accuracy(p)))
        snprintf(accuracy, sizeof accuracy, "  accuracy %5.1f %%", 100 * mean_accuracy(p));
    if (!isnan(p->eval_loss))
        snprintf(evaluation, sizeof evaluation, "  evaluation %.4f", p->eval_loss);
    snprintf(line, size,
             "step %" PRIu64 "/%" PRIu64 "  loss %.4f%s  %s left%s%s  lr %.2e  %s tokens/s  %s",
             record->step, p->steps, record->loss, accuracy, left_text, epoch, evaluation,
             record->lr, rate, elapsed_text);
}

static void show_evaluation(kvsi_train_progress *p, const kvs_step_record *record)
{
    kvsi_progress_clear(&p->line);
    fprintf(stderr, "step %" PRIu64 ": evaluation loss %.4f", record->step, record->eval_loss);
    if (!isnan(record->eval_accuracy))
        fprintf(stderr, ", accuracy %.1f %%", 100 * record->eval_accuracy);
    fprintf(stderr, "\n");
    p->eval_loss = record->eval_loss;
}

/* About twenty lines stay, so that the history of the loss can be seen. */
static int is_kept(const kvsi_train_progress *p, const kvs_step_record *record)
{
    const uint64_t stride = (p->steps + PLAIN_LINES - 1) / PLAIN_LINES;

    return record->step == p->steps || record->step % stride == 0;
}

static int step_is_due(const kvsi_train_progress *p, const kvs_step_record *record, double now)
{
    if (is_kept(p, record))
        return 1;
    return p->line.terminal && now - p->line.shown >= TERMINAL_SECONDS;
}

void kvsi_train_progress_step(kvsi_train_progress *p, const kvs_step_record *record)
{
    const double now = kvsi_clock_seconds();
    char line[256];

    p->accuracies[p->done++ % KVSI_PROGRESS_STEPS] = record->accuracy;
    p->tokens += record->tokens;
    if (p->line.quiet)
        return;
    if (!isnan(record->eval_loss))
        show_evaluation(p, record);
    if (!step_is_due(p, record, now))
        return;
    format_step(line, sizeof line, p, record, now - p->line.started);
    kvsi_progress_show(&p->line, line);
    if (is_kept(p, record))
        kvsi_progress_end(&p->line);
}
