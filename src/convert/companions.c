/* Copies the files beside a model in Hugging Face's layout: tokenizer files,
 * generation_config.json, and Python files that tokenizer_config.json refers to ("auto_map").
 *
 * Known names are copied, following links.  Names read from a file are untrusted: they must be
 * plain names and resolve to a file inside the folder, or inside the cache of huggingface_hub,
 * whose folders link to "blobs". */
#include "convert/companions.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "tokenizer/tokenizer_files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILE_LIMIT = 1 << 30,     /* bytes of a tokenizer file */
    TEXT_LIMIT = 1 << 22,     /* bytes of a template or a Python file */
    SETTINGS_LIMIT = 1 << 26, /* bytes of tokenizer_config.json */
    MODULES_MAX = 32,         /* Python files */
    MODULE_SIZE = 100,        /* bytes of a name */
};

static const char SETTINGS[] = "tokenizer_config.json", TEMPLATE[] = "chat_template.jinja",
                  GENERATION[] = "generation_config.json", AUTO_MAP[] = "auto_map";

/* Copied without parsing; tokenizer_config.json is not among them. */
static const struct {
    const char *name;
    size_t limit;
} files[] = {
    {"tokenizer.json", FILE_LIMIT},       {"tokenizer.model", FILE_LIMIT},
    {"special_tokens_map.json", 1 << 26}, {"added_tokens.json", 1 << 26},
    {"vocab.json", FILE_LIMIT},           {"merges.txt", FILE_LIMIT},
    {"encoder.json", FILE_LIMIT},         {"vocab.bpe", FILE_LIMIT},
    {"chat_template.jinja", TEXT_LIMIT},  {"chat_template.json", TEXT_LIMIT},
};

enum { FILES = sizeof files / sizeof *files };

int kvsi_is_companion(const char *name)
{
    static const char *const kinds[] = {"tokenization_", "configuration_", "modeling_"};

    for (size_t i = 0; i < FILES; i++)
        if (strcmp(name, files[i].name) == 0)
            return 1;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0 && kvsi_ends_with(name, ".py"))
            return 1;
    return strcmp(name, SETTINGS) == 0 || strcmp(name, GENERATION) == 0;
}

/* ---- copies ---------------------------------------------------------------------------------- */

