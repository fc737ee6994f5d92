/* kvshift data: builds, describes and checks corpora. */
#include "cli/cli.h"
#include "cli/default_out.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/train_folder.h"
#include "kvshift/kvshift_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct data_settings {
    const char *tokenizer, *out, *field, *separator, *eos;
    double valid;
    uint64_t seed, shard_tokens;
    int overwrite, quiet;
    size_t vocab; /* info and check */
    int json;
} data_settings;

#define FIELD(name) offsetof(data_settings, name)

/* ---- options --------------------------------------------------------------------------------- */

static const char *const yes_or_no[] = {"yes", "no", NULL};

static const kvsi_setting build_rows[] = {
    {.name = "tokenizer",
     .letter = 't',
     .kind = KVSI_SETTING_TEXT,
     .offset = FIELD(tokenizer),
     .group = "Options",
     .placeholder = "FILE",
     .help = "tokenizer of the corpus, or 'bytes'; required"},
    {.name = "out",
     .kind = KVSI_SETTING_TEXT,
     .offset = FIELD(out),
     .group = "Options",
     .placeholder = "DIR",
     .help = "folder of the corpus, new or empty",
     .automatic = "corpora/NAME; NAME is that of the first FILE"},
    {.name = "overwrite",
     .kind = KVSI_SETTING_FLAG,
     .offset = FIELD(overwrite),
     .group = "Options",
     .help = "replace an existing corpus"},
    {.name = "quiet",
     .kind = KVSI_SETTING_FLAG,
     .offset = FIELD(quiet),
     .group = "Options",
     .help = "no progress on standard error"},
    {.name = "json",
     .kind = KVSI_SETTING_FLAG,
     .offset = FIELD(json),
     .group = "Options",
     .help = "print what the corpus contains as one JSON object"},
    {.name = "separator",
     .kind = KVSI_SETTING_TEXT,
     .offset = FIELD(separator),
     .group = "Documents",
     .placeholder = "TEXT",
     .help = "separator between the documents of a text file; '' = each file is one document",
     .may_be_empty = 1,
     .automatic = "<|endoftext|>"},
    {.name = "field",
     .kind = KVSI_SETTING_TEXT,
     .offset = FIELD(field),
     .group = "Documents",
     .placeholder = "NAME",
     .help = "field of a .jsonl line that holds the document",
     .automatic = "text"},
    {.name = "eos",
     .kind = KVSI_SETTING_CHOICE,
     .offset = FIELD(eos),
     .group = "Documents",
     .placeholder = "ANSWER",
     .choices = yes_or_no,
     .help = "add the tokenizer's EOS after each document",
     .automatic = "yes if it has one"},
    {.name = "valid",
     .kind = KVSI_SETTING_REAL,
     .offset = FIELD(valid),
     .group = "Split",
     .placeholder = "FRACTION",
     .help = "fraction of the documents held out for validation; a single document is split by "
             "position",
     .high = 0.9},
    {.name = "seed",
     .kind = KVSI_SETTING_UINT64,
     .offset = FIELD(seed),
     .group = "Split",
     .placeholder = "N",
     .help = "seed of the random split"},
    {.name = "shard-tokens",
     .kind = KVSI_SETTING_UINT64,
     .offset = FIELD(shard_tokens),
     .group = "Split",
     .placeholder = "N",
     .help = "start a new shard file once one has this many tokens",
     .low = 1},
};

static const kvsi_command_options build_options = {
    .command = "kvshift data build",
    .purpose =
        "Encodes text files into a corpus folder to train on.  Each line of a .jsonl file and "
        "each object of a .json file is a document; any other file is text, with separators "
        "between its documents.  Files may be compressed (.gz, .zst) and larger than memory.  A "
        "folder stands for the texts in it and in its subfolders, and - for standard input, where "
        "text, JSON and compression are recognized.",
    .examples = "  kvshift data build book.txt -t book.json\n"
                "  kvshift data build texts/ more.jsonl.zst -t book.json --out corpora/all\n"
                "  curl -s https://example.org/book.txt | kvshift data build - -t book.json "
                "--out corpora/book\n",
    .argument = "FILE",
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .tables = KVSI_OPTIONS(build_rows),
    .takes_config = 1,
};

