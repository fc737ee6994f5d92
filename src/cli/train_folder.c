#include "cli/train_folder.h"

#include "base/checksum.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "cli/options/options_config.h"
#include "kvshift/kvshift_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char kvsi_resolved_file[] = "config.resolved.toml", kvsi_sources_file[] = "sources.json";

/* Appends a value as the content of a file and releases it. */
static void add_json(kvsi_text *text, json_t *value)
{
    char *words = value ? json_dumps(value, JSON_INDENT(2)) : NULL;

    if (words && !kvsi_nomem_is_set())
        kvsi_text_format(text, "%s\n", words);
    else
        text->failed = 1;
    free(words);
    json_decref(value);
}

json_t *kvsi_sources_json(const kvs_corpus *corpus)
{
    json_t *list = json_array();
    uint64_t bytes, checksum;
    const char *name;

    for (size_t i = 0; (name = kvs_corpus_source(corpus, i, &bytes, &checksum)); i++) {
        char sum[KVSI_CHECKSUM_TEXT];

        kvsi_checksum_print(sum, checksum);
        json_array_append_new(list, json_pack("{s:o, s:I, s:s}", "name", kvsi_json_path(name),
                                              "bytes", (json_int_t)bytes, "checksum", sum));
    }
    return list;
}

/* The same list for a text file and the file of --valid-data. */
static json_t *record_sources(const kvsi_train_setup *w, const kvsi_train_options *s)
{
    const char *const paths[] = {s->data, s->valid_data};
    json_t *list = json_array();

    for (size_t i = 0; i < 2 && paths[i]; i++) {
        const kvs_records_split *file = &w->records.split[i];
        char sum[KVSI_CHECKSUM_TEXT];

        kvsi_checksum_print(sum, file->checksum);
        json_array_append_new(list, json_pack("{s:o, s:I, s:s}", "name", kvsi_json_path(paths[i]),
                                              "bytes", (json_int_t)file->bytes, "checksum", sum));
    }
    return list;
}

static void add_environment(kvsi_text *text, const kvs_runtime *rt)
{
    json_t *facts = kvsi_cli_version_json(rt);
    char processor[128], now[32];

    kvsi_machine_processor(processor, sizeof processor);
    kvsi_machine_time(now, sizeof now);
    json_object_set_new(facts, "processor", json_string(processor));
    json_object_set_new(facts, "started", json_string(now));
    add_json(text, facts);
}

kvs_status kvsi_run_files_make(kvsi_run_files *out, const kvsi_train_options *s,
                               const kvsi_parsed_options *parsed, const char *line,
                               const kvsi_train_setup *w, kvs_err *err)
{
    kvsi_train_options run = *s; /* with the same configurations */

    *out = (kvsi_run_files){0};
    run.resume = NULL; /* belongs to this start, not to the run */
    kvsi_options_print_config(&out->settings, &kvsi_train_command, &run, parsed);
    kvsi_text_format(&out->command, "%s\n", line);
    add_environment(&out->environment, w->rt);
    if (s->data)
        add_json(&out->sources,
                 json_pack("{s:o, s:o}", "data", kvsi_json_path(s->data), "sources",
                           w->corpus ? kvsi_sources_json(w->corpus) : record_sources(w, s)));
    TRY(kvsi_text_check(&out->settings, err));
    TRY(kvsi_text_check(&out->command, err));
    TRY(kvsi_text_check(&out->environment, err));
    out->list[0] = (kvs_run_file){kvsi_resolved_file, out->settings.data, 0};
    out->list[1] = (kvs_run_file){"command.txt", out->command.data, 1};
    out->list[2] = (kvs_run_file){"env.json", out->environment.data, 0};
    out->count = 3;
    if (s->data) {
        TRY(kvsi_text_check(&out->sources, err));
        out->list[out->count++] = (kvs_run_file){kvsi_sources_file, out->sources.data, 0};
    }
    if (w->chat_template) /* with which 'kvshift chat' then talks to the model */
        out->list[out->count++] =
            (kvs_run_file){"chat_template.jinja", kvs_chat_template_text(w->chat_template), 0};
    return KVS_OK;
}

void kvsi_run_files_release(kvsi_run_files *files)
{
    kvsi_text_release(&files->settings);
    kvsi_text_release(&files->command);
    kvsi_text_release(&files->environment);
    kvsi_text_release(&files->sources);
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* The settings given now and those of the run, with the sources of their values. */
typedef struct merge {
    kvsi_train_options *given, run;
    kvsi_parsed_options *parsed, run_parsed;
} merge;

/* Reads the run's config.resolved.toml.  It has every option, except the model options of a run
 * that was started with --init-from. */
static kvs_status read_run(merge *m, const char *path, kvs_err *err)
{
    const kvsi_command_options *const command = &kvsi_train_command;
    const kvsi_word given = kvsi_model_word(m->given->model, "body");
    const char *body;

    m->run_parsed = (kvsi_parsed_options){.config = path};
    TRY(kvsi_options_read_file(&m->run_parsed, command, err));
    body = kvsi_model_body(&m->run_parsed, command);
    TRY(kvsi_train_set_defaults(&m->run, body ? body : given.text, err));
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
    char *path = kvsi_path_join(s->out, kvsi_resolved_file);
    merge m = {.given = s, .parsed = parsed};
    kvsi_train_options given;
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
    given = *s;
    *s = m.run;
    m.run = given;
out:
    kvsi_options_free_configs(&kvsi_train_command, &m.run);
    kvsi_options_release(&m.run_parsed);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_train_check_out(const kvsi_train_options *s, kvs_err *err)
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
