/* kvshift tokenizer: encodes, decodes, describes and trains tokenizers. */
#include "base/files.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/default_out.h"
#include "kvshift/kvshift_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct tokenizer_settings {
    const char *tokenizer, *text, *out, *field, *separator;
    kvsi_text_list special;
    size_t vocab, threads;
    int no_special, json, overwrite;
} tokenizer_settings;

/* ---- options --------------------------------------------------------------------------------- */

#define TOKENIZER_OPTION                                                                           \
    {                                                                                              \
        .name = "tokenizer", .letter = 't', .kind = KVSI_SETTING_TEXT,                             \
        .offset = offsetof(tokenizer_settings, tokenizer), .group = "Options",                     \
        .placeholder = "FILE",                                                                     \
        .help = "tokenizer.json, a SentencePiece model, llama2.c's tokenizer.bin, GGUF, a "        \
                "folder with one, or 'bytes'; required"                                            \
    }

#define JSON_OPTION                                                                                \
    {                                                                                              \
        .name = "json", .kind = KVSI_SETTING_FLAG, .offset = offsetof(tokenizer_settings, json),   \
        .group = "Options", .help = "print one JSON object"                                        \
    }

static const kvsi_setting encode_rows[] = {
    TOKENIZER_OPTION,
    {.name = "text",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(tokenizer_settings, text),
     .group = "Options",
     .placeholder = "TEXT",
     .help = "text to encode",
     .automatic = "standard input"},
    {.name = "no-special",
     .kind = KVSI_SETTING_FLAG,
     .offset = offsetof(tokenizer_settings, no_special),
     .group = "Options",
     .help = "do not add BOS and EOS; special tokens written in the text are recognised anyway"},
    JSON_OPTION,
};

static const kvsi_setting decode_rows[] = {TOKENIZER_OPTION};

static const kvsi_setting info_rows[] = {TOKENIZER_OPTION, JSON_OPTION};

static const kvsi_setting train_rows[] = {
    {.name = "vocab",
     .kind = KVSI_SETTING_SIZE,
     .offset = offsetof(tokenizer_settings, vocab),
     .group = "Options",
     .placeholder = "N",
     .help = "number of tokens, including the 256 bytes and the special tokens",
     .low = 256,
     .high = 4194304,
     .value = "32000"},
    {.name = "out",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(tokenizer_settings, out),
     .group = "Options",
     .placeholder = "FILE",
     .help = "the file to write, in the format of tokenizer.json",
     .automatic = "NAME.tokenizer.json; NAME is that of the first FILE"},
    {.name = "overwrite",
     .kind = KVSI_SETTING_FLAG,
     .offset = offsetof(tokenizer_settings, overwrite),
     .group = "Options",
     .help = "replace an existing file"},
    JSON_OPTION,
    {.name = "special",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(tokenizer_settings, special),
     .group = "Options",
     .placeholder = "TEXT",
     .repeats = 1,
     .help = "text of a special token, which is never merged with other text; may be given several "
             "times"},
    {.name = "threads",
     .kind = KVSI_SETTING_SIZE,
     .offset = offsetof(tokenizer_settings, threads),
     .group = "Options",
     .placeholder = "N",
     .help = "threads that count words",
     .automatic = "every core",
     .high = 1024},
    {.name = "separator",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(tokenizer_settings, separator),
     .group = "Documents",
     .placeholder = "TEXT",
     .help = "separator between the documents of a text file; '' = each file is one document",
     .may_be_empty = 1,
     .automatic = "<|endoftext|>"},
    {.name = "field",
     .kind = KVSI_SETTING_TEXT,
     .offset = offsetof(tokenizer_settings, field),
     .group = "Documents",
     .placeholder = "NAME",
     .help = "field of a .jsonl line that holds the document",
     .automatic = "text"},
};

#define COMMAND(verb, ...)                                                                         \
    {                                                                                              \
        .command = "kvshift tokenizer " #verb, .tables = KVSI_OPTIONS(verb##_rows), __VA_ARGS__    \
    }

static const kvsi_command_options encode_options =
    COMMAND(encode, .purpose = "Prints the token ids of a text on one line, separated by spaces.");

static const kvsi_command_options decode_options =
    COMMAND(decode,
            .purpose = "Prints the text of token ids, from the command line or else from standard "
                       "input, byte for byte, without a newline at the end.",
            .argument = "ID", .max_arguments = SIZE_MAX);

static const kvsi_command_options info_options =
    COMMAND(info, .purpose = "Prints what a tokenizer is.");

