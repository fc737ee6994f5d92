#include "repro/records.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "base/text.h"
#include "repro/execute.h"
#include "repro/experiment_folder.h"
#include "run/run.h"
#include "run/run_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 200, FILE_LIMIT = 1 << 24 };

/* ---- thinning -------------------------------------------------------------------------------- */

/* Steps per point. */
static uint64_t block_of(uint64_t steps)
{
    return (steps + POINTS - 1) / POINTS;
}

/* Collects the steps of a block. */
typedef struct block {
    uint64_t number; /* from 1 on; 0 = none yet */
    uint64_t step;   /* the last */
    uint64_t tokens;
    double sum;
    size_t count;
} block;

static void add_step(block *b, uint64_t step, uint64_t tokens, double loss)
{
    b->step = step;
    b->tokens += tokens;
    if (isnan(loss))
        return;
    b->sum += loss;
    b->count++;
}

/* The mean with the digits that a record keeps. */
static double mean_of(const block *b)
{
    char digits[32];

    snprintf(digits, sizeof digits, "%.7g", b->count > 0 ? b->sum / (double)b->count : NAN);
    return strtod(digits, NULL);
}

static uint64_t number_of(uint64_t step, uint64_t size)
{
    return (step + size - 1) / size;
}

void kvsi_run_thin(kvsi_run *run, uint64_t steps)
{
    const uint64_t size = block_of(steps);
    block b = {0};
    size_t kept = 0;

    if (!run->is_text || size < 2)
        return;
    for (size_t i = 0; i < run->point_count; i++) {
        const kvsi_run_point p = run->points[i];

        if (number_of(p.step, size) != b.number) {
            kept += b.number > 0;
            b = (block){.number = number_of(p.step, size)};
        }
        add_step(&b, p.step, 0, p.loss);
        run->points[kept] = (kvsi_run_point){
            .step = p.step, .tokens = p.tokens, .loss = mean_of(&b), .accuracy = NAN};
    }
    run->point_count = kept + (b.number > 0);
}

/* ---- the log --------------------------------------------------------------------------------- */

static void add_number(kvsi_text *out, const char *key, double value, int digits)
{
    if (isfinite(value))
        kvsi_text_format(out, ", \"%s\": %.*g", key, digits, value);
}

static void write_block(kvsi_text *out, const block *b, double eval_loss)
{
    kvsi_text_format(out, "{\"step\": %" PRIu64 ", \"tokens\": %" PRIu64, b->step, b->tokens);
    add_number(out, "loss", mean_of(b), 7);
    add_number(out, "eval_loss", eval_loss, 17);
    kvsi_text_add(out, "}\n");
}

/* A step that was evaluated within a block has a line of its own, without a loss. */
static void write_evaluation(kvsi_text *out, uint64_t step, double eval_loss)
{
    kvsi_text_format(out, "{\"step\": %" PRIu64 ", \"tokens\": 0", step);
    add_number(out, "eval_loss", eval_loss, 17);
    kvsi_text_add(out, "}\n");
}

static void write_step(kvsi_text *out, const kvs_step_record *r)
{
    kvsi_text_format(out, "{\"step\": %" PRIu64 ", \"tokens\": %" PRIu64, r->step, r->tokens);
    add_number(out, "loss", r->loss, 17);
    add_number(out, "accuracy", r->accuracy, 17);
    add_number(out, "eval_loss", r->eval_loss, 17);
    kvsi_text_add(out, "}\n");
}

/* The records, of which only what results are computed from is kept. */
static kvs_status shorten(kvsi_text *out, kvsi_run_log *log, uint64_t size, kvs_err *err)
{
    kvs_step_record last = {0};
    block b = {0};

    for (;;) {
        kvs_step_record record;
        int found;

        TRY(kvsi_run_log_next(log, &record, &found, err));
        if (size < 2) {
            if (!found)
                return KVS_OK;
            write_step(out, &record);
            continue;
        }
        if (b.number > 0 && (!found || number_of(record.step, size) != b.number)) {
            write_block(out, &b, last.eval_loss);
            b = (block){0};
        } else if (b.number > 0 && isfinite(last.eval_loss)) {
            write_evaluation(out, last.step, last.eval_loss);
        }
        if (!found)
            return KVS_OK;
        b.number = number_of(record.step, size);
        add_step(&b, record.step, record.tokens, record.loss);
        last = record;
    }
}