static const kvsi_setting read_rows[] = {
    {.name = "vocab",
     .kind = KVSI_SETTING_SIZE,
     .offset = FIELD(vocab),
     .group = "Options",
     .placeholder = "N",
     .help = "vocabulary size, for files of llm.c or nanoGPT, which do not contain it",
     .automatic = "from CORPUS",
     .low = 1},
    {.name = "json",
     .kind = KVSI_SETTING_FLAG,
     .offset = FIELD(json),
     .group = "Options",
     .help = "print one JSON object"},
};

static const kvsi_command_options info_options = {
    .command = "kvshift data info",
    .purpose =
        "Prints what a corpus contains.  CORPUS is a folder of 'kvshift data build', a shard "
        "in one, or a .bin file of llm.c or nanoGPT.",
    .argument = "CORPUS",
    .min_arguments = 1,
    .max_arguments = 1,
    .tables = KVSI_OPTIONS(read_rows),
};

static const kvsi_command_options check_options = {
    .command = "kvshift data check",
    .purpose =
        "Reads all of a corpus and checks its checksums, ids, document starts and tokenizer.  "
        "Fails with one line that describes the first error.",
    .argument = "CORPUS",
    .min_arguments = 1,
    .max_arguments = 1,
    .tables = KVSI_OPTIONS(read_rows),
};

/* ---- info ------------------------------------------------------------------------------------ */

static const char *const split_names[] = {[KVS_SPLIT_TRAIN] = "train", [KVS_SPLIT_VALID] = "valid"};
static const char *const rule_names[] = {[KVS_SPLIT_NONE] = "none",
                                         [KVS_SPLIT_BY_DOCUMENT] = "document",
                                         [KVS_SPLIT_BY_POSITION] = "position"};

enum { SPLITS = sizeof split_names / sizeof *split_names };

static void print_split_rule(const kvs_corpus_info *info)
{
    switch (info->rule) {
    case KVS_SPLIT_NONE:
        return;
    case KVS_SPLIT_BY_DOCUMENT:
        printf("split      %g %% of the documents for validation, seed %" PRIu64 "\n",
               100 * info->valid, info->seed);
        return;
    case KVS_SPLIT_BY_POSITION:
        printf("split      a single document: its last %g %% for validation\n", 100 * info->valid);
        return;
    }
}

static void print_sources(const kvs_corpus *corpus)
{
    uint64_t bytes, checksum, all = 0;
    char text[32];
    size_t count = 0;

    for (; kvs_corpus_source(corpus, count, &bytes, &checksum); count++)
        all += bytes;
    if (count == 0)
        return;
    kvsi_format_count(text, sizeof text, (double)all);
    printf("sources    %zu file%s, %sB\n", count, count == 1 ? "" : "s", text);
}

static void print_info(const kvs_corpus *corpus)
{
    const kvs_corpus_info *info = kvs_corpus_get_info(corpus);

    printf("format     %s, %zu-bit ids\n", info->format, 8 * info->id_bytes);
    printf("vocabulary %zu\n", info->vocab);
    if (info->tokenizer)
        printf("tokenizer  %s (%016" PRIx64 ")%s\n", info->tokenizer, info->tokenizer_hash,
               info->eos ? ", EOS ends each document" : "");
    print_split_rule(info);
    print_sources(corpus);
    printf("%-10s %14s %12s %14s %8s\n", "", "tokens", "documents", "longest", "shards");
    for (int s = 0; s < SPLITS; s++)
        printf("%-10s %14" PRIu64 " %12" PRIu64 " %14" PRIu64 " %8zu\n", split_names[s],
               info->split[s].tokens, info->split[s].documents, info->split[s].longest,
               info->split[s].shards);
}