static const kvsi_command_options train_options = COMMAND(
    train,
    .purpose =
        "Trains a byte-level BPE tokenizer, with GPT-2's rules for words, on text files, and "
        "writes it as a tokenizer.json.  Each line of a .jsonl file and each object of a "
        ".json file is a document; any other file is text, with separators between its "
        "documents.  Files may be compressed (.gz, .zst).  A folder stands for the texts in it "
        "and in its subfolders, and - for standard input, where text, JSON and compression are "
        "recognized.  Among equally frequent pairs the one with the greater bytes is merged first.",
    .examples = "  kvshift tokenizer train book.txt --vocab 1024 --out book.json\n"
                "  kvshift tokenizer train texts/ --vocab 32000 --special '<|endoftext|>' "
                "--out texts.json\n",
    .argument = "FILE", .min_arguments = 1, .max_arguments = SIZE_MAX);

/* ---- input ----------------------------------------------------------------------------------- */

static kvs_status read_input(kvsi_text *text, kvs_err *err)
{
    char buffer[1 << 16];
    size_t got;

    kvsi_text_add(text, "");
    while ((got = fread(buffer, 1, sizeof buffer, stdin)) > 0)
        kvsi_text_add_bytes(text, buffer, got);
    if (ferror(stdin))
        return kvsi_fail(err, KVS_E_IO, "cannot read standard input");
    return kvsi_text_check(text, err);
}

static kvs_status load(kvs_tokenizer **out, const tokenizer_settings *settings, kvs_err *err)
{
    if (!settings->tokenizer)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--tokenizer' is required: a file, or 'bytes'");
    return kvs_tokenizer_load(out, settings->tokenizer, err);
}

/* ---- encode ---------------------------------------------------------------------------------- */

static kvs_status print_ids(const int32_t *ids, size_t count, int as_json, kvs_err *err)
{
    json_t *list;

    if (!as_json) {
        for (size_t i = 0; i < count; i++)
            printf("%s%" PRId32, i ? " " : "", ids[i]);
        putchar('\n');
        return KVS_OK;
    }
    list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(ids[i]));
    return kvsi_cli_print_json(json_pack("{s:I, s:o}", "count", (json_int_t)count, "ids", list),
                               err);
}

static kvs_status encode(void *data, const kvsi_call *call, kvs_err *err)
{
    const tokenizer_settings *settings = data;
    const unsigned flags = settings->no_special ? KVS_ENCODE_NO_SPECIAL : 0;
    kvs_tokenizer *t = NULL;
    kvsi_text text = {0};
    int32_t *ids = NULL;
    size_t count = 0;
    kvs_status st;

    (void)call;
    TRY_OUT(load(&t, settings, err));
    if (settings->text)
        kvsi_text_add(&text, settings->text);
    else
        TRY_OUT(read_input(&text, err));
    TRY_OUT(kvsi_text_check(&text, err));
    TRY_OUT(kvs_tokenizer_encode(&ids, &count, t, text.data, text.length, flags, err));
    TRY_OUT(print_ids(ids, count, settings->json, err));
out:
    kvs_ids_free(ids);
    kvsi_text_release(&text);
    kvs_tokenizer_free(t);
    return st;
}

/* ---- decode ---------------------------------------------------------------------------------- */

typedef struct id_list {
    int32_t *ids;
    size_t count;
} id_list;

/* Ids separated by spaces, commas or brackets; text of n bytes has at most n/2 + 1 ids. */
static kvs_status parse_ids(id_list *list, const char *text, kvs_err *err)
{
    for (;;) {
        char *end;
        long id;

        text += strspn(text, " \t\r\n,[]");
        if (!*text)
            return KVS_OK;
        errno = 0;
        id = strtol(text, &end, 10);
        if (end == text || errno || id < 0 || id > INT32_MAX ||
            (*end && !strchr(" \t\r\n,[]", *end)))
            return kvsi_fail(err, KVS_E_INVALID, "expected token ids, found '%.*s'",
                             (int)strcspn(text, " \t\r\n,[]"), text);
        list->ids[list->count++] = (int32_t)id;
        text = end;
    }
}

static kvs_status decode(void *data, const kvsi_call *call, kvs_err *err)
{
    const tokenizer_settings *settings = data;
    const kvsi_parsed_options *parsed = call->parsed;
    kvs_tokenizer *t = NULL;
    kvsi_text words = {0};
    id_list list = {0};
    char *text = NULL;
    size_t size = 0;
    kvs_status st;

    TRY_OUT(load(&t, settings, err));
    for (size_t i = 0; i < parsed->argument_count; i++)
        kvsi_text_format(&words, "%s ", parsed->arguments[i]);
    if (parsed->argument_count == 0)
        TRY_OUT(read_input(&words, err));
    TRY_OUT(kvsi_text_check(&words, err));
    list.ids = kvsi_alloc(words.length / 2 + 1, sizeof *list.ids);
    if (!list.ids) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for token ids");
        goto out;
    }
    TRY_OUT(parse_ids(&list, words.data, err));
    TRY_OUT(kvs_tokenizer_decode(&text, &size, t, list.ids, list.count, err));
    fwrite(text, 1, size, stdout);
out:
    kvs_text_free(text);
    kvsi_free(list.ids);
    kvsi_text_release(&words);
    kvs_tokenizer_free(t);
    return st;
}

