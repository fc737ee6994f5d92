/* Reads normalizers, pre-tokenizers and decoders from JSON. */
#include "base/array.h"
#include "base/memory.h"
#include "base/names.h"
#include "tokenizer/character_map.h"
#include "tokenizer/characters.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

enum {
    DEPTH_MAX = 16, /* nesting of sequences */
    STEPS_MAX = 64, /* components of one role; they call each other recursively */
};

/* ---- members --------------------------------------------------------------------------------- */

static kvs_status get_name(int *out, const json_t *value, const char *key, const kvsi_name *names,
                           const char *what, kvs_err *err)
{
    const char *name = NULL;
    const kvs_status st = kvsi_json_get_text(&name, value, key, what, err);

    if (st != KVS_OK || !name)
        return st;
    for (; names->name; names++) {
        if (strcmp(names->name, name) == 0) {
            *out = names->value;
            return KVS_OK;
        }
    }
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': %s '%s' is not supported", what, key, name);
}

static kvs_status get_behavior(kvsi_component *c, const json_t *value, const char *what,
                               kvs_err *err)
{
    static const kvsi_name names[] = {{"Removed", KVSI_REMOVED},
                                      {"Isolated", KVSI_ISOLATED},
                                      {"MergedWithPrevious", KVSI_MERGED_WITH_PREVIOUS},
                                      {"MergedWithNext", KVSI_MERGED_WITH_NEXT},
                                      {"Contiguous", KVSI_CONTIGUOUS},
                                      {NULL, 0}};
    int behavior = (int)c->behavior;
    const kvs_status st = get_name(&behavior, value, "behavior", names, what, err);

    c->behavior = (kvsi_behavior)behavior;
    return st;
}

static kvs_status get_content(kvsi_component *c, const json_t *value, const char *key,
                              const char *fallback, const char *what, kvs_err *err)
{
    const char *content = fallback;

    TRY(kvsi_json_get_text(&content, value, key, what, err));
    if (!content)
        return kvsi_json_require(value, key, what, err);
    c->content = kvsi_strdup(content);
    if (!c->content)
        return kvsi_no_memory(err, "'%s'", what);
    c->content_size = strlen(content);
    return KVS_OK;
}