static json_t *hash_to_json(uint64_t hash)
{
    char text[17];

    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return json_string(text);
}

static json_t *info_to_json(const kvs_corpus *corpus)
{
    const kvs_corpus_info *info = kvs_corpus_get_info(corpus);
    json_t *rule = json_pack("{s:s, s:f, s:I}", "by", rule_names[info->rule], "valid", info->valid,
                             "seed", (json_int_t)info->seed);
    json_t *value =
        json_pack("{s:s, s:I, s:I, s:s?, s:o, s:b, s:o, s:o}", "format", info->format, "vocab",
                  (json_int_t)info->vocab, "id_bytes", (json_int_t)info->id_bytes, "tokenizer",
                  info->tokenizer, "tokenizer_hash", hash_to_json(info->tokenizer_hash), "eos",
                  info->eos, "split", rule, "sources", kvsi_sources_json(corpus));

    for (int s = 0; value && s < SPLITS; s++) {
        const kvs_split_info *split = &info->split[s];

        json_object_set_new(value, split_names[s],
                            json_pack("{s:I, s:I, s:I, s:I}", "tokens", (json_int_t)split->tokens,
                                      "documents", (json_int_t)split->documents, "longest",
                                      (json_int_t)split->longest, "shards",
                                      (json_int_t)split->shards));
    }
    return value;
}

static kvs_status open_corpus(kvs_corpus **out, const data_settings *settings, const char *path,
                              kvs_err *err)
{
    const kvs_corpus_options options = {.size = sizeof(kvs_corpus_options),
                                        .vocab = settings->vocab};

    return kvs_corpus_open(out, path, &options, err);
}

static kvs_status info(void *data, const kvsi_call *call, kvs_err *err)
{
    const data_settings *settings = data;
    kvs_corpus *corpus = NULL;
    kvs_status st;

    TRY_OUT(open_corpus(&corpus, settings, call->parsed->arguments[0], err));
    if (settings->json)
        TRY_OUT(kvsi_cli_print_json(info_to_json(corpus), err));
    else
        print_info(corpus);
out:
    kvs_corpus_close(corpus);
    return st;
}

/* ---- check ----------------------------------------------------------------------------------- */

static void print_checked(const char *path, const kvs_corpus_info *info)
{
    size_t shards = 0;
    uint64_t tokens = 0;

    for (int s = 0; s < SPLITS; s++) {
        shards += info->split[s].shards;
        tokens += info->split[s].tokens;
    }
    printf("'%s' is intact: %zu shard%s, %" PRIu64 " tokens below %zu%s\n", path, shards,
           shards == 1 ? "" : "s", tokens, info->vocab,
           info->tokenizer_hash ? "" : "; its format has no checksums");
}

static kvs_status check(void *data, const kvsi_call *call, kvs_err *err)
{
    const char *path = call->parsed->arguments[0];
    kvs_corpus *corpus = NULL;
    kvs_status st;

    TRY_OUT(open_corpus(&corpus, data, path, err));
    TRY_OUT(kvs_corpus_check(corpus, err));
    if (((const data_settings *)data)->json)
        TRY_OUT(kvsi_cli_print_json(info_to_json(corpus), err));
    else
        print_checked(path, kvs_corpus_get_info(corpus));
out:
    kvs_corpus_close(corpus);
    return st;
}

/* ---- build ----------------------------------------------------------------------------------- */

static int show_progress(void *user, const kvs_corpus_progress *p)
{
    kvsi_progress *progress = user;
    const double share = p->size > 0 ? (double)p->bytes / (double)p->size : 1;
    char documents[32], tokens[32], time[32], line[160];
    double elapsed;

    if (!kvsi_progress_is_due(progress, &elapsed))
        return kvsi_stop_signal();
    kvsi_format_count(documents, sizeof documents, (double)p->documents);
    kvsi_format_count(tokens, sizeof tokens, (double)p->tokens);
    kvsi_format_duration(time, sizeof time, elapsed);
    snprintf(line, sizeof line, "%s %.0f %%  %s documents  %s tokens  %s",
             p->counting ? "counting" : "encoding", 100 * share, documents, tokens, time);
    kvsi_progress_show(progress, line);
    return kvsi_stop_signal();
}

