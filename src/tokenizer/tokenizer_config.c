/* Hugging Face's configuration files beside a tokenizer file:
 *
 *     tokenizer_config.json      {"add_bos_token": false, "eos_token": "</s>",
 *                                 "added_tokens_decoder":
 *                                 {"32000": {"content": "<|im_start|>", "special": true, ...}}}
 *     special_tokens_map.json    {"eos_token": "</s>", ...}
 *     added_tokens.json          {"<|im_start|>": 32000}
 *
 * They are interpreted as by transformers' LlamaTokenizer (the slow one with `legacy`): the last
 * two are used only if the first has no "added_tokens_decoder", and special tokens without an id
 * get ids after all others. */
#include "base/files.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_files.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1 << 26, CONFIG_LIMIT = 1 << 20 }; /* bytes */

static const char CONFIG[] = "tokenizer_config.json", MAP[] = "special_tokens_map.json",
                  ADDED[] = "added_tokens.json";

/* ---- opening --------------------------------------------------------------------------------- */

static kvs_status read_object(json_t **out, const char *dir, const char *name, kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", dir);
    if (kvsi_file_exists(path))
        st = kvsi_json_read_wide(out, path, FILE_LIMIT, err);
    kvsi_free(path);
    return st;
}

/* The model's vocabulary size, from config.json in the same folder; SIZE_MAX = unknown.  A damaged
 * config.json is reported by its own reader. */
static size_t read_limit(const char *dir)
{
    char *path = kvsi_path_join(dir, "config.json");
    json_t *config = NULL;
    size_t vocab = 0;

    if (path && kvsi_json_read(&config, path, CONFIG_LIMIT, NULL) == KVS_OK &&
        kvsi_json_get_size(&vocab, config, "vocab_size", path, NULL) != KVS_OK)
        vocab = 0;
    json_decref(config);
    kvsi_free(path);
    return vocab > 0 ? vocab : SIZE_MAX;
}

static int has_name(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');

    return strcmp(slash ? slash + 1 : path, name) == 0;
}

kvs_status kvsi_tokenizer_config_open(kvsi_tokenizer_config *out, const char *path,
                                      const char *name, kvs_err *err)
{
    kvsi_tokenizer_config files = {.limit = SIZE_MAX};
    kvs_status st = KVS_OK;

    *out = files;
    if (!has_name(path, name))
        return KVS_OK;
    files.dir = kvsi_path_parent(path);
    if (!files.dir)
        return kvsi_no_memory(err, "'%s'", path);
    TRY_OUT(read_object(&files.config, files.dir, CONFIG, err));
    if (!json_object_get(files.config, "added_tokens_decoder")) {
        TRY_OUT(read_object(&files.map, files.dir, MAP, err));
        TRY_OUT(read_object(&files.added, files.dir, ADDED, err));
    }
    files.limit = read_limit(files.dir);
    *out = files;
    files = (kvsi_tokenizer_config){0};
out:
    kvsi_tokenizer_config_close(&files);
    return st;
}

void kvsi_tokenizer_config_close(kvsi_tokenizer_config *files)
{
    kvsi_free(files->dir);
    json_decref(files->config);
    json_decref(files->map);
    json_decref(files->added);
    json_decref(files->list);
    *files = (kvsi_tokenizer_config){0};
}

/* ---- special tokens -------------------------------------------------------------------------- */

static kvs_status fail_key(const kvsi_tokenizer_config *files, const char *key,
                           const char *expected, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_FORMAT, "'%s/%s': key '%s': expected %s", files->dir, CONFIG, key,
                     expected);
}

/* The value of a key in special_tokens_map.json, else in tokenizer_config.json; NULL = none. */
static const json_t *find_key(const kvsi_tokenizer_config *files, const char *key)
{
    const json_t *value = json_object_get(files->map, key);

    value = value ? value : json_object_get(files->config, key);
    return value && !json_is_null(value) ? value : NULL;
}

/* The text of a token given as a string or as an object with "content"; NULL = neither. */
static const json_t *content_of(const json_t *value)
{
    const json_t *content = json_is_object(value) ? json_object_get(value, "content") : value;

    return json_is_string(content) ? content : NULL;
}

