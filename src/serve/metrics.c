#include "serve/metrics.h"

#include "base/memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

enum { ANSWERS_MAX = 128, BUCKETS = 10 };

/* Upper limits in seconds; the last bucket has none. */
static const double limits[BUCKETS] = {0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300};

typedef struct histogram {
    uint64_t counts[BUCKETS + 1];
    double sum;
} histogram;

struct kvsi_metrics {
    pthread_mutex_t lock;
    struct {
        const char *path;
        unsigned status;
        uint64_t count;
    } answers[ANSWERS_MAX];
    size_t answer_count;
    histogram first_token, whole;
};

kvs_status kvsi_metrics_create(kvsi_metrics **out, kvs_err *err)
{
    *out = kvsi_alloc(1, sizeof **out);
    if (!*out)
        return kvsi_no_memory(err, "metrics");
    pthread_mutex_init(&(*out)->lock, NULL);
    return KVS_OK;
}

void kvsi_metrics_free(kvsi_metrics *metrics)
{
    if (!metrics)
        return;
    pthread_mutex_destroy(&metrics->lock);
    kvsi_free(metrics);
}

void kvsi_metrics_answer(kvsi_metrics *m, const char *path, unsigned status)
{
    size_t i = 0;

    pthread_mutex_lock(&m->lock);
    while (i < m->answer_count &&
           (m->answers[i].status != status || strcmp(m->answers[i].path, path) != 0))
        i++;
    if (i == m->answer_count && i < ANSWERS_MAX) {
        m->answers[i].path = path;
        m->answers[i].status = status;
        m->answer_count++;
    }
    if (i < ANSWERS_MAX)
        m->answers[i].count++;
    pthread_mutex_unlock(&m->lock);
}

static void count_seconds(histogram *h, double seconds)
{
    size_t i = 0;

    while (i < BUCKETS && seconds > limits[i])
        i++;
    h->counts[i]++;
    h->sum += seconds;
}

void kvsi_metrics_job(kvsi_metrics *m, const kvsi_job *job)
{
    pthread_mutex_lock(&m->lock);
    if (job->first_token > 0)
        count_seconds(&m->first_token, job->first_token - job->submitted);
    if (job->ended > 0 && !job->is_cancelled)
        count_seconds(&m->whole, job->ended - job->submitted);
    pthread_mutex_unlock(&m->lock);
}

static void add_head(kvsi_text *out, const char *name, const char *type, const char *help)
{
    kvsi_text_format(out, "# HELP kvshift_%s %s\n# TYPE kvshift_%s %s\n", name, help, name, type);
}

static void add_histogram(kvsi_text *out, const char *name, const histogram *h, const char *help)
{
    uint64_t count = 0;

    add_head(out, name, "histogram", help);
    for (size_t i = 0; i < BUCKETS; i++) {
        count += h->counts[i];
        kvsi_text_format(out, "kvshift_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, limits[i], count);
    }
    count += h->counts[BUCKETS];
    kvsi_text_format(out, "kvshift_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, count);
    kvsi_text_format(out, "kvshift_%s_sum %.9g\nkvshift_%s_count %" PRIu64 "\n", name, h->sum, name,
                     count);
}

void kvsi_metrics_write(kvsi_text *out, kvsi_metrics *m, const kvsi_engine_stats *s)
{
    const struct {
        const char *name, *type, *help;
        double value;
    } values[] = {
        {"jobs_total", "counter", "Requests for text that are over", (double)s->jobs},
        {"jobs_failed_total", "counter", "Those that failed", (double)s->jobs_failed},
        {"jobs_cancelled_total", "counter", "Those whose clients left", (double)s->jobs_cancelled},
        {"prompt_tokens_total", "counter", "Tokens of prompts", (double)s->prompt_tokens},
        {"cached_tokens_total", "counter", "Tokens of prompts that were copied from a prefix",
         (double)s->cached_tokens},
        {"generated_tokens_total", "counter", "Generated tokens", (double)s->generated_tokens},
        {"fed_tokens_total", "counter", "Tokens that passes of the model had",
         (double)s->fed_tokens},
        {"passes_total", "counter", "Passes of the model", (double)s->passes},
        {"pass_seconds_total", "counter", "Time in passes of the model", s->pass_seconds},
        {"slots_active", "gauge", "Texts that are being generated or whose prompt is being fed",
         (double)s->active},
        {"jobs_waiting", "gauge", "Requests without a slot", (double)s->waiting},
        {"prefix_entries", "gauge", "Stored prefixes", (double)s->prefixes.entries},
        {"prefix_bytes", "gauge", "Memory of stored prefixes", (double)s->prefixes.bytes},
        {"prefix_hits_total", "counter", "Copies of stored prefixes", (double)s->prefixes.hits},
        {"prefix_evictions_total", "counter", "Stored prefixes that were removed for others",
         (double)s->prefixes.evictions},
    };

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        add_head(out, values[i].name, values[i].type, values[i].help);
        kvsi_text_format(out, "kvshift_%s %.17g\n", values[i].name, values[i].value);
    }
    pthread_mutex_lock(&m->lock);
    add_head(out, "answers_total", "counter", "Answers by path and status");
    for (size_t i = 0; i < m->answer_count; i++)
        kvsi_text_format(out, "kvshift_answers_total{path=\"%s\",status=\"%u\"} %" PRIu64 "\n",
                         m->answers[i].path, m->answers[i].status, m->answers[i].count);
    add_histogram(out, "first_token_seconds", &m->first_token,
                  "Time from a request to its first token");
    add_histogram(out, "request_seconds", &m->whole, "Time from a request to its end");
    pthread_mutex_unlock(&m->lock);
}
