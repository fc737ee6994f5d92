#include "cli/train_folder.h"

#include "base/checksum.h"
#include "base/machine.h"
#include "base/memory.h"
#include "base/options_config.h"
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

const char kvsi_sources_file[] = "sources.json";

/* Adds the value, whose reference it takes, as a file has it. */
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
    kvsi_train_options run = *s;

    *out = (kvsi_run_files){0};
    run.resume = NULL; /* this time's business, not the run's */
    kvsi_options_print_config(&out->settings, &kvsi_train_command, &run, parsed);
    kvsi_text_format(&out->command, "%s\n", line);
    add_environment(&out->environment, w->rt);
    if (w->corpus)
        add_json(&out->sources, json_pack("{s:o, s:o}", "data", kvsi_json_path(s->data), "sources",
                                          kvsi_sources_json(w->corpus)));
    TRY(kvsi_text_check(&out->settings, err));
    TRY(kvsi_text_check(&out->command, err));
    TRY(kvsi_text_check(&out->environment, err));
    out->list[0] = (kvs_run_file){"config.resolved.toml", out->settings.data, 0};
    out->list[1] = (kvs_run_file){"command.txt", out->command.data, 1};
    out->list[2] = (kvs_run_file){"env.json", out->environment.data, 0};
    out->count = 3;
    if (w->corpus) {
        TRY(kvsi_text_check(&out->sources, err));
        out->list[out->count++] = (kvs_run_file){kvsi_sources_file, out->sources.data, 0};
    }
    return KVS_OK;
}

void kvsi_run_files_release(kvsi_run_files *files)
{
    kvsi_text_release(&files->settings);
    kvsi_text_release(&files->command);
    kvsi_text_release(&files->environment);
    kvsi_text_release(&files->sources);
}
