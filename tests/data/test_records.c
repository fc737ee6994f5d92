/* Data from files of conversations and documents: which tokens have a loss, what is cut, the split,
 * and what is refused with its line.  With the tokenizer "bytes", ids are the bytes of the text. */
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/data.h"
#include "kvshift/kvshift_files.h"
#include "support.h"

#include <stdio.h>
#include <string.h>
#include <zstd.h>

enum { LONGEST = 512 };

/* Marks of one byte, so that the expected texts are easy to read. */
static const char marks[] = "{% for m in messages %}"
                            "{{ '<' ~ m.role[0] ~ '>' ~ m.content ~ '#\\n' }}"
                            "{% endfor %}"
                            "{{ '<a>' if add_generation_prompt }}";

static kvs_tokenizer *bytes;
static char *path;

/* ---- helpers --------------------------------------------------------------------------------- */

static void write_file(const char *name, const char *text, size_t size)
{
    FILE *file;

    kvsi_free(path);
    path = kvsi_path_join(support_dir, name);
    file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

static kvs_records_options usual(void)
{
    kvs_records_options how;

    kvs_records_options_init(&how, sizeof how);
    how.tokenizer = bytes;
    how.length = 64;
    how.fraction = 0;
    return how;
}

static kvs_chat_template *make_template(const char *text)
{
    kvs_chat_template *t;
    kvs_err err;

    if (kvs_chat_template_create(&t, text, strlen(text), &err) != KVS_OK)
        fail_msg("%s", err.message);
    return t;
}

static kvs_data *open_data(kvs_records_info *info, const kvs_records_options *how)
{
    kvs_data *data;
    kvs_err err;

    *info = (kvs_records_info){.size = sizeof *info};
    if (kvs_data_create_records(&data, info, path, how, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return data;
}

static void expect_refused(const kvs_records_options *how, const char *text)
{
    kvs_data *data;
    kvs_err err = {0};

    if (kvs_data_create_records(&data, NULL, path, how, &err) == KVS_OK)
        fail_msg("accepted, expected '%s'", text);
    if (!strstr(err.message, text) || strchr(err.message, '\n'))
        fail_msg("'%s', expected '%s'", err.message, text);
    assert_null(data);
}

/* The fed bytes, and the targets as bytes, with '.' for none. */
static void expect_sequence(const kvs_data *data, kvs_stream stream, uint64_t index,
                            const char *fed, const char *targets)
{
    int32_t ids[LONGEST], wanted[LONGEST];
    uint8_t scored[LONGEST];
    char found_ids[LONGEST + 1] = "", found_targets[LONGEST + 1] = "";
    const size_t length = kvs_data_sequence(ids, wanted, scored, data, 1, stream, index);

    for (size_t i = 0; i < length; i++) {
        found_ids[i] = (char)ids[i];
        found_targets[i] = wanted[i] < 0 ? '.' : (char)wanted[i];
        assert_int_equal(scored[i], 0);
    }
    assert_string_equal(found_ids, fed);
    assert_string_equal(found_targets, targets);
}

/* ---- which tokens have a loss ---------------------------------------------------------------- */

static void a_response_has_a_loss(void **state)
{
    static const char text[] =
        "\xef\xbb\xbf{\"prompt\": \"ab\", \"response\": \"cd\", \"id\": 7}\r\n\n";
    kvs_records_options how = usual();
    kvs_records_info info;
    kvs_data *data;

    (void)state;
    write_text("pair.jsonl", text);
    data = open_data(&info, &how);
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "abc", ".cd");
    assert_int_equal(info.kind, KVS_RECORD_PAIR);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].records, 1);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].tokens, 4);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].targets, 2);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].bytes, sizeof text - 1);
    assert_int_equal(kvs_data_max_length(data), 3);
    assert_int_equal(kvs_data_vocab(data), 256);
    kvs_data_free(data);
    how.loss_all = 1;
    data = open_data(&info, &how);
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "abc", "bcd");
    kvs_data_free(data);
}

static void a_prompt_may_be_empty(void **state)
{
    const kvs_records_options how = usual();
    kvs_records_info info;
    kvs_data *data;

    (void)state;
    write_text("pair.json", "[{\"prompt\": \"\", \"response\": \"abc\"}]");
    data = open_data(&info, &how);
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "ab", "bc");
    kvs_data_free(data);
}

