#include "cli/train_resume.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/options_config.h"
#include "cli/run_files.h"

#include <string.h>

/* Options of one start of the command; a resumed run does not take them from its folder. */
static const char *const of_this_start[] = {"out",     "resume", "max-time", "show",      "dry-run",
                                            "profile", "quiet",  "json",     "overcommit"};
/* Options of the run that may change when it is resumed.  None of them changes what a step
 * computes, except that the schedule ends with `steps`, and that `cpu-level`, `shard` and
 * `deterministic` may change the last bits. */
static const char *const may_change[] = {"steps",        "eval-every",       "eval-sequences",
                                         "sample-every", "sample-prompt",    "sample-tokens",
                                         "sample-temp",  "checkpoint-every", "keep",
                                         "threads",      "cpu-level",        "recompute",
                                         "shard",        "deterministic",    "rank-timeout"};

#define IS_AMONG(names, name) is_among(names, sizeof(names) / sizeof *(names), name)

static int is_among(const char *const *names, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

/* The settings given now and those of the run, each with the sources of their values. */
typedef struct merge {
    kvsi_train_settings *given, run;
    kvsi_parsed_options *parsed, run_parsed;
} merge;

/* ---- the run's settings ---------------------------------------------------------------------- */

/* Reads the run's config.resolved.toml.  It has every option, except the model options of a run
 * that was started with --init-from. */
static kvs_status read_run(merge *m, const char *path, kvs_err *err)
{
    kvs_body body = m->given->model.body;

    for (int again = 0; again < 2; again++) { /* the body decides the defaults of the rest */
        kvsi_options_release(&m->run_parsed);
        m->run_parsed = (kvsi_parsed_options){.config = path};
        kvsi_train_set_defaults(&m->run, body);
        TRY(kvsi_options_read_file(&m->run_parsed, &kvsi_train_command, &m->run, err));
        if (!again && kvsi_train_is_given(&m->run_parsed, "body"))
            TRY(kvs_body_parse(&body, m->run.body, err));
    }
    return KVS_OK;
}

/* ---- option by option ------------------------------------------------------------------------ */

static void keep_given(merge *m, size_t index)
{
    const kvsi_option *option = kvsi_train_command.options + index;

    kvsi_option_copy(option, &m->run, m->given);
    if (m->parsed->source[index] == KVSI_FROM_FILE) /* of --config, which the command line names */
        m->parsed->source[index] = KVSI_FROM_COMMAND_LINE;
    m->parsed->line[index] = 0;
}

static void take_runs(merge *m, size_t index)
{
    m->parsed->source[index] = m->run_parsed.source[index];
    m->parsed->line[index] = m->run_parsed.line[index];
    kvsi_free(m->parsed->texts[index]);
    m->parsed->texts[index] = m->run_parsed.texts[index];
    m->run_parsed.texts[index] = NULL;
}

/* Fails if the option was given with another value than the run has.  0 stands for "automatic" and
 * agrees with every value. */
static kvs_status check_same(const merge *m, const kvsi_option *option, kvs_err *err)
{
    kvsi_text ours = {0}, theirs = {0};
    kvs_status st;

    kvsi_option_print(&ours, option, m->given);
    kvsi_option_print(&theirs, option, &m->run);
    TRY_OUT(kvsi_text_check(&ours, err));
    TRY_OUT(kvsi_text_check(&theirs, err));
    if (strcmp(ours.data, theirs.data) != 0 && !(option->automatic && strcmp(ours.data, "0") == 0))
        st = kvsi_fail(err, KVS_E_INVALID, "option '--%s' is %s, but the run in '%s' has %s",
                       option->name, ours.data, m->given->out, *theirs.data ? theirs.data : "none");
out:
    kvsi_text_release(&ours);
    kvsi_text_release(&theirs);
    return st;
}

static kvs_status merge_option(merge *m, size_t index, kvs_err *err)
{
    const kvsi_option *option = kvsi_train_command.options + index;
    const int is_given = kvsi_option_is_given(m->parsed, index);
    const int is_models = m->run.init_from && kvsi_is_model_option(option);

    if (IS_AMONG(of_this_start, option->name) ||
        (is_given && (is_models || IS_AMONG(may_change, option->name)))) {
        keep_given(m, index);
        return KVS_OK;
    }
    if (is_given)
        TRY(check_same(m, option, err));
    take_runs(m, index);
    return KVS_OK;
}

/* ---- all of them ----------------------------------------------------------------------------- */

kvs_status kvsi_train_take_run(kvsi_train_settings *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    char *path = kvsi_path_join(s->out, kvsi_resolved_file);
    merge m = {.given = s, .parsed = parsed};
    char **const owned = &parsed->texts[kvsi_train_command.count]; /* of the row --config */
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", s->out);
    if (!kvsi_file_exists(path))
        goto out;
    TRY_OUT(read_run(&m, path, err));
    for (size_t i = 0; i < kvsi_train_command.count; i++)
        TRY_OUT(merge_option(&m, i, err));
    parsed->config = path;
    parsed->preset = m.run.preset;
    kvsi_free(*owned);
    *owned = path;
    path = NULL;
    *s = m.run;
out:
    kvsi_options_release(&m.run_parsed);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_train_check_out(const kvsi_train_settings *s, kvs_err *err)
{
    const char *file;

    if (!s->out || s->resume)
        return KVS_OK;
    TRY(kvs_run_find(&file, s->out, err));
    if (file)
        return kvsi_fail(err, KVS_E_IO,
                         "'%s' already holds a run ('%s'); --resume continues it, another --out "
                         "starts a new one",
                         s->out, file);
    return KVS_OK;
}