/* ---- info ------------------------------------------------------------------------------------ */

static json_t *id_to_json(int32_t id)
{
    return id < 0 ? json_null() : json_integer(id);
}

static void print_id(const char *label, int32_t id)
{
    if (id < 0)
        printf("  %-16snone\n", label);
    else
        printf("  %-16s%" PRId32 "\n", label, id);
}

static kvs_status info(void *data, const kvsi_call *call, kvs_err *err)
{
    const tokenizer_settings *settings = data;
    kvs_tokenizer *t = NULL;
    char hash[20];
    kvs_status st;

    (void)call;
    TRY_OUT(load(&t, settings, err));
    snprintf(hash, sizeof hash, "%016" PRIx64, kvs_tokenizer_hash(t));
    if (settings->json) {
        st = kvsi_cli_print_json(json_pack("{s:I, s:o, s:o, s:s}", "vocab",
                                           (json_int_t)kvs_tokenizer_vocab(t), "bos",
                                           id_to_json(kvs_tokenizer_bos(t)), "eos",
                                           id_to_json(kvs_tokenizer_eos(t)), "hash", hash),
                                 err);
        goto out;
    }
    printf("tokenizer %s\n  %-16s%zu\n", settings->tokenizer, "tokens", kvs_tokenizer_vocab(t));
    print_id("BOS", kvs_tokenizer_bos(t));
    print_id("EOS", kvs_tokenizer_eos(t));
    printf("  %-16s%s\n", "hash", hash);
out:
    kvs_tokenizer_free(t);
    return st;
}

/* ---- train ----------------------------------------------------------------------------------- */

static int show_progress(void *user, size_t done, size_t wanted)
{
    (void)user;
    fprintf(stderr, "\r%zu of %zu merges", done, wanted);
    return 0;
}

static kvs_status train(void *data, const kvsi_call *call, kvs_err *err)
{
    tokenizer_settings *settings = data;
    const kvsi_parsed_options *parsed = call->parsed;
    const int watched = isatty(STDERR_FILENO);
    const kvs_tokenizer_training training = {.size = sizeof(kvs_tokenizer_training),
                                             .vocab = settings->vocab,
                                             .special = settings->special.texts,
                                             .specials = settings->special.count,
                                             .field = settings->field,
                                             .separator = settings->separator,
                                             .threads = (int)settings->threads,
                                             .progress = watched ? show_progress : NULL};
    char stem[KVSI_STEM], file[KVSI_DEFAULT_OUT];
    kvs_tokenizer *t = NULL;
    kvs_status st;

    if (!settings->out) {
        kvsi_stem(stem, parsed->arguments[0]);
        snprintf(file, sizeof file, "%s.tokenizer.json", stem);
        settings->out = file;
    }
    if (!settings->overwrite && kvsi_file_exists(settings->out))
        return kvsi_fail(err, KVS_E_INVALID, "'%s' already exists; --overwrite replaces it",
                         settings->out);
    st = kvs_tokenizer_train(&t, (const char *const *)parsed->arguments, parsed->argument_count,
                             &training, err);
    if (watched)
        fputs("\r\033[K", stderr);
    if (st != KVS_OK)
        return st;
    TRY_OUT(kvs_tokenizer_save(t, settings->out, err));
    if (kvs_tokenizer_vocab(t) < settings->vocab)
        fprintf(stderr, "kvshift: no pairs left to merge: %zu tokens instead of %zu\n",
                kvs_tokenizer_vocab(t), settings->vocab);
    if (settings->json)
        st = kvsi_cli_print_json(json_pack("{s:o, s:I}", "out", kvsi_json_path(settings->out),
                                           "vocab", (json_int_t)kvs_tokenizer_vocab(t)),
                                 err);
    else
        printf("%s: %zu tokens\n", settings->out, kvs_tokenizer_vocab(t));
out:
    kvs_tokenizer_free(t);
    return st;
}

/* ---- the commands ---------------------------------------------------------------------------- */

#define VERB(verb, about)                                                                          \
    static const kvsi_command verb##_command = {                                                   \
        .name = #verb,                                                                             \
        .summary = (about),                                                                        \
        .options = &verb##_options,                                                                \
        .settings_size = sizeof(tokenizer_settings),                                               \
        .run = verb,                                                                               \
    };

VERB(encode, "text to token ids")
VERB(decode, "token ids to text")
VERB(info, "print what a tokenizer is")
VERB(train, "train a tokenizer on text files")

const kvsi_command kvsi_cmd_tokenizer = {
    .name = "tokenizer",
    .summary = "convert text to token ids and back; train a tokenizer",
    .usage = "encode|decode|info|train [OPTION]... [ARGUMENT]...",
    .purpose = "Converts text to token ids and back, and trains tokenizers.",
    .verbs = (const kvsi_command *const[]){&encode_command, &decode_command, &info_command,
                                           &train_command, NULL},
};