static kvs_status find_special(const json_t **content, const kvsi_tokenizer_config *files,
                               const char *key, kvs_err *err)
{
    const json_t *value = find_key(files, key);

    *content = content_of(value);
    return value && !*content ? fail_key(files, key, "text, or an object with its 'content'", err)
                              : KVS_OK;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* The list of added tokens being built, and all known tokens: those of the tokenizer file, then the
 * added ones. */
typedef struct collector {
    kvsi_tokenizer_config *files;
    kvsi_sp_model *sp;
    kvsi_vocabulary known, listed;
    kvs_err *err;
} collector;

static int is_set(const json_t *value, const char *key)
{
    return json_is_true(json_object_get(value, key));
}

/* Adds a token in the form of tokenizer.json.  `flags` may be an object with more properties. */
static kvs_status add_token(collector *c, const json_t *content, size_t id, const json_t *flags,
                            int special)
{
    const size_t size = json_string_length(content);
    uint32_t number;
    json_t *token;

    if (id >= c->files->limit || size == 0)
        return KVS_OK; /* the model has no embedding for it, such as an untrained [PAD] */
    if (kvsi_vocabulary_add(&c->listed, json_string_value(content), size, &number, c->err) !=
        KVS_OK)
        return KVS_E_NOMEM;
    token =
        json_pack("{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", content,
                  "single_word", is_set(flags, "single_word"), "lstrip", is_set(flags, "lstrip"),
                  "rstrip", is_set(flags, "rstrip"), "normalized", 0, "special", special);
    if (json_array_append_new(c->files->list, token) != 0)
        return kvsi_no_memory(c->err, "added tokens");
    if (id < c->sp->count)
        c->sp->pieces[id].is_added = 1;
    return KVS_OK;
}

/* Adds a token whose id is in the file. */
static kvs_status add_numbered(collector *c, const json_t *content, uint64_t id,
                               const json_t *flags, int special)
{
    const char *text = json_string_value(content);
    const size_t size = json_string_length(content);
    const int32_t found = kvsi_vocabulary_find(&c->known, text, size);

    if (id >= KVSI_TOKENS_MAX || (found < 0 && kvsi_vocabulary_at(&c->known, (size_t)id).text) ||
        (found >= 0 && (uint64_t)found != id))
        return kvsi_fail(c->err, KVS_E_FORMAT,
                         "'%s': added token '%.100s' has id %llu, which belongs to another token "
                         "or is too large",
                         c->files->dir, text, (unsigned long long)id);
    if (found < 0 && size > 0)
        TRY(kvsi_vocabulary_set(&c->known, id, text, size, c->err));
    return add_token(c, content, (size_t)id, flags, special);
}

/* {"32000": {"content": ...}} */
static kvs_status add_decoder(collector *c)
{
    static const char key[] = "added_tokens_decoder";
    json_t *decoder = json_object_get(c->files->config, key), *value;
    const char *number;

    if (decoder && !json_is_null(decoder) && !json_is_object(decoder))
        return fail_key(c->files, key, "an object", c->err);
    json_object_foreach(decoder, number, value) {
        const size_t digits = strspn(number, "0123456789");
        const json_t *content = content_of(value);

        if (digits == 0 || digits > 10 || number[digits] != '\0' || !content)
            return fail_key(c->files, key, "ids, each with an object that has its 'content'",
                            c->err);
        TRY(add_numbered(c, content, strtoull(number, NULL, 10), value, is_set(value, "special")));
    }
    return KVS_OK;
}

/* {"<|im_start|>": 32000} */
static kvs_status add_file(collector *c)
{
    kvs_status st = KVS_OK;
    const char *text;
    json_t *id;

    json_object_foreach(c->files->added, text, id) {
        json_t *content;

        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return kvsi_fail(c->err, KVS_E_FORMAT,
                             "'%s/%s': token '%.100s': expected a whole number as its id",
                             c->files->dir, ADDED, text);
        content = json_string(text);
        if (!content)
            return kvsi_no_memory(c->err, "added tokens");
        st = add_numbered(c, content, (uint64_t)json_integer_value(id), NULL, 0);
        json_decref(content);
        if (st != KVS_OK)
            return st;
    }
    return st;
}

/* Adds a special token, such as eos_token.  A new token gets the next id. */
static kvs_status add_special(collector *c, const json_t *value)
{
    const json_t *content = content_of(value);
    const char *text = json_string_value(content);
    const size_t size = json_string_length(content);
    uint32_t id = 0;

    if (size == 0 || kvsi_vocabulary_find(&c->listed, text, size) >= 0)
        return KVS_OK;
    if (c->known.count >= KVSI_TOKENS_MAX)
        return kvsi_fail(c->err, KVS_E_LIMIT, "'%s': more than %d tokens", c->files->dir,
                         KVSI_TOKENS_MAX - 1);
    TRY(kvsi_vocabulary_add(&c->known, text, size, &id, c->err));
    return add_token(c, content, id, value, 1);
}

/* Adds the special tokens of a list, or the values of an object. */
static kvs_status add_more_specials(collector *c, const char *key)
{
    enum { TOKENS_MAX = 4096 };
    json_t *list = (json_t *)find_key(c->files, key), *value;
    const char *name;
    size_t i;

    if (list && !json_is_array(list) && !json_is_object(list))
        return fail_key(c->files, key, "a list", c->err);
    if (json_array_size(list) > TOKENS_MAX || json_object_size(list) > TOKENS_MAX)
        return fail_key(c->files, key, "at most 4096 tokens", c->err);
    json_array_foreach(list, i, value) {
        TRY(add_special(c, value));
    }
    json_object_foreach(list, name, value) {
        TRY(add_special(c, value));
    }
    return KVS_OK;
}

/* Adds the default token of a role, such as "</s>", if no file sets the role. */
static kvs_status add_fallback(collector *c, const char *role, const char *fallback)
{
    const int is_given =
        json_object_get(c->files->map, role) || json_object_get(c->files->config, role);
    json_t *content;
    kvs_status st;

    if (is_given || !fallback || kvsi_vocabulary_find(&c->known, fallback, strlen(fallback)) < 0)
        return KVS_OK;
    content = json_string(fallback);
    st = content ? add_special(c, content) : kvsi_no_memory(c->err, "added tokens");
    json_decref(content);
    return st;
}

static kvs_status add_specials(collector *c)
{
    static const struct {
        const char *role, *fallback;
    } roles[] = {{"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"},
                 {"sep_token", NULL},  {"pad_token", NULL},   {"cls_token", NULL},
                 {"mask_token", NULL}};

    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const json_t *content = NULL;

        TRY(find_special(&content, c->files, roles[i].role, c->err));
        if (content)
            TRY(add_special(c, find_key(c->files, roles[i].role)));
        else
            TRY(add_fallback(c, roles[i].role, roles[i].fallback));
    }
    TRY(add_more_specials(c, "additional_special_tokens"));
    return add_more_specials(c, "extra_special_tokens");
}