static void answers_have_a_loss(void **state)
{
    static const char text[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"s\"},"
        "{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", \"content\": \"xy\"},"
        "{\"role\": \"user\", \"content\": \"v\"}, {\"role\": \"assistant\", \"content\": \"\"},"
        "{\"role\": \"user\", \"content\": \"w\"}]}";
    kvs_records_options how = usual();
    kvs_chat_template *own = make_template(marks), *raw;
    kvs_records_info info;
    kvs_data *data;
    kvs_err err;

    (void)state;
    write_text("chat.jsonl", text);
    expect_refused(&how, "need a chat template");
    how.chat_template = own;
    data = open_data(&info, &how);
    /* The end of an answer has a loss, the line end behind it has none. */
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "<s>s#\n<u>u#\n<a>xy#\n<u>v#\n<a>",
                    "..............xy#..........#");
    assert_int_equal(info.kind, KVS_RECORD_MESSAGES);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].targets, 4);
    kvs_data_free(data);
    how.loss_all = 1;
    data = open_data(&info, &how);
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "<s>s#\n<u>u#\n<a>xy#\n<u>v#\n<a>#\n<u>w#",
                    "s>s#\n<u>u#\n<a>xy#\n<u>v#\n<a>#\n<u>w#\n");
    kvs_data_free(data);
    how.loss_all = 0;
    /* A template without an end of its own ends answers with the line end. */
    assert_int_equal(kvs_chat_template_load(&raw, NULL, "raw", NULL, &err), KVS_OK);
    how.chat_template = raw;
    data = open_data(&info, &how);
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "s\nu\nxy\nv\n", "...xy\n..\n");
    kvs_data_free(data);
    kvs_chat_template_free(own);
    kvs_chat_template_free(raw);
}

static void tools_reach_the_template(void **state)
{
    static const char text[] =
        "{\"tools\": [{\"name\": \"t\"}], \"messages\": [{\"role\": \"user\", \"content\": \"u\"},"
        "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": []}]}";
    kvs_records_options how = usual();
    kvs_chat_template *t =
        make_template("{{ tools[0].name }}{% for m in messages %}{{ m.role[0] }}{% endfor %}");
    kvs_records_info info;
    kvs_data *data;

    (void)state;
    write_text("tools.jsonl", text);
    how.chat_template = t;
    data = open_data(&info, &how);
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "tu", ".a");
    kvs_data_free(data);
    kvs_chat_template_free(t);
}

/* "b" and "c" become one token, which contains the start of the response. */
static void a_token_across_the_boundary_has_a_loss(void **state)
{
    static const char text[] = "{\"prompt\": \"ab\", \"response\": \"ca\"}\n"
                               "{\"prompt\": \"a\", \"response\": \"bc\"}\n";
    const char *files[1];
    kvs_tokenizer_training training;
    kvs_records_options how = usual();
    kvs_records_info info;
    kvs_tokenizer *t;
    int32_t ids[8], targets[8];
    uint8_t scored[8];
    kvs_data *data;
    kvs_err err;

    (void)state;
    write_text("words.txt", "xbc ybc zbc");
    files[0] = path;
    kvs_tokenizer_training_init(&training, sizeof training);
    training.vocab = 257;
    training.threads = 1;
    assert_int_equal(kvs_tokenizer_train(&t, files, 1, &training, &err), KVS_OK);
    assert_true(kvs_tokenizer_find(t, "bc") >= 0);
    write_text("inside.jsonl", text);
    how.tokenizer = t;
    data = open_data(&info, &how);
    assert_int_equal(info.inside, 1);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].targets, 3); /* bc a; bc */
    for (uint64_t i = 0; i < 2; i++) {
        kvs_data_sequence(ids, targets, scored, data, 1, KVS_STREAM_TRAIN, i);
        assert_int_equal(targets[0], kvs_tokenizer_find(t, "bc"));
    }
    kvs_data_free(data);
    kvs_tokenizer_free(t);
}

static void wrong_templates_are_refused(void **state)
{
    static const char text[] =
        "\n{\"messages\": [{\"role\": \"user\", \"content\": \"u\"},"
        "{\"role\": \"assistant\", \"content\": \"x\"}, {\"role\": \"user\", \"content\": \"v\"},"
        "{\"role\": \"assistant\", \"content\": \"y\"}]}";
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{% for m in messages %}{{ loop.length }}{{ m.content }}{% endfor %}",
         "line 2: message 1: the chat template of 'the caller' does not begin this answer"},
        {"{% for m in messages %}{{ m.content if m.role == 'user' or loop.last }}.{% endfor %}",
         "line 2: message 3: the chat template of 'the caller' changes earlier messages"},
        {"{% for m in messages %}{{ m.content }}{% endfor %}{{ '?' if add_generation_prompt }}",
         "line 2: message 1: the chat template of 'the caller' does not begin this answer"},
        {"{{ raise_exception('no') }}", "line 2: "},
    };
    kvs_records_options how = usual();

    (void)state;
    write_text("chat.jsonl", text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_chat_template *t = make_template(cases[i].text);

        how.chat_template = t;
        expect_refused(&how, cases[i].message);
        kvs_chat_template_free(t);
    }
}

