/* What can be made of several runs: JSON, curves, a page.  JSON comes first, as it needs no other
 * program. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "report/page.h"
#include "report/plot.h"

static json_t *run_to_json(const kvsi_run *run)
{
    const kvs_run_summary *s = &run->summary;

    /* clang-format off */
    return json_pack("{s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:s}",
                     "name", s->name,
                     "layers", (json_int_t)s->layers,
                     "shift", s->shift,
                     "dim", (json_int_t)s->dim,
                     "heads", (json_int_t)s->heads,
                     "parameters", (json_int_t)s->parameters,
                     "steps", (json_int_t)s->steps,
                     "final_accuracy", kvsi_json_number(s->final_accuracy),
                     "final_loss", kvsi_json_number(s->final_loss),
                     "step_at_99",
                     s->step_at_99 ? json_integer((json_int_t)s->step_at_99) : json_null(),
                     "seconds", kvsi_json_number(s->seconds),
                     "command", run->command);
    /* clang-format on */
}

static kvs_status write_json(const char *path, const char *title, const kvsi_run *runs,
                             size_t count, kvs_err *err)
{
    json_t *models = json_array(), *report;
    int failed = 0;
    kvs_status st;

    for (size_t i = 0; i < count; i++)
        failed |= json_array_append_new(models, run_to_json(runs + i));
    report = json_pack("{s:s, s:o}", "title", title, "models", models);
    if (failed || !report)
        st = kvsi_fail(err, KVS_E_INVALID,
                       "'%s': a title, name or command is not UTF-8, or memory ran out", path);
    else
        st = kvsi_json_write(report, path, err);
    json_decref(report);
    return st;
}

static kvs_status write_curves(const kvs_report_options *options, const char *title,
                               const kvsi_run *runs, size_t count, kvs_err *err)
{
    kvsi_text page = {0};
    char *svg = NULL;
    kvs_status st;

    KVS_TRY(kvsi_plot_accuracy(&svg, runs, count, err));
    if (options->svg)
        KVS_TRY(kvsi_file_write_text(options->svg, svg, err));
    if (options->html) {
        kvsi_page_render(&page, title, runs, count, svg);
        KVS_TRY(kvsi_text_check(&page, err));
        KVS_TRY(kvsi_file_write_text(options->html, page.data, err));
    }
out:
    kvsi_text_release(&page);
    kvsi_free(svg);
    return st;
}

kvs_status kvs_report_runs(const char *const *dirs, size_t count, const kvs_report_options *options,
                           kvs_err *err)
{
    const char *title = options->title ? options->title : "Training runs";
    kvs_status st = KVS_OK;
    kvsi_run *runs;

    if (count == 0)
        return kvsi_fail(err, KVS_E_INVALID, "expected at least 1 run, found 0");
    runs = kvsi_alloc(count, sizeof *runs);
    if (!runs)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu runs", count);
    for (size_t i = 0; i < count; i++)
        KVS_TRY(kvsi_run_open(runs + i, dirs[i], err));
    if (options->json)
        KVS_TRY(write_json(options->json, title, runs, count, err));
    if (options->html || options->svg)
        KVS_TRY(write_curves(options, title, runs, count, err));
out:
    for (size_t i = 0; i < count; i++)
        kvsi_run_close(runs + i);
    kvsi_free(runs);
    return st;
}