/* {"String": "..."} or {"Regex": "..."} */
static kvs_status get_pattern(kvsi_component *c, const json_t *value, const char *what,
                              kvs_err *err)
{
    const json_t *pattern = json_object_get(value, "pattern");
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    const char *expression = json_string_value(json_object_get(pattern, "Regex"));

    if (literal)
        return kvsi_pattern_create_literal(&c->pattern, literal, strlen(literal), err);
    if (expression)
        return kvsi_pattern_create(&c->pattern, expression, err);
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'pattern': expected a String or a Regex", what);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static kvs_status read_plain(kvsi_component *c, const json_t *value, const char *what, kvs_err *err)
{
    (void)c, (void)value, (void)what, (void)err;
    return KVS_OK;
}

static kvs_status read_prepend(kvsi_component *c, const json_t *value, const char *what,
                               kvs_err *err)
{
    return get_content(c, value, "prepend", NULL, what, err);
}

static kvs_status read_replace(kvsi_component *c, const json_t *value, const char *what,
                               kvs_err *err)
{
    const kvs_status st = get_pattern(c, value, what, err);

    return st != KVS_OK ? st : get_content(c, value, "content", NULL, what, err);
}

static kvs_status read_strip_spaces(kvsi_component *c, const json_t *value, const char *what,
                                    kvs_err *err)
{
    int left = 1, right = 1;
    kvs_status st = kvsi_json_get_bool(&left, value, "strip_left", what, err);

    if (st == KVS_OK)
        st = kvsi_json_get_bool(&right, value, "strip_right", what, err);
    c->start = (size_t)left;
    c->stop = (size_t)right;
    return st;
}

static kvs_status read_character_map(kvsi_component *c, const json_t *value, const char *what,
                                     kvs_err *err)
{
    const char *base64 = NULL;
    kvsi_text map = {0};
    kvs_status st;

    TRY_OUT(kvsi_json_require(value, "precompiled_charsmap", what, err));
    TRY_OUT(kvsi_json_get_text(&base64, value, "precompiled_charsmap", what, err));
    if (!kvsi_base64_decode(&map, base64)) {
        st =
            kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'precompiled_charsmap': expected base64", what);
        goto out;
    }
    TRY_OUT(kvsi_text_check(&map, err));
    TRY_OUT(kvsi_character_map_check(map.data, map.length, err));
    c->content = map.data;
    c->content_size = map.length;
    map.data = NULL;
out:
    kvsi_text_release(&map);
    return st;
}

static kvs_status read_split(kvsi_component *c, const json_t *value, const char *what, kvs_err *err)
{
    TRY(get_pattern(c, value, what, err));
    TRY(kvsi_json_require(value, "behavior", what, err));
    TRY(get_behavior(c, value, what, err));
    return kvsi_json_get_bool(&c->invert, value, "invert", what, err);
}

static kvs_status read_digits(kvsi_component *c, const json_t *value, const char *what,
                              kvs_err *err)
{
    int individual = 0;
    const kvs_status st = kvsi_json_get_bool(&individual, value, "individual_digits", what, err);

    c->is = kvsi_is_numeric;
    c->behavior = individual ? KVSI_ISOLATED : KVSI_CONTIGUOUS;
    return st;
}

static kvs_status read_punctuation(kvsi_component *c, const json_t *value, const char *what,
                                   kvs_err *err)
{
    c->is = kvsi_is_punctuation;
    c->behavior = KVSI_ISOLATED;
    return get_behavior(c, value, what, err);
}

/* \w of this component; in other expressions \w includes all of \p{N}. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}"

static kvs_status read_whitespace(kvsi_component *c, const json_t *value, const char *what,
                                  kvs_err *err)
{
    (void)value, (void)what;
    c->behavior = KVSI_REMOVED;
    c->invert = 1;
    return kvsi_pattern_create(&c->pattern, "[" WORD "]+|[^\\s" WORD "]+", err);
}

static kvs_status read_whitespace_split(kvsi_component *c, const json_t *value, const char *what,
                                        kvs_err *err)
{
    (void)value, (void)what, (void)err;
    c->is = kvsi_is_space;
    c->behavior = KVSI_REMOVED;
    return KVS_OK;
}

static kvs_status read_metaspace(kvsi_component *c, const json_t *value, const char *what,
                                 kvs_err *err)
{
    static const kvsi_name schemes[] = {{"never", KVSI_PREFIX_NEVER},
                                        {"first", KVSI_PREFIX_FIRST},
                                        {"always", KVSI_PREFIX_ALWAYS},
                                        {NULL, 0}};
    int scheme = KVSI_PREFIX_ALWAYS, prefix = 1;

    c->split = 1;
    c->behavior = KVSI_MERGED_WITH_NEXT;
    TRY(get_content(c, value, "replacement", "\xe2\x96\x81", what, err));
    TRY(kvsi_json_get_bool(&c->split, value, "split", what, err));
    TRY(kvsi_json_get_bool(&prefix, value, "add_prefix_space", what, err)); /* older files */
    TRY(get_name(&scheme, value, "prepend_scheme", schemes, what, err));
    c->prefix = prefix ? (kvsi_prefix)scheme : KVSI_PREFIX_NEVER;
    if (!c->content_size)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'replacement' of a Metaspace is empty",
                         what);
    return kvsi_pattern_create_literal(&c->pattern, c->content, c->content_size, err);
}

static kvs_status read_strip(kvsi_component *c, const json_t *value, const char *what, kvs_err *err)
{
    TRY(get_content(c, value, "content", " ", what, err));
    TRY(kvsi_json_get_size(&c->start, value, "start", what, err));
    TRY(kvsi_json_get_size(&c->stop, value, "stop", what, err));
    if (!c->content_size)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key 'content' of a Strip decoder is empty",
                         what);
    return KVS_OK;
}

typedef struct component_type {
    const char *name;
    kvsi_component_role role;
    kvsi_component_kind kind;
    kvs_status (*read)(kvsi_component *c, const json_t *value, const char *what, kvs_err *err);
} component_type;

static const component_type types[] = {
    {"NFC", KVSI_NORMALIZER, KVSI_NFC, read_plain},
    {"NFD", KVSI_NORMALIZER, KVSI_NFD, read_plain},
    {"NFKC", KVSI_NORMALIZER, KVSI_NFKC, read_plain},
    {"NFKD", KVSI_NORMALIZER, KVSI_NFKD, read_plain},
    {"Lowercase", KVSI_NORMALIZER, KVSI_LOWERCASE, read_plain},
    {"Prepend", KVSI_NORMALIZER, KVSI_PREPEND, read_prepend},
    {"Strip", KVSI_NORMALIZER, KVSI_STRIP_SPACES, read_strip_spaces},
    {"Replace", KVSI_NORMALIZER, KVSI_REPLACE, read_replace},
    {"Precompiled", KVSI_NORMALIZER, KVSI_CHARACTER_MAP, read_character_map},
    {"Split", KVSI_PRE_TOKENIZER, KVSI_SPLIT, read_split},
    {"Digits", KVSI_PRE_TOKENIZER, KVSI_SPLIT, read_digits},
    {"Punctuation", KVSI_PRE_TOKENIZER, KVSI_SPLIT, read_punctuation},
    {"Whitespace", KVSI_PRE_TOKENIZER, KVSI_SPLIT, read_whitespace},
    {"WhitespaceSplit", KVSI_PRE_TOKENIZER, KVSI_SPLIT, read_whitespace_split},
    {"Metaspace", KVSI_PRE_TOKENIZER, KVSI_METASPACE, read_metaspace},
    {"ByteLevel", KVSI_DECODER, KVSI_BYTE_LEVEL, read_plain},
    {"Metaspace", KVSI_DECODER, KVSI_METASPACE, read_metaspace},
    {"Replace", KVSI_DECODER, KVSI_REPLACE, read_replace},
    {"ByteFallback", KVSI_DECODER, KVSI_BYTE_FALLBACK, read_plain},
    {"Fuse", KVSI_DECODER, KVSI_FUSE, read_plain},
    {"Strip", KVSI_DECODER, KVSI_STRIP, read_strip},
};

