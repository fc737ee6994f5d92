/* Templates in files:
 *
 *     chat_template.jinja      the text
 *     tokenizer_config.json    {"chat_template": "the text"}, or a list of named ones:
 *                              [{"name": "default", "template": "the text"}, ...]
 *     GGUF                     tokenizer.chat_template
 *
 * Special tokens come from tokenizer_config.json and special_tokens_map.json, otherwise from the
 * tokenizer. */
#include "base/files.h"
#include "base/memory.h"
#include "chat/chat.h"
#include "formats/gguf.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { CONFIG_LIMIT = 1 << 26 }; /* bytes */

/* ---- special tokens -------------------------------------------------------------------------- */

/* Adds {"bos_token": "<s>", "eos_token": {"content": "</s>"}} and other tokens of a file. */
static void add_config_tokens(json_t *tokens, json_t *config)
{
    const char *name;
    json_t *value;

    json_object_foreach(config, name, value) {
        json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;

        if (kvsi_ends_with(name, "_token") && json_is_string(content) &&
            !json_object_get(tokens, name))
            json_object_set(tokens, name, content);
    }
}

static void add_id(json_t *tokens, const char *name, const kvs_tokenizer *t, int32_t id)
{
    const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, id >= 0 ? (size_t)id : SIZE_MAX);

    if (piece.text && !json_object_get(tokens, name))
        json_object_set_new(tokens, name, kvsi_json_text(piece.text, piece.size));
}

