#include "base/files.h"
#include "base/memory.h"
#include "tokenizer/tokenizer_files.h"

#include <string.h>

json_t *kvsi_byte_level_json(const char *expression)
{
    json_t *pre_tokenizer =
        json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                  "trim_offsets", 1, "use_regex", expression == NULL);

    if (expression && *expression)
        pre_tokenizer = json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence",
                                  "pretokenizers", "type", "Split", "pattern", "Regex", expression,
                                  "behavior", "Isolated", "invert", 0, pre_tokenizer);
    return json_pack("{s:s, s:n, s:n, s:[], s:n, s:o, s:n, s:{s:s, s:b, s:b, s:b}, "
                     "s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:{}, s:[]}}",
                     "version", "1.0", "truncation", "padding", "added_tokens", "normalizer",
                     "pre_tokenizer", pre_tokenizer, "post_processor", "decoder", "type",
                     "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1, "model",
                     "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "ignore_merges", 0,
                     "vocab", "merges");
}

static json_t *member_of_model(json_t *document, const char *key)
{
    return json_object_get(json_object_get(document, "model"), key);
}

kvs_status kvsi_tokenizer_json_add_piece(json_t *document, const char *piece, size_t size,
                                         size_t id, kvs_err *err)
{
    json_t *vocab = member_of_model(document, "vocab");
    json_t *text = json_stringn(piece, size);
    kvs_status st;

    TRY_OUT(kvsi_json_check("a tokenizer", err));
    if (!text || memchr(piece, '\0', size))
        st = kvsi_fail(err, KVS_E_FORMAT, "token %zu, '%.*s', is not valid UTF-8", id,
                       (int)(size < 64 ? size : 64), piece);
    else if (json_object_get(vocab, json_string_value(text)))
        st = kvsi_fail(err, KVS_E_FORMAT, "token %zu, '%s', occurs twice", id,
                       json_string_value(text));
    else if (json_object_set_new(vocab, json_string_value(text), json_integer((json_int_t)id)) != 0)
        st = kvsi_no_memory(err, "a tokenizer");
out:
    json_decref(text);
    return st;
}

kvs_status kvsi_tokenizer_json_add_token(json_t *document, const char *content, size_t size,
                                         size_t id, int special, kvs_err *err)
{
    json_t *token = json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id,
                              "content", content, size, "single_word", 0, "lstrip", 0, "rstrip", 0,
                              "normalized", 0, "special", special);

    if (json_array_append_new(json_object_get(document, "added_tokens"), token) == 0)
        return KVS_OK;
    return kvsi_nomem_is_set()
               ? kvsi_no_memory(err, "a tokenizer")
               : kvsi_fail(err, KVS_E_FORMAT, "token %zu, '%.*s', is not valid UTF-8", id,
                           (int)(size < 64 ? size : 64), content);
}

kvs_status kvsi_tokenizer_json_add_merge(json_t *document, const char *merge, size_t size,
                                         kvs_err *err)
{
    json_t *text = json_stringn(merge, size);

    if (json_array_append_new(member_of_model(document, "merges"), text) == 0)
        return KVS_OK;
    return kvsi_nomem_is_set() ? kvsi_no_memory(err, "a tokenizer")
                               : kvsi_fail(err, KVS_E_FORMAT, "merge '%.*s' is not valid UTF-8",
                                           (int)(size < 64 ? size : 64), merge);
}

static void add_special(json_t *single, json_t *specials, const char *token, size_t id)
{
    json_array_append_new(single,
                          json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", token, "type_id", 0));
    json_object_set_new(
        specials, token,
        json_pack("{s:s, s:[I], s:[s]}", "id", token, "ids", (json_int_t)id, "tokens", token));
}

kvs_status kvsi_tokenizer_json_set_template(json_t *document, const char *before, size_t before_id,
                                            const char *after, size_t after_id, kvs_err *err)
{
    json_t *single = json_array(), *specials = json_object(), *pair, *second;

    if (before)
        add_special(single, specials, before, before_id);
    json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    if (after)
        add_special(single, specials, after, after_id);
    pair = json_copy(single); /* two texts: one after the other, as Hugging Face writes it */
    second = json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1);
    if (!pair || json_array_append_new(pair, second) != 0 ||
        json_object_set_new(document, "post_processor",
                            json_pack("{s:s, s:o, s:o, s:o}", "type", "TemplateProcessing",
                                      "single", single, "pair", pair, "special_tokens",
                                      specials)) != 0)
        return kvsi_no_memory(err, "a tokenizer");
    return KVS_OK;
}