/* ---- lengths --------------------------------------------------------------------------------- */

static void long_conversations_are_cut(void **state)
{
    static const char text[] = "{\"prompt\": \"abcd\", \"response\": \"efgh\"}\n"
                               "{\"prompt\": \"abcdefgh\", \"response\": \"i\"}\n"
                               "{\"prompt\": \"ab\", \"response\": \"cdef\"}\n";
    kvs_records_options how = usual();
    kvs_records_info info;
    kvs_data *data;

    (void)state;
    write_text("long.jsonl", text);
    how.length = 5; /* six tokens: five are fed */
    data = open_data(&info, &how);
    assert_int_equal(info.cut, 2);
    assert_int_equal(info.dropped, 1);
    assert_int_equal(info.longest, 9);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].records, 2);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].targets, 2 + 4);
    assert_int_equal(kvs_data_max_length(data), 5);
    kvs_data_free(data);
    how.refuse_long = 1;
    expect_refused(&how, "long.jsonl' line 1: the conversation has more than 6 tokens");
    how.length = 8;
    data = open_data(&info, &how);
    assert_int_equal(info.cut, 0);
    kvs_data_free(data);
    how.length = 1;
    how.refuse_long = 0;
    expect_refused(&how, "none of its 3 conversations has a response within 2 tokens");
}

/* Answers beyond the limit are neither rendered nor needed. */
static void long_chats_are_cut(void **state)
{
    kvsi_text text = {0};
    kvs_records_options how = usual();
    kvs_chat_template *t = make_template(marks);
    kvs_records_info info;
    kvs_data *data;

    (void)state;
    kvsi_text_add(&text, "{\"messages\": [");
    for (int i = 0; i < 4000; i++)
        kvsi_text_format(&text, "%s{\"role\": \"%s\", \"content\": \"c\"}", i > 0 ? ", " : "",
                         i % 2 ? "assistant" : "user");
    kvsi_text_add(&text, "]}\n");
    write_file("long.jsonl", text.data, text.length);
    how.chat_template = t;
    how.length = 19;
    data = open_data(&info, &how);
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "<u>c#\n<a>c", "........c#");
    assert_int_equal(info.cut, 1);
    kvs_data_free(data);
    kvs_chat_template_free(t);
    kvsi_text_release(&text);
}

/* ---- documents ------------------------------------------------------------------------------- */

static void documents_are_cut_into_windows(void **state)
{
    kvs_records_options how = usual();
    kvs_records_info info;
    kvs_data *data;

    (void)state;
    write_text("d.jsonl", "{\"text\": \"abcdefg\"}\n{\"text\": \"x\"}\n");
    how.length = 3;
    data = open_data(&info, &how);
    assert_int_equal(info.kind, KVS_RECORD_TEXT);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].sequences, 2);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].targets, 6);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].records, 1);
    kvs_data_free(data);
    /* The last windows of a single document are for validation. */
    write_text("d.txt", "abcdefg");
    how.fraction = 0.05;
    data = open_data(&info, &how);
    expect_sequence(data, KVS_STREAM_TRAIN, 0, "abc", "bcd");
    expect_sequence(data, KVS_STREAM_EVAL, 0, "def", "efg");
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].tokens, 4);
    assert_int_equal(info.split[KVS_SPLIT_VALID].tokens, 4);
    kvs_data_free(data);
    how.length = 6;
    expect_refused(&how, "is one document of 7 tokens: expected more than 6");
}

/* ---- the split ------------------------------------------------------------------------------- */

static void write_pairs(const char *name, char first, size_t count)
{
    kvsi_text text = {0};

    for (size_t i = 0; i < count; i++)
        kvsi_text_format(&text, "{\"prompt\": \"%c\", \"response\": \"!\"}\n",
                         (int)(first + (int)i));
    write_file(name, text.data, text.length);
    kvsi_text_release(&text);
}