static kvs_status read_config(json_t **out, const char *dir, const char *name, kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    kvs_status st = path ? KVS_OK : kvsi_no_memory(err, "'%s'", dir);

    if (path && kvsi_file_exists(path))
        st = kvsi_json_read_wide(out, path, CONFIG_LIMIT, err);
    kvsi_free(path);
    return st;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* The template of a tokenizer_config.json; NULL = it has none. */
static kvs_status config_template(const json_t **out, const json_t *config, const char *dir,
                                  kvs_err *err)
{
    const json_t *value = json_object_get(config, "chat_template");
    const json_t *named;
    size_t index;

    *out = NULL;
    if (!value || json_is_null(value))
        return KVS_OK;
    if (json_is_array(value)) {
        json_array_foreach(value, index, named) {
            const char *name = json_string_value(json_object_get(named, "name"));

            if (name && strcmp(name, "default") == 0)
                *out = json_object_get(named, "template");
        }
    } else {
        *out = value;
    }
    return json_is_string(*out) ? KVS_OK
                                : kvsi_fail(err, KVS_E_FORMAT,
                                            "'%s/tokenizer_config.json': key 'chat_template': "
                                            "expected text, or a list with one named 'default'",
                                            dir);
}

static kvs_status no_template(const char *model, kvs_err *err)
{
    kvsi_text names = {0};
    kvs_status st;

    for (size_t i = 0; kvs_chat_template_name(i); i++)
        kvsi_text_format(&names, "%s%s", i > 0 ? ", " : "", kvs_chat_template_name(i));
    st = kvsi_fail(err, KVS_E_INVALID,
                   "'%.200s' has no chat template; name one (%s) or a file with one", model,
                   names.data ? names.data : "");
    kvsi_text_release(&names);
    return st;
}

/* The template of a folder with Hugging Face's files. */
static kvs_status load_folder(kvs_chat_template **out, const char *dir, const char *model,
                              const json_t *config, json_t *tokens, kvs_err *err)
{
    char *path = kvsi_path_join(dir, "chat_template.jinja"), *text = NULL;
    const json_t *found = NULL;
    size_t size;
    kvs_status st = KVS_OK;

    if (!path) {
        st = kvsi_no_memory(err, "'%s'", dir);
        goto out;
    }
    if (kvsi_file_exists(path)) {
        TRY_OUT(kvsi_file_read(&text, &size, path, KVSI_CHAT_TEMPLATE_MAX, err));
        st = kvsi_chat_create(out, text, size, json_incref(tokens), path, err);
        goto out;
    }
    TRY_OUT(config_template(&found, config, dir, err));
    st = found ? kvsi_chat_create(out, json_string_value(found), json_string_length(found),
                                  json_incref(tokens), dir, err)
               : no_template(model, err);
out:
    kvsi_free(path);
    kvsi_free(text);
    return st;
}

static kvs_status load_gguf(kvs_chat_template **out, const char *path, json_t *tokens, kvs_err *err)
{
    const char *text = NULL;
    kvsi_gguf *file = NULL;
    size_t size = 0;
    kvs_status st;

    TRY_OUT(kvsi_gguf_open(&file, path, err));
    TRY_OUT(kvsi_gguf_get_text(&text, &size, file, "tokenizer.chat_template", err));
    st = text ? kvsi_chat_create(out, text, size, json_incref(tokens), path, err)
              : no_template(path, err);
out:
    kvsi_gguf_close(file);
    return st;
}

/* A named template, or one in a file of its own. */
static kvs_status load_source(kvs_chat_template **out, const char *source, json_t *tokens,
                              kvs_err *err)
{
    const char *named = kvsi_chat_named(source);
    char *text;
    size_t size;
    kvs_status st;

    if (named)
        return kvsi_chat_create(out, named, strlen(named), json_incref(tokens), source, err);
    if (!kvsi_file_exists(source)) {
        kvs_err inner = {0};

        no_template(source, &inner);
        return kvsi_fail(err, KVS_E_INVALID, "'%.100s' is no file and no name of a chat template%s",
                         source, strchr(inner.message, ';') ? strchr(inner.message, ';') : "");
    }
    TRY(kvsi_file_read(&text, &size, source, KVSI_CHAT_TEMPLATE_MAX, err));
    st = kvsi_chat_create(out, text, size, json_incref(tokens), source, err);
    kvsi_free(text);
    return st;
}

static int is_gguf(const char *path)
{
    char start[4] = "";
    FILE *file = fopen(path, "rb");
    const size_t got = file ? fread(start, 1, sizeof start, file) : 0;

    if (file)
        fclose(file);
    return got == sizeof start && memcmp(start, "GGUF", sizeof start) == 0;
}

kvs_status kvs_chat_template_load(kvs_chat_template **out, const char *model, const char *source,
                                  const kvs_tokenizer *tokenizer, kvs_err *err)
{
    json_t *tokens = json_object(), *config = NULL, *map = NULL;
    char *dir = NULL;
    int in_gguf = 0;
    kvs_status st = KVS_OK;

    if (out)
        *out = NULL;
    if (!out || (!model && !source)) {
        json_decref(tokens);
        return kvsi_fail(err, KVS_E_INVALID, "%s is NULL", out ? "model" : "out");
    }
    if (model) {
        in_gguf = !kvsi_is_folder(model) && is_gguf(model);
        dir = kvsi_is_folder(model) ? kvsi_strdup(model) : kvsi_path_parent(model);
        if (!dir) {
            st = kvsi_no_memory(err, "'%s'", model);
            goto out;
        }
    }
    if (dir && !in_gguf) {
        TRY_OUT(read_config(&config, dir, "tokenizer_config.json", err));
        TRY_OUT(read_config(&map, dir, "special_tokens_map.json", err));
        add_config_tokens(tokens, config);
        add_config_tokens(tokens, map);
    }
    if (tokenizer) {
        add_id(tokens, "bos_token", tokenizer, kvs_tokenizer_bos(tokenizer));
        add_id(tokens, "eos_token", tokenizer, kvs_tokenizer_eos(tokenizer));
    }
    TRY_OUT(kvsi_json_check_made(tokens, "special tokens", err));
    if (source)
        st = load_source(out, source, tokens, err);
    else if (in_gguf)
        st = load_gguf(out, model, tokens, err);
    else
        st = load_folder(out, dir, model, config, tokens, err);
out:
    json_decref(tokens);
    json_decref(config);
    json_decref(map);
    kvsi_free(dir);
    return st;
}