static void show_notice(void *user, const char *text)
{
    kvsi_progress *progress = user;

    kvsi_progress_end(progress);
    if (!progress->quiet)
        fprintf(stderr, "%s\n", text);
}

static kvs_status take_options(kvs_corpus_build_options *out, const data_settings *settings,
                               kvs_err *err)
{
    kvs_corpus_build_options_init(out, sizeof *out);
    if (!settings->tokenizer)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--tokenizer' is required: a file, or 'bytes'");
    out->field = settings->field;
    out->separator = settings->separator;
    out->valid = settings->valid;
    out->seed = settings->seed;
    out->shard_tokens = settings->shard_tokens;
    out->overwrite = settings->overwrite;
    if (settings->eos)
        out->eos = strcmp(settings->eos, "yes") == 0 ? KVS_EOS_YES : KVS_EOS_NO;
    return KVS_OK;
}

static kvs_status build(void *data, const kvsi_call *call, kvs_err *err)
{
    data_settings *settings = data;
    const char *const *files = (const char *const *)call->parsed->arguments;
    char stem[KVSI_STEM], folder[KVSI_DEFAULT_OUT];
    kvsi_progress progress;
    kvs_corpus_build_options how;
    kvs_corpus *corpus = NULL;
    kvs_status st;

    TRY_OUT(take_options(&how, settings, err));
    if (!settings->out) {
        kvsi_stem(stem, files[0]);
        snprintf(folder, sizeof folder, "corpora/%s", stem);
        settings->out = folder;
        if (!settings->quiet)
            fprintf(stderr, "the corpus is saved in %s\n", folder);
    }
    how.progress = show_progress;
    how.notice = show_notice;
    how.user = &progress;
    kvsi_catch_stop();
    kvsi_progress_start(&progress, settings->quiet);
    st = kvs_corpus_build(settings->out, files, call->parsed->argument_count, settings->tokenizer,
                          &how, err);
    kvsi_progress_end(&progress);
    if (st != KVS_OK)
        return st;
    TRY_OUT(open_corpus(&corpus, settings, settings->out, err));
    if (settings->json)
        TRY_OUT(kvsi_cli_print_json(info_to_json(corpus), err));
    else
        print_info(corpus);
out:
    kvs_corpus_close(corpus);
    return st;
}

/* ---- the commands ---------------------------------------------------------------------------- */

static void set_defaults(void *data)
{
    data_settings *s = data;
    kvs_corpus_build_options usual;

    kvs_corpus_build_options_init(&usual, sizeof usual);
    s->field = usual.field;
    s->separator = usual.separator;
    s->valid = usual.valid;
    s->seed = usual.seed;
    s->shard_tokens = usual.shard_tokens;
}

#define VERB(verb, about)                                                                          \
    static const kvsi_command verb##_command = {                                                   \
        .name = #verb,                                                                             \
        .summary = (about),                                                                        \
        .options = &verb##_options,                                                                \
        .settings_size = sizeof(data_settings),                                                    \
        .set_defaults = set_defaults,                                                              \
        .run = verb,                                                                               \
        .stop_is_failure = 1,                                                                      \
    };

VERB(build, "encode text files into a corpus")
VERB(info, "print what a corpus contains")
VERB(check, "read all of a corpus and check it")

const kvsi_command kvsi_cmd_data = {
    .name = "data",
    .summary = "build a corpus from text, describe it, check it",
    .usage = "build|info|check [OPTION]... ARGUMENT...",
    .purpose = "Builds corpora to train on from text, describes and checks them.",
    .verbs = (const kvsi_command *const[]){&build_command, &info_command, &check_command, NULL},
};