/* Marks the prompts of the first `count` sequences of the stream. */
static void mark_prompts(int seen[128], const kvs_data *data, kvs_stream stream, uint64_t from,
                         uint64_t count)
{
    int32_t ids[4], targets[4];
    uint8_t scored[4];

    memset(seen, 0, 128 * sizeof *seen);
    for (uint64_t i = from; i < from + count; i++) {
        kvs_data_sequence(ids, targets, scored, data, 1, stream, i);
        seen[ids[0]]++;
    }
}

static void records_are_split(void **state)
{
    kvs_records_options how = usual();
    kvs_records_info info;
    int train[128], valid[128];
    kvs_data *data;

    (void)state;
    how.fraction = 0.1;
    write_pairs("a.jsonl", '0', 40);
    data = open_data(&info, &how);
    assert_int_equal(info.split[KVS_SPLIT_VALID].records, 4);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].records, 36);
    mark_prompts(valid, data, KVS_STREAM_EVAL, 0, 4);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        mark_prompts(train, data, KVS_STREAM_TRAIN, 36 * epoch, 36);
        for (int i = '0'; i < '0' + 40; i++)
            assert_int_equal(train[i] + valid[i], 1);
    }
    kvs_data_free(data);
    how.fraction = 0.001; /* at least one */
    data = open_data(&info, &how);
    assert_int_equal(info.split[KVS_SPLIT_VALID].records, 1);
    kvs_data_free(data);
    write_pairs("a.jsonl", '0', 2);
    how.fraction = 0.99; /* not all */
    data = open_data(&info, &how);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].records, 1);
    kvs_data_free(data);
    write_pairs("a.jsonl", '0', 1);
    expect_refused(&how, "has 1 conversation with a response: expected 2 or more");
}

static void validation_can_be_a_file(void **state)
{
    kvs_records_options how = usual();
    kvs_records_info info;
    kvs_data *data;
    char *valid;

    (void)state;
    write_pairs("valid.jsonl", 'x', 1);
    valid = path;
    path = NULL;
    write_pairs("a.jsonl", '0', 3);
    how.valid = valid;
    data = open_data(&info, &how);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].records, 3);
    assert_int_equal(info.split[KVS_SPLIT_VALID].records, 1);
    expect_sequence(data, KVS_STREAM_EVAL, 5, "x", "!");
    kvs_data_free(data);
    write_text("t.txt", "some text");
    how.length = 4;
    expect_refused(&how, "have records of different kinds");
    kvsi_free(valid);
}

/* The description has checksums, with which a resumed run recognizes other data. */
static void the_description_depends_on_the_data(void **state)
{
    kvs_records_options how = usual();
    kvs_records_info info;
    json_t *first, *second;
    kvs_data *data;

    (void)state;
    for (int change = 0; change < 3; change++) {
        write_pairs("a.jsonl", '0', 5);
        how.loss_all = 0;
        data = open_data(&info, &how);
        first = data->ops->describe(data);
        kvs_data_free(data);
        if (change == 1)
            write_pairs("a.jsonl", '1', 5);
        how.loss_all = change == 2;
        data = open_data(&info, &how);
        second = data->ops->describe(data);
        kvs_data_free(data);
        assert_int_equal(json_equal(first, second), change == 0);
        json_decref(first);
        json_decref(second);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

#define OK "{\"prompt\": \"a\", \"response\": \"b\"}\n"
#define CHAT "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", "

static void wrong_files_are_refused(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "has no records"},
        {" \n\n", "has no records"},
        {"[]", "line 1: expected a JSON object"},
        {"{}", "line 1: expected 'messages', 'prompt' and 'response', or 'text', found no fields"},
        {"{\"a\": 1, \"b\": 2}",
         "line 1: expected 'messages', 'prompt' and 'response', or 'text', found the fields 'a', "
         "'b'"},
        {OK "{\"prompt\": \"a\"}",
         "line 2: expected 'prompt' and 'response', found the fields 'prompt'"},
        {OK "{\"text\": \"a\"}",
         "line 2: expected 'prompt' and 'response', found the fields 'text'"},
        {OK "\n{\"prompt\": 1, \"response\": \"b\"}", "line 3: expected text in 'prompt'"},
        {OK "{\"prompt\": \"a\", \"response\": null}", "line 2: expected text in 'response'"},
        {OK "{\"prompt\": \"\xff\", \"response\": \"b\"}", "line 2: malformed JSON"},
        {OK "{\"prompt\": \"a\", \"prompt\": \"a\", \"response\": \"b\"}",
         "line 2: malformed JSON"},
        {OK "{", "line 2: malformed JSON"},
        {"{\"messages\": 1}", "line 1: expected a list of messages"},
        {"{\"messages\": []}", "line 1: expected a list of messages"},
        {"{\"messages\": [1]}", "line 1: message 0: expected an object"},
        {"{\"messages\": [{\"role\": \"assistant\"}]}",
         "line 1: message 0: expected text in 'content'"},
        {"{\"messages\": [{\"content\": \"a\"}]}", "line 1: message 0: expected text in 'role'"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}",
         "line 1: no message has the role 'assistant'"},
        {CHAT "\"content\": \"x\"}]}\n" OK,
         "line 2: expected 'messages', found the fields 'prompt', 'response'"},
    };
    kvs_chat_template *t = make_template(marks);
    kvs_records_options how = usual();

    (void)state;
    how.chat_template = t;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text("wrong.jsonl", cases[i].text);
        expect_refused(&how, cases[i].message);
    }
    kvs_chat_template_free(t);
}

