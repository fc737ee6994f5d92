#include "cli/model_input.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/source.h"
#include "base/text.h"
#include "cli/configs.h"
#include "cli/memory_check.h"
#include "kvshift/kvshift_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

kvs_status kvsi_model_tokenizer(kvs_tokenizer **out, const kvsi_model_input *input, int needed,
                                kvs_err *err)
{
    const int in_folder = kvsi_is_folder(input->model);
    char *folder = in_folder ? kvsi_strdup(input->model) : kvsi_path_parent(input->model);
    char *found = folder ? kvsi_find_tokenizer(folder) : NULL;
    kvs_model_info info = {.size = sizeof(kvs_model_info)};
    kvs_status st = KVS_OK;

    *out = NULL;
    if (!folder) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for '%s'", input->model);
        goto out;
    }
    if (!input->tokenizer && !in_folder)
        TRY_OUT(kvs_model_describe(&info, input->model, err));
    if (input->tokenizer)
        st = kvs_tokenizer_load(out, input->tokenizer, err);
    else if (info.has_vocabulary)
        st = kvs_tokenizer_load(out, input->model, err);
    else if (found)
        st = kvs_tokenizer_load(out, found, err);
    else if (needed)
        st = kvsi_fail(err, KVS_E_INVALID,
                       "%s '%s' there is no tokenizer.json, tokenizer.model or tokenizer.bin; name "
                       "a tokenizer with -t",
                       in_folder ? "in" : "beside", input->model);
out:
    kvsi_free(folder);
    kvsi_free(found);
    return st;
}

kvs_status kvsi_model_input_load(kvsi_loaded_model *out, const kvsi_model_input *input,
                                 int needs_tokenizer, kvs_err *err)
{
    const kvs_runtime_options runtime = {.size = sizeof(kvs_runtime_options),
                                         .threads = (int)input->threads,
                                         .cpu_level = input->cpu_level,
                                         .exact = input->exact,
                                         .precision = input->precision};
    kvsi_loaded_model loaded = {0};
    size_t vocab;
    kvs_status st;

    *out = loaded;
    if (!input->model)
        return kvsi_fail(err, KVS_E_INVALID,
                         "option '--model' (-m) is required: a model's folder or file");
    TRY_OUT(kvs_runtime_create(&loaded.rt, &runtime, err));
    TRY_OUT(kvs_model_load(&loaded.model, loaded.rt, input->model,
                           &(kvs_load_options){.size = sizeof(kvs_load_options), .mapped = 1},
                           err));
    TRY_OUT(kvsi_model_tokenizer(&loaded.tokenizer, input, needs_tokenizer, err));
    vocab = kvsi_model_count(kvs_model_get_config(loaded.model), "vocab");
    if (loaded.tokenizer && kvs_tokenizer_vocab(loaded.tokenizer) > vocab) {
        st = kvsi_fail(err, KVS_E_INVALID, "the tokenizer has %zu tokens, the model %zu",
                       kvs_tokenizer_vocab(loaded.tokenizer), vocab);
        goto out;
    }
    *out = loaded;
    loaded = (kvsi_loaded_model){0};
out:
    kvsi_loaded_model_release(&loaded);
    return st;
}

const kvsi_name kvsi_kv_cache_names[] = {
    {"f32", KVS_DTYPE_F32}, {"f16", KVS_DTYPE_F16}, {"q8_0", KVS_DTYPE_Q8_0}, {NULL, 0}};

kvs_status kvsi_check_cache(const kvs_model *model, const kvs_session_options *how, size_t sessions,
                            const char *hint, kvs_err *err)
{
    return kvsi_check_memory(sessions * kvs_session_bytes(kvs_model_get_config(model), how), NULL,
                             hint, err);
}

void kvsi_loaded_model_release(kvsi_loaded_model *loaded)
{
    kvs_tokenizer_free(loaded->tokenizer);
    kvs_model_free(loaded->model);
    kvs_runtime_free(loaded->rt);
    *loaded = (kvsi_loaded_model){0};
}

static kvs_status read_source(char **out, size_t *size, const char *path, kvs_err *err)
{
    kvsi_source *source = NULL;
    kvsi_text text = {0};
    char chunk[1 << 14];
    size_t got = 0;
    kvs_status st;

    kvsi_text_add(&text, ""); /* NUL-terminated even if empty */
    TRY_OUT(kvsi_source_open(&source, path, err));
    do {
        TRY_OUT(kvsi_source_read(source, chunk, sizeof chunk, &got, err));
        kvsi_text_add_bytes(&text, chunk, got);
        if (text.length > KVSI_TEXT_LIMIT) {
            st = kvsi_fail(err, KVS_E_LIMIT, "'%s' has more than %zu bytes of text", path,
                           (size_t)KVSI_TEXT_LIMIT);
            goto out;
        }
    } while (got > 0);
    TRY_OUT(kvsi_text_check(&text, err));
    *out = text.data;
    *size = text.length;
    text = (kvsi_text){0};
out:
    kvsi_text_release(&text);
    kvsi_source_close(source);
    return st;
}

static kvs_status read_stdin(char **out, size_t *size, kvs_err *err)
{
    kvsi_text text = {0};
    char chunk[1 << 14];
    size_t got;

    if (isatty(STDIN_FILENO) && isatty(STDERR_FILENO))
        fprintf(stderr, "reading from the terminal; Ctrl-D at the start of a line ends the text\n");
    /* A short read is the end: the end of a terminal's input would have to be typed again. */
    while (!feof(stdin) && (got = fread(chunk, 1, sizeof chunk, stdin)) > 0 &&
           text.length < KVSI_TEXT_LIMIT)
        kvsi_text_add_bytes(&text, chunk, got);
    kvsi_text_add(&text, ""); /* NUL-terminated even if empty */
    if (ferror(stdin) || kvsi_text_check(&text, err) != KVS_OK) {
        kvsi_text_release(&text);
        return kvsi_fail(err, KVS_E_IO, "cannot read standard input");
    }
    *out = text.data;
    *size = text.length;
    return KVS_OK;
}

kvs_status kvsi_read_text(char **out, size_t *size, const char *path, kvs_err *err)
{
    if (!path || strcmp(path, "-") == 0)
        return read_stdin(out, size, err);
    return read_source(out, size, path, err);
}

kvs_status kvsi_read_ids(int32_t **out, size_t *count, const char *text, kvs_err *err)
{
    int32_t *ids = kvsi_alloc(strlen(text) + 1, sizeof *ids); /* more than there can be */
    size_t found = 0;

    if (!ids)
        return kvsi_fail(err, KVS_E_NOMEM, "out of memory for ids");
    for (const char *at = text + strspn(text, ", \n\t"); *at; at += strspn(at, ", \n\t")) {
        char *end;
        const long id = (errno = 0, strtol(at, &end, 10));

        if (end == at || errno || id < 0 || id > INT32_MAX || !strchr(", \n\t", *end)) {
            kvsi_free(ids);
            return kvsi_fail(err, KVS_E_INVALID, "ids: expected whole numbers, found '%.20s'", at);
        }
        ids[found++] = (int32_t)id;
        at = end;
    }
    *out = ids;
    *count = found;
    return KVS_OK;
}
