#include "cli/train_resume.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/options_config.h"

#include <string.h>

/* The settings given now and those of the run, each with the sources of their values. */
typedef struct merge {
    kvsi_train_options *given, run;
    kvsi_parsed_options *parsed, run_parsed;
} merge;

/* Reads the run's config.resolved.toml.  It has every option, except the model options of a run
 * that was started with --init-from. */
static kvs_status read_run(merge *m, const char *path, kvs_err *err)
{
    const kvsi_command_options *const command = &kvsi_train_command;
    kvs_body body = m->given->model.body;
    const char *name;

    m->run_parsed = (kvsi_parsed_options){.config = path};
    TRY(kvsi_options_read_file(&m->run_parsed, command, err));
    name = kvsi_option_text(&m->run_parsed, kvsi_command_index(command, "body"));
    if (name)
        TRY(kvs_body_parse(&body, name, err));
    kvsi_train_set_defaults(&m->run, body);
    return kvsi_options_apply(&m->run_parsed, command, &m->run, err);
}

/* An option keeps the value given now if it belongs to this start of the command, if a resumed run
 * may change it, or if it describes the model that the run started from.  All others have the run's
 * value, and must not be given with another one. */
static kvs_status merge_option(merge *m, size_t index, kvs_err *err)
{
    const kvsi_setting row = kvsi_command_row(&kvsi_train_command, index);
    const int is_given = kvsi_option_is_given(m->parsed, index);
    const int is_models = m->run.init_from && kvsi_is_model_option(&row);

    if ((row.use & KVSI_PER_START) || (is_given && (is_models || (row.use & KVSI_MAY_CHANGE)))) {
        kvsi_setting_copy(&row, &m->run, m->given);
        if (m->parsed->source[index] == KVSI_FROM_FILE) /* of --config, on the command line */
            m->parsed->source[index] = KVSI_FROM_COMMAND_LINE;
        m->parsed->line[index] = 0;
        return KVS_OK;
    }
    if (is_given)
        TRY(kvsi_train_compare(&row, m->given, &m->run, "the run in", m->given->out, err));
    m->parsed->source[index] = m->run_parsed.source[index];
    m->parsed->line[index] = m->run_parsed.line[index];
    return KVS_OK;
}

kvs_status kvsi_train_take_run(kvsi_train_options *s, kvsi_parsed_options *parsed, kvs_err *err)
{
    char *path = kvsi_path_join(s->out, "config.resolved.toml");
    merge m = {.given = s, .parsed = parsed};
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", s->out);
    if (!kvsi_file_exists(path))
        goto out;
    TRY_OUT(read_run(&m, path, err));
    for (size_t i = 0; i < kvsi_command_count(&kvsi_train_command); i++)
        TRY_OUT(merge_option(&m, i, err));
    kvsi_options_keep(parsed, &m.run_parsed); /* whose texts the run's values use */
    parsed->preset = m.run.preset;
    parsed->config = parsed->owned = path;
    path = NULL;
    *s = m.run;
out:
    kvsi_options_release(&m.run_parsed);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_train_check_out(const kvsi_train_options *s, kvs_err *err)
{
    static const char *const names[] = {"train.jsonl", "model.safetensors"};
    kvs_status st = KVS_OK;

    for (size_t i = 0; s->out && !s->resume && i < sizeof names / sizeof *names; i++) {
        char *path = kvsi_path_join(s->out, names[i]);

        if (!path)
            return kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", s->out);
        if (st == KVS_OK && kvsi_file_exists(path))
            st = kvsi_fail(err, KVS_E_IO,
                           "'%s' already holds a run ('%s'); --resume continues it, another --out "
                           "starts a new one",
                           s->out, names[i]);
        kvsi_free(path);
    }
    return st;
}