/* ---- reading --------------------------------------------------------------------------------- */

static const struct {
    const char *name, *members; /* the key of a Sequence's members */
} roles[] = {[KVSI_NORMALIZER] = {"normalizer", "normalizers"},
             [KVSI_PRE_TOKENIZER] = {"pre-tokenizer", "pretokenizers"},
             [KVSI_DECODER] = {"decoder", "decoders"}};

static kvs_status append(kvsi_components *out, kvsi_component_kind kind, kvsi_component **fresh,
                         kvs_err *err)
{
    TRY(out->count < STEPS_MAX
            ? kvsi_array_reserve(&out->list, &out->capacity, out->count + 1, sizeof *out->list, err)
            : kvsi_fail(err, KVS_E_LIMIT,
                        "the tokenizer has more than %d normalizers, pre-tokenizers or decoders",
                        (int)STEPS_MAX));
    *fresh = out->list + out->count++;
    (*fresh)->kind = kind;
    return KVS_OK;
}

/* The pre-tokenizer ByteLevel becomes up to three components. */
static kvs_status read_byte_level(kvsi_components *out, const json_t *value, const char *what,
                                  kvs_err *err)
{
    int prefix = 1, split = 1;
    kvsi_component *c;

    TRY(kvsi_json_get_bool(&prefix, value, "add_prefix_space", what, err));
    TRY(kvsi_json_get_bool(&split, value, "use_regex", what, err));
    if (prefix)
        TRY(append(out, KVSI_PREFIX_SPACE, &c, err));
    if (split) {
        TRY(append(out, KVSI_SPLIT, &c, err));
        c->behavior = KVSI_ISOLATED;
        TRY(kvsi_pattern_create(&c->pattern, KVSI_GPT2_EXPRESSION, err));
    }
    return append(out, KVSI_BYTE_LEVEL, &c, err);
}

static kvs_status read_one(kvsi_components *out, kvsi_component_role role, const json_t *value,
                           const char *type, const char *what, kvs_err *err)
{
    if (role == KVSI_PRE_TOKENIZER && strcmp(type, "ByteLevel") == 0)
        return read_byte_level(out, value, what, err);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        kvsi_component *c;
        kvs_status st;

        if (types[i].role != role || strcmp(types[i].name, type) != 0)
            continue;
        st = append(out, types[i].kind, &c, err);
        return st != KVS_OK ? st : types[i].read(c, value, what, err);
    }
    return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s': %s '%s' is not supported", what,
                     roles[role].name, type);
}

static kvs_status read_nested(kvsi_components *out, kvsi_component_role role, const json_t *value,
                              int depth, const char *what, kvs_err *err)
{
    const char *type = NULL;
    const json_t *parts, *part;
    size_t i;

    if (!value || json_is_null(value))
        return KVS_OK;
    if (!json_is_object(value))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': a %s must be an object", what, roles[role].name);
    TRY(kvsi_json_require(value, "type", what, err));
    TRY(kvsi_json_get_text(&type, value, "type", what, err));
    if (strcmp(type, "Sequence") != 0)
        return read_one(out, role, value, type, what, err);
    parts = json_object_get(value, roles[role].members);
    if (!json_is_array(parts))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': a Sequence needs an array '%s'", what,
                         roles[role].members);
    if (depth == DEPTH_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s': sequences are nested more than %d deep", what,
                         (int)DEPTH_MAX);
    json_array_foreach(parts, i, part)
        TRY(read_nested(out, role, part, depth + 1, what, err));
    return KVS_OK;
}

kvs_status kvsi_components_read(kvsi_components *out, kvsi_component_role role, const json_t *value,
                                const char *what, kvs_err *err)
{
    return read_nested(out, role, value, 0, what, err);
}

void kvsi_components_release(kvsi_components *components)
{
    for (size_t i = 0; i < components->count; i++) {
        kvsi_pattern_free(components->list[i].pattern);
        kvsi_free(components->list[i].content);
    }
    kvsi_free(components->list);
    *components = (kvsi_components){0};
}