kvs_status kvsi_write_bytes(const char *dir, const char *name, const char *bytes, size_t size,
                            kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    kvsi_new_file *file = NULL;
    kvs_status st;

    if (!path)
        return kvsi_no_memory(err, "'%s'", name);
    TRY_OUT(kvsi_new_file_open(&file, path, err));
    TRY_OUT(kvsi_new_file_write(file, bytes, size, err));
    st = kvsi_new_file_commit(file, err);
    file = NULL;
out:
    kvsi_new_file_abandon(file);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_write_json(const char *dir, const char *name, json_t *value, kvs_err *err)
{
    char *path = kvsi_path_join(dir, name);
    const kvs_status st =
        path && value ? kvsi_json_write(value, path, err) : kvsi_no_memory(err, "'%s'", name);

    json_decref(value);
    kvsi_free(path);
    return st;
}

static kvs_status copy_file(const char *from, const char *to, const char *name, size_t limit,
                            int *there, kvs_err *err)
{
    char *path = kvsi_path_join(from, name), *bytes = NULL;
    size_t size = 0;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", name);
    *there = kvsi_file_exists(path);
    if (*there) {
        TRY_OUT(kvsi_file_read(&bytes, &size, path, limit, err));
        TRY_OUT(kvsi_write_bytes(to, name, bytes, size, err));
    }
out:
    kvsi_free(bytes);
    kvsi_free(path);
    return st;
}

/* ---- Python files ---------------------------------------------------------------------------- */

/* The modules that were copied or are missing. */
typedef struct modules {
    const char *from, *to;
    char names[MODULES_MAX][MODULE_SIZE];
    int there[MODULES_MAX];
    size_t count;
} modules;

static size_t name_length(const char *text)
{
    return strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
}

/* Whether the resolved path is inside the folder `dir`. */
static int is_below(const char *real, const char *dir)
{
    char *folder = realpath(dir, NULL);
    const size_t length = folder ? strlen(folder) : 0;
    const int below = folder && strncmp(real, folder, length) == 0 && real[length] == '/';

    free(folder);
    return below;
}

static int leads_inside(const char *folder, const char *path)
{
    char *real = realpath(path, NULL), *blobs = kvsi_path_join(folder, "../../blobs");
    const int inside = real && blobs && (is_below(real, folder) || is_below(real, blobs));

    free(real);
    kvsi_free(blobs);
    return inside;
}

static kvs_status copy_module(modules *m, const char *name, size_t length, int *there,
                              kvs_err *err);

/* "from .NAME import": the file also needs NAME.py. */
static kvs_status copy_imports(modules *m, const char *text, kvs_err *err)
{
    static const char word[] = "from .";

    for (const char *at = text; (at = strstr(at, word)) != NULL;) {
        const size_t length = name_length(at += strlen(word));
        int there = 0;

        if (length > 0 && at[length] == ' ')
            TRY(copy_module(m, at, length, &there, err));
    }
    return KVS_OK;
}

static kvs_status copy_python(modules *m, const char *file, int *there, kvs_err *err)
{
    char *path = kvsi_path_join(m->from, file), *text = NULL;
    size_t size = 0;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", file);
    *there = leads_inside(m->from, path);
    if (*there) {
        TRY_OUT(kvsi_file_read(&text, &size, path, TEXT_LIMIT, err));
        TRY_OUT(kvsi_write_bytes(m->to, file, text, size, err));
        TRY_OUT(copy_imports(m, text, err));
    }
out:
    kvsi_free(text);
    kvsi_free(path);
    return st;
}

/* Copies NAME.py and its imports once; *there = whether it exists. */
static kvs_status copy_module(modules *m, const char *name, size_t length, int *there, kvs_err *err)
{
    char file[MODULE_SIZE + 4];
    const size_t index = m->count;
    kvs_status st;

    *there = 0;
    if (length >= MODULE_SIZE)
        return KVS_OK;
    for (size_t i = 0; i < m->count; i++)
        if (strlen(m->names[i]) == length && memcmp(m->names[i], name, length) == 0) {
            *there = m->there[i];
            return KVS_OK;
        }
    if (m->count == MODULES_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' refers to more than %d Python files", m->from,
                         (int)MODULES_MAX);
    snprintf(file, sizeof file, "%.*s.py", (int)length, name);
    memcpy(m->names[m->count++], file, length);
    m->there[index] = 1; /* set before the imports, which may be circular */
    st = copy_python(m, file, there, err);
    m->there[index] = *there;
    return st;
}

/* "module.Class" of this folder.  Other references, such as "owner/name--module.Class", are
 * kept. */
static kvs_status follow(modules *m, const json_t *reference, int *good, kvs_err *err)
{
    const char *text = json_string_value(reference);
    const size_t length = text ? name_length(text) : 0;

    if (!text || strstr(text, "--"))
        return KVS_OK;
    if (length == 0 || text[length] != '.') {
        *good = 0;
        return KVS_OK;
    }
    return copy_module(m, text, length, good, err);
}

/* Copies what one entry refers to, a reference or a list; *good = 0 if a file is missing. */
static kvs_status follow_entry(modules *m, const json_t *entry, int *good, kvs_err *err)
{
    const json_t *reference;
    size_t i;

    *good = 1;
    if (!json_is_array(entry))
        return follow(m, entry, good, err);
    json_array_foreach(entry, i, reference) {
        if (*good)
            TRY(follow(m, reference, good, err));
    }
    return KVS_OK;
}

/* ---- tokenizer_config.json ------------------------------------------------------------------- */

/* Copies the files that the settings refer to and removes references to missing files; *changed =
 * whether there were any. */
static kvs_status settle_references(json_t *settings, modules *m, int *changed, kvs_err *err)
{
    json_t *map = json_object_get(settings, AUTO_MAP), *entry;
    const char *key;
    void *next;

    if (map && !json_is_object(map)) {
        *changed = json_object_del(settings, AUTO_MAP) == 0;
        return KVS_OK;
    }
    json_object_foreach_safe(map, next, key, entry)
    {
        int good = 1;

        TRY(follow_entry(m, entry, &good, err));
        if (!good && json_object_del(map, key) == 0)
            *changed = 1;
    }
    if (*changed && json_object_size(map) == 0)
        json_object_del(settings, AUTO_MAP);
    return KVS_OK;
}

/* Without the Python file transformers cannot load a class that is not built in. */
static kvs_status replace_class(json_t *settings, const char *name, kvs_err *err)
{
    if (json_object_get(json_object_get(settings, AUTO_MAP), "AutoTokenizer"))
        return KVS_OK;
    return json_object_set_new(settings, "tokenizer_class", json_string(name)) == 0
               ? KVS_OK
               : kvsi_no_memory(err, "'%s'", SETTINGS);
}

/* Whether transformers would not read the tokenizer from tokenizer.json alone.  Its classes for
 * families of models (LlamaTokenizer) replace parts of the file by their own since version 5, and
 * without a class it takes the family's. */
static int has_other_class(const json_t *settings, const char *name)
{
    const char *found = json_string_value(json_object_get(settings, "tokenizer_class"));

    return !json_object_get(json_object_get(settings, AUTO_MAP), "AutoTokenizer") &&
           (!found || strcmp(found, name) != 0);
}

/* `reads_json`: the copy has a tokenizer.json. */
static kvs_status copy_settings(const char *from, const char *to, const char *class_name,
                                int reads_json, int *there, kvs_err *err)
{
    modules *m = kvsi_alloc(1, sizeof *m);
    char *path = kvsi_path_join(from, SETTINGS);
    json_t *settings = NULL;
    int changed = 0;
    kvs_status st = KVS_OK;

    *there = 0;
    if (!path || !m) {
        st = kvsi_no_memory(err, "'%s'", SETTINGS);
        goto out;
    }
    if (!kvsi_file_exists(path))
        goto out;
    m->from = from;
    m->to = to;
    TRY_OUT(kvsi_json_read_wide(&settings, path, SETTINGS_LIMIT, err));
    TRY_OUT(settle_references(settings, m, &changed, err));
    if (!changed && !(reads_json && has_other_class(settings, class_name))) {
        st = copy_file(from, to, SETTINGS, SETTINGS_LIMIT, there, err);
        goto out;
    }
    TRY_OUT(replace_class(settings, class_name, err));
    TRY_OUT(kvsi_write_json(to, SETTINGS, json_incref(settings), err));
    *there = 1;
out:
    json_decref(settings);
    kvsi_free(path);
    kvsi_free(m);
    return st;
}

/* ---- copying --------------------------------------------------------------------------------- */

kvs_status kvsi_copy_generation(const char *from, const char *to, kvs_err *err)
{
    int there;

    return copy_file(from, to, GENERATION, SETTINGS_LIMIT, &there, err);
}

kvs_status kvsi_copy_companions(kvsi_companions *out, const char *from, const char *to,
                                const kvs_tokenizer *tokenizer, kvs_err *err)
{
    const int exact = kvsi_tokenizer_fits_json(tokenizer);
    int reads_json = 0;

    *out = (kvsi_companions){0};
    for (size_t i = 0; i < FILES; i++) {
        int there = 0;

        TRY(copy_file(from, to, files[i].name, files[i].limit, &there, err));
        reads_json |= there && strcmp(files[i].name, "tokenizer.json") == 0;
        out->tokenizer |= there && strcmp(files[i].name, "tokenizer.model") == 0 && !exact;
    }
    out->tokenizer |= reads_json;
    return copy_settings(from, to, exact ? "PreTrainedTokenizerFast" : "LlamaTokenizer",
                         exact && reads_json, &out->settings, err);
}

/* ---- the chat template ----------------------------------------------------------------------- */

/* The template, or the one called "default" in a list. */
static const char *find_template(const json_t *value)
{
    const json_t *named;
    size_t i;

    json_array_foreach(value, i, named) {
        const char *name = json_string_value(json_object_get(named, "name"));

        if (name && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(named, "template"));
    }
    return json_string_value(value);
}

static kvs_status template_in_settings(char **out, const char *folder, kvs_err *err)
{
    char *path = kvsi_path_join(folder, SETTINGS);
    json_t *settings = NULL;
    const char *text;
    kvs_status st = KVS_OK;

    if (!path)
        return kvsi_no_memory(err, "'%s'", folder);
    if (kvsi_file_exists(path))
        TRY_OUT(kvsi_json_read_wide(&settings, path, SETTINGS_LIMIT, err));
    text = find_template(json_object_get(settings, "chat_template"));
    if (text && !(*out = kvsi_strdup(text)))
        st = kvsi_no_memory(err, "'%s'", path);
out:
    json_decref(settings);
    kvsi_free(path);
    return st;
}

kvs_status kvsi_read_chat_template(char **out, const char *folder, kvs_err *err)
{
    char *path = kvsi_path_join(folder, TEMPLATE);
    size_t size = 0;
    kvs_status st;

    *out = NULL;
    if (!path)
        return kvsi_no_memory(err, "'%s'", folder);
    st = kvsi_file_exists(path) ? kvsi_file_read(out, &size, path, TEXT_LIMIT, err)
                                : template_in_settings(out, folder, err);
    kvsi_free(path);
    return st;
}
