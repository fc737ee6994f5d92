#include "repro/reuse.h"

#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "report/run.h"
#include "report/settings.h"
#include "repro/execute.h"
#include "repro/experiment_folder.h"
#include "repro/records.h"
#include "repro/texts.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t FILE_LIMIT = (size_t)1 << 40;
enum { PLAN_LIMIT = 1 << 20 };

/* What is searched for. */
typedef struct search {
    const kvsi_wanted *wanted;
    json_t *texts; /* NULL = not trained on text */
    int is_own;    /* the experiment that is searched is the wanted one */
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

/* It was evaluated at every step the experiment needs, on as many sequences, on this CPU level. */
static int has_same_log(const char *dir, const kvsi_wanted *w, int diverged)
{
    const uint64_t every = diverged ? 0 : w->run->eval_every;
    kvsi_run log = {0};
    const char *sequences;
    int same = kvsi_run_open(&log, dir, NULL) == KVS_OK;

    sequences = same ? kvsi_run_setting(log.settings, "eval sequences") : NULL;
    same = sequences && strtoull(sequences, NULL, 10) == w->eval_sequences;
    for (uint64_t step = every; same && every > 0 && step <= w->run->train.steps; step += every)
        same = isfinite(kvsi_run_loss_at(&log, step));
    if (same && !w->options->allow_level_change)
        same = strcmp(log.cpu_level, w->cpu_level) == 0;
    kvsi_run_close(&log);
    return same;
}

/* It has what the experiment will read: its own measurement, or a model to measure or continue. */
static int has_enough(const char *dir, const search *s)
{
    const kvsi_wanted *w = s->wanted;

    if (*w->run->base && !s->is_own) /* a base of that name may be another */
        return 0;
    if (w->run->is_base)
        return kvsi_run_has(dir, KVSI_RUN_MODEL);
    if (!w->experiment->measure)
        return 1;
    if (s->is_own && kvsi_run_has(dir, KVSI_MEASURED))
        return 1;
    return !w->run->keeps_checkpoints && kvsi_run_has(dir, KVSI_RUN_MODEL);
}

static int is_same(const char *dir, const search *s)
{
    const kvsi_wanted *w = s->wanted;
    const kvs_run_state state = kvsi_run_state(dir, w->run->train.steps);

    if (state == KVS_RUN_DIVERGED)
        return has_same_plan(dir, w->planned) && has_same_log(dir, w, 1);
    return state == KVS_RUN_DONE && has_same_plan(dir, w->planned) && has_enough(dir, s) &&
           has_same_log(dir, w, 0);
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

/* Marks the copy: its time is not that of this experiment. */
static kvs_status mark(const char *to, const char *from, kvs_err *err)
{
    char *path = kvsi_path_join(to, KVSI_TAKEN);
    json_t *json = json_pack("{s:s}", "from", from);
    const kvs_status st = path ? kvsi_json_write(json, path, err)
                               : kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", to);

    json_decref(json);
    kvsi_free(path);
    return st;
}

/* planned.json is copied first, and result.json, which marks a run as finished, last. */
static kvs_status copy_run(const char *from, const char *to, const search *s, kvs_err *err)
{
    int made;

    TRY(kvsi_dir_make(to, &made, err));
    TRY(copy_file(from, to, KVSI_PLANNED, err));
    TRY(mark(to, from, err));
    if (s->is_own)
        TRY(copy_file(from, to, KVSI_MEASURED, err));
    for (const char *const *name = kvsi_run_final_files; *name; name++)
        TRY(copy_file(from, to, *name, err));
    return copy_file(from, to, KVSI_RUN_DIVERGED, err);
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

static char *find(search *s, const char *folder)
{
    kvsi_name_list names = {0};
    char *found = NULL;

    if (!folder || kvsi_dir_list(&names, folder, "", NULL) != KVS_OK)
        return NULL;
    for (size_t i = 0; !found && i < names.count; i++) {
        char *experiment = kvsi_path_join(folder, names.names[i]);

        if (experiment && kvsi_experiment_has_texts(experiment, s->texts)) {
            s->is_own = kvsi_experiment_is(experiment, s->wanted->experiment->about.name);
            found = find_in(experiment, s);
        }
        kvsi_free(experiment);
    }
    kvsi_name_list_release(&names);
    return found;
}

static void report(const kvsi_wanted *w, const char *from)
{
    char line[512];

    snprintf(line, sizeof line, "'%s' is taken over from '%s'", w->run->name, from);
    if (w->options->notice)
        w->options->notice(w->options->user, line);
}

kvs_status kvsi_reuse(int *taken, const char *dir, const kvsi_wanted *wanted, kvs_err *err)
{
    const kvs_repro_options *options = wanted->options;
    search s = {.wanted = wanted};
    char *from = NULL;
    kvs_status st = KVS_OK;

    *taken = 0;
    if (!options->reuse && !options->records)
        return KVS_OK;
    if (wanted->run->task == kvsi_text_task)
        TRY_OUT(kvsi_texts_describe(&s.texts, options, err));
    from = find(&s, options->reuse);
    if (!from)
        from = find(&s, options->records);
    if (!from)
        goto out;
    TRY_OUT(copy_run(from, dir, &s, err));
    report(wanted, from);
    *taken = 1;
out:
    json_decref(s.texts);
    kvsi_free(from);
    return st;
}