static kvs_status write_log(const char *from, const char *to, const kvsi_planned *run, kvs_err *err)
{
    const uint64_t size = run->task == kvsi_text_task ? block_of(run->train.steps) : 1;
    char *path = kvsi_path_join(to, KVSI_RUN_LOG), *settings = NULL;
    kvsi_text text = {0};
    kvsi_run_log log = {0};
    kvs_status st;

    if (!path) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", to);
        goto out;
    }
    TRY_OUT(kvsi_run_log_open(&log, from, err));
    settings = json_dumps(log.settings, JSON_SORT_KEYS);
    kvsi_text_format(&text, "%s\n", settings ? settings : "{}");
    TRY_OUT(shorten(&text, &log, size, err));
    TRY_OUT(kvsi_text_check(&text, err));
    st = kvsi_file_write_text(path, text.data, err);
out:
    kvsi_run_log_close(&log);
    kvsi_text_release(&text);
    free(settings);
    kvsi_free(path);
    return st;
}

/* ---- the record ------------------------------------------------------------------------------ */

/* A file that is not there is left out. */
static kvs_status copy(const char *from, const char *to, const char *name, kvs_err *err)
{
    char *source = kvsi_path_join(from, name), *target = kvsi_path_join(to, name), *data = NULL;
    size_t size;
    kvs_status st = KVS_OK;

    if (!source || !target) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", name);
        goto out;
    }
    if (!kvsi_file_exists(source))
        goto out;
    TRY_OUT(kvsi_file_read(&data, &size, source, FILE_LIMIT, err));
    st = kvsi_file_write_text(target, data, err);
out:
    kvsi_free(data);
    kvsi_free(source);
    kvsi_free(target);
    return st;
}

/* result.json, or diverged.json of a run without one, comes last: it makes the record complete. */
static kvs_status fill(const char *dir, const char *to, const kvsi_planned *run, kvs_err *err)
{
    static const char *const files[] = {KVSI_PLANNED, KVSI_MEASURED, KVSI_RUN_DIVERGED,
                                        KVSI_RUN_RESULT};

    TRY(write_log(dir, to, run, err));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        TRY(copy(dir, to, files[i], err));
    return KVS_OK;
}

/* A run that was taken over has a record already, but what this experiment measured may not be in
 * it.  A run that was made here replaces a record, which was not good enough to be used. */
static int is_recorded(const char *dir, const char *to)
{
    if (!kvsi_run_has(dir, KVSI_TAKEN))
        return 0;
    return !kvsi_run_has(dir, KVSI_MEASURED) || kvsi_run_has(to, KVSI_MEASURED);
}

kvs_status kvsi_record_run(const char *dir, const kvsi_planned *run, const char *experiment,
                           const kvs_repro_options *options, kvs_err *err)
{
    char name[128];
    char *folder = NULL, *to = NULL;
    int made;
    kvs_status st = KVS_OK;

    if (!options->records)
        return KVS_OK;
    snprintf(name, sizeof name, "%s-%s", experiment, kvs_scale_name(options->scale));
    folder = kvsi_path_join(options->records, name);
    to = folder ? kvsi_run_dir(folder, run->name) : NULL;
    if (!to) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for the record of '%s'", run->name);
        goto out;
    }
    if (is_recorded(dir, to))
        goto out;
    TRY_OUT(kvsi_dir_make(to, &made, err));
    TRY_OUT(copy(options->out, folder, "plan.json", err));
    st = fill(dir, to, run, err);
out:
    kvsi_free(to);
    kvsi_free(folder);
    return st;
}