/* ---- GPT-2's files --------------------------------------------------------------------------- */

static const char *const file_pairs[][2] = {{"encoder.json", "vocab.bpe"},
                                            {"vocab.json", "merges.txt"}};

/* The index in file_pairs of the files in the folder, or -1. */
static int find_pair(const char *dir)
{
    for (int i = 0; i < 2; i++) {
        char *first = kvsi_path_join(dir, file_pairs[i][0]);
        char *second = kvsi_path_join(dir, file_pairs[i][1]);
        const int both = first && second && kvsi_file_exists(first) && kvsi_file_exists(second);

        kvsi_free(first);
        kvsi_free(second);
        if (both)
            return i;
    }
    return -1;
}

int kvsi_has_gpt2_files(const char *dir)
{
    return find_pair(dir) >= 0;
}

/* One merge per line, after a "#version" line. */
static kvs_status add_merge_lines(json_t *document, const char *text, size_t size, kvs_err *err)
{
    kvs_status st = KVS_OK;
    const char *line = text, *const end = text + size;

    while (line < end && st == KVS_OK) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        size_t length = (size_t)((newline ? newline : end) - line);
        const int is_header = line == text && length >= 8 && memcmp(line, "#version", 8) == 0;

        if (length > 0 && line[length - 1] == '\r')
            length--;
        if (length > 0 && !is_header)
            st = kvsi_tokenizer_json_add_merge(document, line, length, err);
        line = newline ? newline + 1 : end;
    }
    return st;
}

static kvs_status fill_gpt2(json_t *document, const char *vocab_path, const char *merges_path,
                            kvs_err *err)
{
    static const char end[] = "<|endoftext|>";
    json_t *vocab = NULL, *id;
    char *merges = NULL;
    size_t size = 0;
    kvs_status st;

    TRY_OUT(kvsi_json_read(&vocab, vocab_path, KVSI_TOKENIZER_FILE_MAX, err));
    TRY_OUT(kvsi_file_read(&merges, &size, merges_path, KVSI_TOKENIZER_FILE_MAX, err));
    TRY_OUT(add_merge_lines(document, merges, size, err));
    if (json_object_set(json_object_get(document, "model"), "vocab", vocab) != 0) {
        st = kvsi_no_memory(err, "a tokenizer");
        goto out;
    }
    id = json_object_get(vocab, end);
    if (json_is_integer(id) && json_integer_value(id) >= 0)
        TRY_OUT(kvsi_tokenizer_json_add_token(document, end, strlen(end),
                                              (size_t)json_integer_value(id), 1, err));
out:
    json_decref(vocab);
    kvsi_free(merges);
    return st;
}

kvs_status kvsi_tokenizer_load_gpt2(kvs_tokenizer **out, const char *dir, kvs_err *err)
{
    const int pair = find_pair(dir);
    char *vocab = kvsi_path_join(dir, file_pairs[pair > 0][0]);
    char *merges = kvsi_path_join(dir, file_pairs[pair > 0][1]);
    json_t *document = kvsi_byte_level_json(NULL);
    kvs_status st;

    *out = NULL;
    if (!document || !vocab || !merges) {
        st = kvsi_no_memory(err, "a tokenizer");
        goto out;
    }
    TRY_OUT(fill_gpt2(document, vocab, merges, err));
    st = kvsi_tokenizer_from_json(out, json_incref(document), vocab, err);
out:
    json_decref(document);
    kvsi_free(vocab);
    kvsi_free(merges);
    return st;
}
