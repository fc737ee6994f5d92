#include "repro/reuse.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "report/run.h"
#include "report/settings.h"
#include "repro/execute.h"
#include "repro/experiment_folder.h"
#include "repro/texts.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t FILE_LIMIT = (size_t)1 << 40;
enum { PLAN_LIMIT = 1 << 20 };

/* The wanted run. */
typedef struct search {
    const char *planned;
    const kvsi_planned *run;
    size_t eval_sequences;
    const kvs_repro_options *options;
    json_t *texts; /* NULL = not trained on text */
} search;

/* ---- is it the same run? --------------------------------------------------------------------- */

static int has_same_plan(const char *dir, const char *planned)
{
    char *path = kvsi_path_join(dir, KVSI_PLANNED), *text = NULL;
    size_t size = 0;
    const int same = path && kvsi_file_read(&text, &size, path, PLAN_LIMIT, NULL) == KVS_OK &&
                     kvsi_planned_same(text, planned);

    kvsi_free(text);
    kvsi_free(path);
    return same;
}

/* It was evaluated at every step the experiment needs, on as many sequences. */
static int has_same_evaluations(const char *dir, const search *s)
{
    const uint64_t every = s->run->eval_every;
    kvsi_run log = {0};
    const char *sequences;
    int same = kvsi_run_open(&log, dir, NULL) == KVS_OK;

    sequences = same ? kvsi_run_setting(log.settings, "eval sequences") : NULL;
    same = sequences && strtoull(sequences, NULL, 10) == s->eval_sequences;
    for (uint64_t step = every; same && every > 0 && step <= s->run->train.steps; step += every)
        same = isfinite(kvsi_run_loss_at(&log, step));
    kvsi_run_close(&log);
    return same;
}

static int is_same(const char *dir, const search *s)
{
    return has_same_plan(dir, s->planned) &&
           kvsi_run_state(dir, s->run->train.steps) == KVS_RUN_DONE && has_same_evaluations(dir, s);
}

/* ---- taking it over -------------------------------------------------------------------------- */

static kvs_status copy_file(const char *from, const char *to, const char *name, kvs_err *err)
{
    char *source = kvsi_path_join(from, name), *target = kvsi_path_join(to, name), *data = NULL;
    kvsi_new_file *file = NULL;
    size_t size;
    kvs_status st = KVS_OK;

    if (!source || !target) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", name);
        goto out;
    }
    if (!kvsi_file_exists(source) || kvsi_is_folder(source))
        goto out;
    TRY_OUT(kvsi_file_read(&data, &size, source, FILE_LIMIT, err));
    TRY_OUT(kvsi_new_file_open(&file, target, err));
    TRY_OUT(kvsi_new_file_write(file, data, size, err));
    st = kvsi_new_file_commit(file, err);
    file = NULL;
out:
    kvsi_new_file_abandon(file);
    kvsi_free(data);
    kvsi_free(source);
    kvsi_free(target);
    return st;
}

/* planned.json is copied first, and result.json, which marks a run as finished, last.
 * measured.json is not copied: it belongs to the other experiment. */
static kvs_status copy_run(const char *from, const char *to, kvs_err *err)
{
    int made;

    TRY(kvsi_dir_make(to, &made, err));
    TRY(copy_file(from, to, KVSI_PLANNED, err));
    for (const char *const *name = kvsi_run_final_files; *name; name++)
        TRY(copy_file(from, to, *name, err));
    return KVS_OK;
}

/* ---- looking for it -------------------------------------------------------------------------- */

/* Folder of the wanted run in `experiment` (kvsi_free), or NULL. */
static char *find_in(const char *experiment, const search *s)
{
    char *runs = kvsi_path_join(experiment, "runs"), *found = NULL;
    kvsi_name_list names = {0};

    if (runs && kvsi_dir_list(&names, runs, "", NULL) == KVS_OK)
        for (size_t i = 0; !found && i < names.count; i++) {
            char *dir = kvsi_path_join(runs, names.names[i]);

            if (dir && is_same(dir, s))
                found = dir;
            else
                kvsi_free(dir);
        }
    kvsi_name_list_release(&names);
    kvsi_free(runs);
    return found;
}

static char *find(const search *s)
{
    const char *reuse = s->options->reuse;
    kvsi_name_list names = {0};
    char *found = NULL;

    if (kvsi_dir_list(&names, reuse, "", NULL) != KVS_OK)
        return NULL;
    for (size_t i = 0; !found && i < names.count; i++) {
        char *experiment = kvsi_path_join(reuse, names.names[i]);

        if (experiment && kvsi_experiment_has_texts(experiment, s->texts))
            found = find_in(experiment, s);
        kvsi_free(experiment);
    }
    kvsi_name_list_release(&names);
    return found;
}

static void report(const search *s, const char *from)
{
    char line[512];

    snprintf(line, sizeof line, "'%s' is taken over from '%s'", s->run->name, from);
    if (s->options->notice)
        s->options->notice(s->options->user, line);
}

kvs_status kvsi_reuse(int *taken, const char *dir, const char *planned, const kvsi_planned *run,
                      size_t eval_sequences, const kvs_repro_options *options, kvs_err *err)
{
    search s = {planned, run, eval_sequences, options, NULL};
    char *from = NULL;
    kvs_status st = KVS_OK;

    *taken = 0;
    if (!options->reuse || run->keeps_checkpoints)
        return KVS_OK;
    if (run->task == kvsi_text_task)
        TRY_OUT(kvsi_texts_describe(&s.texts, options, err));
    from = find(&s);
    if (!from)
        goto out;
    TRY_OUT(copy_run(from, dir, err));
    report(&s, from);
    *taken = 1;
out:
    json_decref(s.texts);
    kvsi_free(from);
    return st;
}