/* ---- applying -------------------------------------------------------------------------------- */

static kvs_status get_flag(int *out, const kvsi_tokenizer_config *files, const char *key,
                           kvs_err *err)
{
    const json_t *value = json_object_get(files->config, key);

    if (!value || json_is_null(value))
        return KVS_OK;
    if (!json_is_boolean(value))
        return fail_key(files, key, "true or false", err);
    *out = json_is_true(value);
    return KVS_OK;
}

static kvs_status get_id(int64_t *out, const collector *c, const char *key)
{
    const json_t *content;
    const kvs_status st = find_special(&content, c->files, key, c->err);
    int32_t id;

    if (st != KVS_OK || !content)
        return st;
    id = kvsi_vocabulary_find(&c->known, json_string_value(content), json_string_length(content));
    if (id >= 0 && (size_t)id < c->files->limit)
        *out = id;
    return KVS_OK;
}

kvs_status kvsi_tokenizer_config_apply(kvsi_tokenizer_config *files, kvsi_sp_model *sp,
                                       kvs_err *err)
{
    collector c = {.files = files, .sp = sp, .err = err};
    kvs_status st = KVS_OK;

    if (!files->config && !files->map && !files->added)
        return KVS_OK;
    files->list = json_array();
    if (!files->list)
        return kvsi_no_memory(err, "added tokens");
    for (size_t id = 0; id < sp->count; id++)
        if (sp->pieces[id].size > 0)
            TRY_OUT(
                kvsi_vocabulary_set(&c.known, id, sp->pieces[id].text, sp->pieces[id].size, err));
    TRY_OUT(add_decoder(&c));
    TRY_OUT(add_file(&c));
    TRY_OUT(add_specials(&c));
    TRY_OUT(get_id(&sp->bos, &c, "bos_token"));
    TRY_OUT(get_id(&sp->eos, &c, "eos_token"));
    TRY_OUT(get_flag(&sp->add_bos, files, "add_bos_token", err));
    TRY_OUT(get_flag(&sp->add_eos, files, "add_eos_token", err));
    sp->added = files->list;
out:
    kvsi_vocabulary_release(&c.known);
    kvsi_vocabulary_release(&c.listed);
    return st;
}

kvs_status kvsi_tokenizer_config_set_bos_eos(const kvsi_tokenizer_config *files, kvs_tokenizer *t,
                                             kvs_err *err)
{
    static const char *const keys[] = {"bos_token", "eos_token"};
    int32_t *const ids[] = {&t->bos, &t->eos};

    for (size_t i = 0; i < 2; i++) {
        const json_t *content = NULL;
        int32_t id;

        TRY(find_special(&content, files, keys[i], err));
        id = content ? kvsi_vocabulary_find(&t->vocabulary, json_string_value(content),
                                            json_string_length(content))
                     : -1;
        if (id >= 0 && (size_t)id < t->vocab)
            *ids[i] = id;
    }
    return KVS_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static json_t *token_name(const kvs_tokenizer *t, int32_t id)
{
    const kvsi_bytes piece = kvsi_vocabulary_at(&t->vocabulary, id >= 0 ? (size_t)id : SIZE_MAX);

    return piece.text ? json_stringn(piece.text, piece.size) : json_null();
}

kvs_status kvsi_tokenizer_config_write(const kvs_tokenizer *t, const char *path, kvs_err *err)
{
    char *dir = kvsi_path_parent(path), *file = dir ? kvsi_path_join(dir, CONFIG) : NULL;
    json_t *object =
        json_pack("{s:s, s:o, s:o}", "tokenizer_class", "PreTrainedTokenizerFast", "bos_token",
                  token_name(t, t->bos), "eos_token", token_name(t, t->eos));
    kvs_status st = file && object ? KVS_OK : kvsi_no_memory(err, "'%s'", path);

    if (st == KVS_OK && has_name(path, "tokenizer.json") && !kvsi_file_exists(file))
        st = kvsi_json_write(object, file, err);
    json_decref(object);
    kvsi_free(file);
    kvsi_free(dir);
    return st;
}