/* Nesting, sizes and NUL. */
static void hostile_files_are_refused(void **state)
{
    kvs_records_options how = usual();
    kvs_chat_template *t = make_template(marks);
    kvs_records_info info;
    kvsi_text text = {0};
    kvs_data *data;

    (void)state;
    how.chat_template = t;
    kvsi_text_add(&text, OK "{\"prompt\": ");
    for (int i = 0; i < 100000; i++)
        kvsi_text_add(&text, "[");
    write_file("deep.jsonl", text.data, text.length);
    expect_refused(&how, "line 2: malformed JSON");

    text.length = 0;
    kvsi_text_add(&text, OK "{\"prompt\": \"");
    for (int i = 0; i < 17 << 10; i++)
        kvsi_text_format(&text, "%1024d", 0);
    kvsi_text_add(&text, "\", \"response\": \"b\"}\n");
    write_file("wide.jsonl", text.data, text.length);
    expect_refused(&how, "line 2 has more than 16777216 bytes");

    text.length = 0;
    kvsi_text_add(&text, OK "{\"messages\": [\",,[{\\\",,\"");
    for (int i = 0; i < 1 << 20; i++)
        kvsi_text_add(&text, ",0");
    kvsi_text_add(&text, "]}\n");
    write_file("values.jsonl", text.data, text.length);
    expect_refused(&how, "line 2 has more than 1048576 JSON values");

    text.length = 0;
    kvsi_text_add(&text, "{\"messages\": [");
    for (int i = 0; i < 5000; i++)
        kvsi_text_format(&text, "%s{\"role\": \"user\", \"content\": \"c\"}", i > 0 ? ", " : "");
    kvsi_text_add(&text, "]}\n");
    write_file("many.jsonl", text.data, text.length);
    expect_refused(&how, "line 1: 5000 messages, expected at most 4096");

    write_text("nul.jsonl", "{\"prompt\": \"a\\u0000\", \"response\": \"b\\u0000c\"}\n");
    data = open_data(&info, &how);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].tokens, 5);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].targets, 3);
    kvs_data_free(data);
    kvs_chat_template_free(t);
    kvsi_text_release(&text);
}

static void files_can_be_compressed(void **state)
{
    kvs_records_options how = usual();
    kvs_records_info info;
    char packed[256];
    kvs_data *data;

    (void)state;
    write_file("a.jsonl.zst", packed,
               ZSTD_compress(packed, sizeof packed, OK OK, 2 * strlen(OK), 1));
    data = open_data(&info, &how);
    assert_int_equal(info.split[KVS_SPLIT_TRAIN].records, 2);
    kvs_data_free(data);
}

/* ---------------------------------------------------------------------------------------------- */

static int setup(void **state)
{
    kvs_err err;

    return support_dir_setup(state) || kvs_tokenizer_load(&bytes, "bytes", &err) != KVS_OK;
}

static int teardown(void **state)
{
    kvs_tokenizer_free(bytes);
    kvsi_free(path);
    return support_dir_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_response_has_a_loss),
        cmocka_unit_test(a_prompt_may_be_empty),
        cmocka_unit_test(answers_have_a_loss),
        cmocka_unit_test(tools_reach_the_template),
        cmocka_unit_test(a_token_across_the_boundary_has_a_loss),
        cmocka_unit_test(wrong_templates_are_refused),
        cmocka_unit_test(long_conversations_are_cut),
        cmocka_unit_test(long_chats_are_cut),
        cmocka_unit_test(documents_are_cut_into_windows),
        cmocka_unit_test(records_are_split),
        cmocka_unit_test(validation_can_be_a_file),
        cmocka_unit_test(the_description_depends_on_the_data),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(hostile_files_are_refused),
        cmocka_unit_test(files_can_be_compressed),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
