/* Corpora from text to folder and back: the split, refusals, and that no incomplete folder is
 * left. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/corpus.h"
#include "support.h"

#include <stdio.h>
#include <string.h>

static char *dir, *out; /* a folder, and the path of the corpus in it */

static int make_dir(void **state)
{
    (void)state;
    dir = support_make_dir();
    out = kvsi_path_join(dir, "corpus");
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    kvsi_dir_remove(out, NULL);
    kvsi_free(out);
    support_remove_dir(dir);
    return 0;
}

/* ---- helpers --------------------------------------------------------------------------------- */

static char *write_bytes(const char *name, const void *data, size_t size)
{
    char *path = kvsi_path_join(dir, name);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
    return path;
}

static kvs_status build_file(const char *path, const kvsi_corpus_plan *plan, const char *where,
                             kvs_err *err)
{
    kvsi_corpus_plan own = *plan;

    own.files = &path;
    own.count = 1;
    return kvsi_corpus_build(&own, where, err);
}

/* Builds a corpus of one file in `out` and opens it. */
static kvs_corpus *make(const char *name, const void *data, size_t size,
                        const kvsi_corpus_plan *plan)
{
    char *path = write_bytes(name, data, size);
    kvs_corpus *corpus = NULL;
    kvs_err err;

    if (build_file(path, plan, out, &err) != KVS_OK || kvs_corpus_open(&corpus, out, NULL, &err))
        fail_msg("%s", err.message);
    assert_int_equal(kvs_corpus_check(corpus, NULL), KVS_OK);
    kvsi_free(path);
    return corpus;
}

static kvsi_corpus_plan plan_for(double valid, uint64_t seed)
{
    kvsi_corpus_plan plan;

    kvsi_corpus_plan_init(&plan);
    plan.how.valid = valid;
    plan.how.seed = seed;
    plan.how.overwrite = 1;
    return plan;
}

/* The documents of a byte-level split as text, each after a '|'. */
static kvsi_text text_of(const kvs_corpus *corpus, kvs_split split)
{
    kvsi_text text = {0};

    kvsi_text_add(&text, "");
    for (size_t s = 0; s < corpus->record.info.split[split].shards; s++) {
        const kvsi_shard *shard = &corpus->shards[split][s];

        for (uint64_t d = 0; d < shard->documents; d++) {
            kvsi_text_add(&text, "|");
            for (uint64_t t = kvsi_shard_start(shard, d); t < kvsi_shard_start(shard, d + 1); t++) {
                int32_t id;
                char byte;

                kvsi_shard_read(shard, t, 1, &id);
                byte = (char)id;
                kvsi_text_add_bytes(&text, &byte, 1);
            }
        }
    }
    return text;
}

/* JSON lines with texts "document 0", "document 1", ... */
static kvsi_text numbered_lines(size_t count)
{
    kvsi_text lines = {0};

    for (size_t i = 0; i < count; i++)
        kvsi_text_format(&lines, "{\"text\": \"document %zu\"}\n", i);
    return lines;
}

/* Marks in `valid` which numbered documents are for validation; each must be in one split, in
 * order. */
static void find_sides(const kvs_corpus *corpus, uint8_t *valid, size_t count)
{
    kvsi_text text[2] = {text_of(corpus, KVS_SPLIT_TRAIN), text_of(corpus, KVS_SPLIT_VALID)};
    const char *at[2] = {text[0].data, text[1].data};

    for (size_t i = 0; i < count; i++) {
        char document[32];
        size_t length;

        snprintf(document, sizeof document, "|document %zu", i);
        length = strlen(document);
        valid[i] = strncmp(at[1], document, length) == 0 && strchr("|", at[1][length]);
        assert_true(valid[i] || strncmp(at[0], document, length) == 0);
        at[valid[i]] += length;
    }
    assert_true(*at[0] == '\0' && *at[1] == '\0');
    kvsi_text_release(&text[0]);
    kvsi_text_release(&text[1]);
}

static void build_numbered(uint8_t *valid, size_t count, double fraction, uint64_t seed,
                           uint64_t shard_tokens)
{
    kvsi_corpus_plan plan = plan_for(fraction, seed);
    kvsi_text lines = numbered_lines(count);
    kvs_corpus *corpus;

    plan.how.shard_tokens = shard_tokens ? shard_tokens : plan.how.shard_tokens;
    corpus = make("a.jsonl", lines.data, lines.length, &plan);
    assert_int_equal(kvs_corpus_get_info(corpus)->rule, KVS_SPLIT_BY_DOCUMENT);
    if (shard_tokens)
        assert_true(kvs_corpus_get_info(corpus)->split[KVS_SPLIT_TRAIN].shards > 3);
    find_sides(corpus, valid, count);
    kvs_corpus_close(corpus);
    kvsi_text_release(&lines);
}

/* ---- the split ------------------------------------------------------------------------------- */

static void the_split_is_stable(void **state)
{
    enum { COUNT = 2000 };
    uint8_t *first = kvsi_alloc(COUNT, 1), *second = kvsi_alloc(COUNT, 1);
    size_t valid = 0;

    (void)state;
    build_numbered(first, COUNT, 0.1, 1, 0);
    for (size_t i = 0; i < COUNT; i++)
        valid += first[i];
    assert_in_range(valid, 140, 260);             /* 200 +- 4.5 standard deviations */
    build_numbered(second, COUNT / 2, 0.1, 1, 0); /* fewer documents: same split */
    assert_memory_equal(first, second, COUNT / 2);
    build_numbered(second, COUNT, 0.1, 1, 500); /* several shards: same documents */
    assert_memory_equal(first, second, COUNT);
    build_numbered(second, COUNT, 0.1, 2, 0); /* another seed: another split */
    assert_memory_not_equal(first, second, COUNT);
    kvsi_free(first);
    kvsi_free(second);
}

/* With two documents each split gets one, for any hashes. */
static void no_side_is_left_empty(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint8_t valid[2];

        build_numbered(valid, 2, seed % 2 ? 0.01 : 0.9, seed, 0);
        assert_int_equal(valid[0] + valid[1], 1);
    }
}

static void one_document_is_split_by_position(void **state)
{
    static const char text[] = "first line\nsecond line\nthird line\nfourth line\n";
    const kvsi_corpus_plan plan = plan_for(0.25, 1);
    kvs_corpus *corpus = make("a.txt", text, sizeof text - 1, &plan);
    kvsi_text train = text_of(corpus, KVS_SPLIT_TRAIN), valid = text_of(corpus, KVS_SPLIT_VALID);

    (void)state;
    assert_int_equal(kvs_corpus_get_info(corpus)->rule, KVS_SPLIT_BY_POSITION);
    assert_string_equal(train.data, "|first line\nsecond line\nthird line\n");
    assert_string_equal(valid.data, "|fourth line\n");
    kvsi_text_release(&train);
    kvsi_text_release(&valid);
    kvs_corpus_close(corpus);
}

static void without_validation_all_is_for_training(void **state)
{
    const kvsi_corpus_plan plan = plan_for(0, 1);
    kvs_corpus *corpus = make("a.txt", "some text", 9, &plan);
    kvsi_text train = text_of(corpus, KVS_SPLIT_TRAIN);

    (void)state;
    assert_int_equal(kvs_corpus_get_info(corpus)->rule, KVS_SPLIT_NONE);
    assert_int_equal(kvs_corpus_get_info(corpus)->split[KVS_SPLIT_VALID].shards, 0);
    assert_string_equal(train.data, "|some text");
    kvsi_text_release(&train);
    kvs_corpus_close(corpus);
}

/* ---- contents -------------------------------------------------------------------------------- */

static void invalid_utf8_is_kept(void **state)
{
    static const char text[] = "\xff\xfe<|endoftext|>\xc3(\x80<|endoftext|>\xed\xa0\x80";
    const kvsi_corpus_plan plan = plan_for(0, 1);
    kvs_corpus *corpus = make("a.txt", text, sizeof text - 1, &plan);
    kvsi_text train = text_of(corpus, KVS_SPLIT_TRAIN);

    (void)state;
    assert_string_equal(train.data, "|\xff\xfe|\xc3(\x80|\xed\xa0\x80");
    kvsi_text_release(&train);
    kvs_corpus_close(corpus);
}

/* Reads across documents and shards from any token; for bytes the ids are the text. */
static void tokens_are_read_in_order(void **state)
{
    static const char text[] = "one|two|three|four|five", expected[] = "onetwothreefourfive";
    const size_t size = sizeof expected - 1;
    kvsi_corpus_plan plan = plan_for(0, 1);
    kvs_corpus *corpus;
    int32_t ids[32];

    (void)state;
    plan.how.separator = "|";
    plan.how.shard_tokens = 4;
    corpus = make("a.txt", text, sizeof text - 1, &plan);
    assert_true(kvs_corpus_get_info(corpus)->split[KVS_SPLIT_TRAIN].shards > 2);
    for (size_t first = 0; first <= size + 1; first++)
        for (size_t count = 0; count < 32; count++) {
            const size_t left = first < size ? size - first : 0, most = left < count ? left : count;

            assert_int_equal(kvs_corpus_read(ids, count, corpus, KVS_SPLIT_TRAIN, first), most);
            for (size_t i = 0; i < most; i++)
                assert_int_equal(ids[i], expected[first + i]);
        }
    assert_int_equal(kvs_corpus_read(ids, 5, corpus, KVS_SPLIT_VALID, 0), 0);
    kvs_corpus_close(corpus);
}

static void a_corpus_knows_its_sources(void **state)
{
    char *paths[] = {write_bytes("a.txt", "first text", 10), write_bytes("b.txt", "", 0),
                     write_bytes("c.txt", "third text", 10)};
    kvsi_corpus_plan plan = plan_for(0.5, 1);
    uint64_t bytes = 0, checksum = 0;
    kvs_corpus *corpus;

    (void)state;
    plan.files = (const char *const *)paths;
    plan.count = 3;
    assert_int_equal(kvsi_corpus_build(&plan, out, NULL), KVS_OK);
    assert_int_equal(kvs_corpus_open(&corpus, out, NULL, NULL), KVS_OK);
    assert_string_equal(kvs_corpus_source(corpus, 0, &bytes, &checksum), paths[0]);
    assert_int_equal(bytes, 10);
    assert_string_equal(kvs_corpus_source(corpus, 1, &bytes, &checksum), paths[1]);
    assert_int_equal(bytes, 0);
    assert_true(checksum == UINT64_C(0xef46db3751d8e999)); /* xxHash64 of nothing */
    assert_null(kvs_corpus_source(corpus, 3, &bytes, &checksum));
    kvs_corpus_close(corpus);
    for (size_t i = 0; i < 3; i++)
        kvsi_free(paths[i]);
}

/* ---- a tokenizer with EOS -------------------------------------------------------------------- */

static char *train_tokenizer(size_t vocab)
{
    static const char text[] = "the cat and the hat and the bat on the mat with the rat\n";
    const char *const special[] = {"<|endoftext|>"};
    const kvs_tokenizer_training training = {.size = sizeof(kvs_tokenizer_training),
                                             .vocab = vocab,
                                             .special = special,
                                             .specials = 1,
                                             .threads = 1};
    char *file = write_bytes("t.txt", text, sizeof text - 1);
    char *path = kvsi_path_join(dir, "t.json");
    kvs_tokenizer *tokenizer;
    kvs_err err;

    if (kvs_tokenizer_train(&tokenizer, (const char *const *)&file, 1, &training, &err) != KVS_OK ||
        kvs_tokenizer_save(tokenizer, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvs_tokenizer_free(tokenizer);
    kvsi_free(file);
    return path;
}

static void last_ids(const kvs_corpus *corpus, int32_t ids[2])
{
    const kvsi_shard *shard = corpus->shards[KVS_SPLIT_TRAIN];

    for (uint64_t d = 0; d < 2; d++)
        kvsi_shard_read(shard, kvsi_shard_start(shard, d + 1) - 1, 1, &ids[d]);
}

static void documents_end_with_eos_if_wanted(void **state)
{
    static const char text[] = "the cat<|endoftext|>the hat";
    char *path = train_tokenizer(262);
    kvsi_corpus_plan plan = plan_for(0, 1);
    kvs_tokenizer *tokenizer;
    kvs_corpus *corpus;
    int32_t eos, ids[2];

    (void)state;
    assert_int_equal(kvs_tokenizer_load(&tokenizer, path, NULL), KVS_OK);
    eos = kvs_tokenizer_eos(tokenizer);
    assert_true(eos >= 0);
    plan.tokenizer = path;
    for (plan.how.eos = KVS_EOS_AUTO; plan.how.eos <= KVS_EOS_YES; plan.how.eos++) {
        corpus = make("a.txt", text, sizeof text - 1, &plan);
        last_ids(corpus, ids);
        assert_int_equal(ids[0] == eos, plan.how.eos != KVS_EOS_NO);
        assert_int_equal(ids[1] == eos, plan.how.eos != KVS_EOS_NO);
        assert_int_equal(kvs_corpus_get_info(corpus)->eos, plan.how.eos != KVS_EOS_NO);
        kvs_corpus_close(corpus);
    }
    kvs_tokenizer_free(tokenizer);
    kvsi_free(path);
}

/* The corpus's own tokenizer is accepted; another one, given or put in its place, is refused. */
static void another_tokenizer_is_refused(void **state)
{
    char *path = train_tokenizer(262), *beside = kvsi_path_join(out, "tokenizer.json");
    kvsi_corpus_plan plan = plan_for(0, 1);
    kvs_tokenizer *own, *bytes, *found;
    kvs_corpus *corpus;
    kvs_err err;

    (void)state;
    plan.tokenizer = path;
    corpus = make("a.txt", "the cat and the hat", 19, &plan);
    assert_int_equal(kvs_corpus_load_tokenizer(&found, corpus, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_vocab(found), 262);
    kvs_tokenizer_free(found);
    kvs_corpus_close(corpus);
    assert_int_equal(kvs_tokenizer_load(&own, beside, NULL), KVS_OK);
    assert_int_equal(kvs_tokenizer_load(&bytes, "bytes", NULL), KVS_OK);
    assert_int_equal(
        kvs_corpus_open(&corpus, out,
                        &(kvs_corpus_options){.size = sizeof(kvs_corpus_options), .tokenizer = own},
                        NULL),
        KVS_OK);
    assert_string_equal(kvs_corpus_get_info(corpus)->tokenizer, beside);
    kvs_corpus_close(corpus);
    assert_int_equal(kvs_corpus_open(&corpus, out,
                                     &(kvs_corpus_options){.size = sizeof(kvs_corpus_options),
                                                           .tokenizer = bytes},
                                     &err),
                     KVS_E_INVALID);
    assert_null(corpus);
    assert_non_null(strstr(err.message, "the tokenizer differs from that of"));
    kvsi_free(train_tokenizer(259));
    assert_int_equal(rename(path, beside), 0);
    assert_int_equal(kvs_corpus_open(&corpus, out, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_corpus_check(corpus, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "the tokenizer differs from that of"));
    assert_int_equal(kvs_corpus_load_tokenizer(&found, corpus, &err), KVS_E_INVALID);
    assert_null(found);
    kvs_corpus_close(corpus);
    kvs_tokenizer_free(bytes);
    kvs_tokenizer_free(own);
    kvsi_free(path);
    kvsi_free(beside);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void expect_nothing_left(size_t entries)
{
    kvsi_name_list list;

    assert_int_equal(kvsi_dir_list(&list, dir, "", NULL), KVS_OK);
    if (list.count != entries)
        fail_msg("found %zu entries, expected %zu; the first is '%s'", list.count, entries,
                 list.names[0]);
    kvsi_name_list_release(&list);
}

static int stop(void *user, const kvs_corpus_progress *progress)
{
    return *(int *)user == progress->counting;
}

static void bad_texts_leave_nothing(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "a.txt' contains no text"},
        {"<|endoftext|>\n<|endoftext|>", "a.txt' contains no text"},
        {"a", "the text has 1 token, expected at least 2"},
        {"abcdefghij", "the validation split has 1 token, expected a document of at least 2"},
        {"a<|endoftext|>b", "the training split has 1 token"},
        {"abcd<|endoftext|>b", "split has 1 token"},
    };
    const kvsi_corpus_plan plan = plan_for(0.05, 1);
    char *deep = kvsi_path_join(dir, "new/folders/corpus");

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = write_bytes("a.txt", cases[i].text, strlen(cases[i].text));
        kvs_err err;

        assert_int_equal(build_file(path, &plan, deep, &err), KVS_E_INVALID);
        if (!strstr(err.message, cases[i].message))
            fail_msg("refused with: %s; expected: %s", err.message, cases[i].message);
        expect_nothing_left(1);
        kvsi_free(path);
    }
    kvsi_free(deep);
}

static void a_build_that_is_stopped_leaves_nothing(void **state)
{
    char *path = write_bytes("a.txt", "some text", 9);
    kvsi_corpus_plan plan = plan_for(0, 1);

    (void)state;
    for (int when = 0; when < 2; when++) {
        plan.how.progress = stop;
        plan.how.user = &when;
        assert_int_equal(build_file(path, &plan, out, NULL), KVS_E_STOPPED);
        expect_nothing_left(1);
    }
    kvsi_free(path);
}

static void bad_plans_are_refused(void **state)
{
    char *path = write_bytes("a.txt", "some text", 9);
    kvsi_corpus_plan plan = plan_for(1, 1);

    (void)state;
    assert_int_equal(build_file(path, &plan, out, NULL), KVS_E_INVALID);
    plan = plan_for(-0.1, 1);
    assert_int_equal(build_file(path, &plan, out, NULL), KVS_E_INVALID);
    plan = plan_for(0, UINT64_MAX);
    assert_int_equal(build_file(path, &plan, out, NULL), KVS_E_INVALID);
    plan = plan_for(0, 1);
    plan.how.eos = KVS_EOS_YES; /* bytes have no EOS */
    assert_int_equal(build_file(path, &plan, out, NULL), KVS_E_INVALID);
    assert_int_equal(kvsi_corpus_build(&plan, out, NULL), KVS_E_INVALID); /* no files */
    expect_nothing_left(1);
    kvsi_free(path);
}

/* Nothing is replaced except a corpus without other files, if allowed. */
static void folders_are_not_overwritten(void **state)
{
    char *path = write_bytes("a.txt", "new text", 8), *stranger;
    kvsi_corpus_plan plan = plan_for(0, 1);
    kvs_corpus *corpus = make("b.txt", "old text", 8, &plan);
    kvsi_text text;
    kvs_err err;

    (void)state;
    kvs_corpus_close(corpus);
    plan.how.overwrite = 0;
    assert_int_equal(build_file(path, &plan, out, &err), KVS_E_EXISTS);
    assert_non_null(strstr(err.message, "already holds a corpus"));
    assert_null(strstr(err.message, "--")); /* the command adds the hint */
    plan.how.overwrite = 1;
    stranger = write_bytes("corpus/notes.md", "mine", 4);
    assert_int_equal(build_file(path, &plan, out, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "holds 'notes.md'"));
    assert_int_equal(kvs_corpus_open(&corpus, out, NULL, NULL), KVS_OK);
    text = text_of(corpus, KVS_SPLIT_TRAIN);
    assert_string_equal(text.data, "|old text");
    kvsi_text_release(&text);
    kvs_corpus_close(corpus);
    assert_int_equal(remove(stranger), 0);
    corpus = make("b.txt", "newer text", 10, &plan);
    text = text_of(corpus, KVS_SPLIT_TRAIN);
    assert_string_equal(text.data, "|newer text");
    expect_nothing_left(3);
    kvsi_text_release(&text);
    kvs_corpus_close(corpus);
    kvsi_free(stranger);
    kvsi_free(path);
}

/* ---- damaged folders ------------------------------------------------------------------------- */

/* Replaces text in corpus.json, which must then be refused. */
static void expect_refusal(const char *old, const char *new, const char *message)
{
    char *path = kvsi_path_join(out, "corpus.json"), *whole = NULL, *at;
    kvs_corpus *corpus;
    kvsi_text text = {0};
    size_t size;
    kvs_err err;

    assert_int_equal(kvsi_file_read(&whole, &size, path, 1 << 20, NULL), KVS_OK);
    at = strstr(whole, old);
    assert_non_null(at);
    kvsi_text_add_bytes(&text, whole, (size_t)(at - whole));
    kvsi_text_format(&text, "%s%s", new, at + strlen(old));
    assert_int_equal(kvsi_file_write_text(path, text.data, NULL), KVS_OK);
    assert_int_not_equal(kvs_corpus_open(&corpus, out, NULL, &err), KVS_OK);
    assert_null(corpus);
    if (!strstr(err.message, message) || strchr(err.message, '\n'))
        fail_msg("refused with: %s; expected: %s", err.message, message);
    assert_int_equal(kvsi_file_write_text(path, whole, NULL), KVS_OK);
    kvsi_text_release(&text);
    kvsi_free(whole);
    kvsi_free(path);
}

static void damaged_records_are_refused(void **state)
{
    const kvsi_corpus_plan plan = plan_for(0.3, 1);
    kvs_corpus *corpus = make("a.txt", "some text, of many tokens", 25, &plan);

    (void)state;
    kvs_corpus_close(corpus);
    expect_refusal("kvshift corpus", "another", "expected 'kvshift corpus' version 1");
    expect_refusal("\"version\": 1", "\"version\": 2", "expected 'kvshift corpus' version 1");
    expect_refusal("\"vocab\": 256", "\"vocab\": 257", "vocabulary of 256, expected 257");
    expect_refusal("\"vocab\": 256", "\"vocab\": -1", "key 'vocab'");
    expect_refusal("train-00000.shard", "../train-00000.shard", "is not a shard name");
    expect_refusal("train-00000.shard", "train-00001.shard", "cannot open");
    expect_refusal("train-00000.shard", "valid-00000.shard", "corpus.json expects");
    expect_refusal("\"tokenizer\": \"bytes\"", "\"tokenizer\": \"/etc/passwd\"",
                   "expected bytes or tokenizer.json");
    expect_refusal("\"tokenizer_hash\": \"", "\"tokenizer_hash\": \"g",
                   "expected 16 hexadecimal digits");
    expect_refusal("\"by\": \"position\"", "\"by\": \"luck\"", "unknown split rule 'luck'");
    expect_refusal("\"sources\": [", "\"sources\": [7, ", "key 'name' is missing");
    expect_refusal("}", "", "malformed JSON");
}

/* A shard of a corpus with another tokenizer is refused. */
static void shards_of_another_tokenizer_are_refused(void **state)
{
    const kvsi_corpus_plan plan = plan_for(0, 1);
    kvs_corpus *corpus = make("a.txt", "some text", 9, &plan);
    static const int32_t ids[] = {1, 2, 3};
    char *path = kvsi_path_join(out, "train-00000.shard");
    kvsi_shard_writer *writer;
    uint64_t checksum;
    kvs_err err;

    (void)state;
    kvs_corpus_close(corpus);
    assert_int_equal(kvsi_shard_writer_open(&writer, path, 256, 12345, NULL), KVS_OK);
    assert_int_equal(kvsi_shard_writer_add(writer, ids, 3, NULL), KVS_OK);
    assert_int_equal(kvsi_shard_writer_commit(writer, &checksum, NULL), KVS_OK);
    assert_int_equal(kvs_corpus_open(&corpus, out, NULL, &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "was made with tokenizer 0000000000003039"));
    kvsi_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_split_is_stable, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(no_side_is_left_empty, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(one_document_is_split_by_position, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(without_validation_all_is_for_training, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(invalid_utf8_is_kept, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(tokens_are_read_in_order, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_corpus_knows_its_sources, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(documents_end_with_eos_if_wanted, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(another_tokenizer_is_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(bad_texts_leave_nothing, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(a_build_that_is_stopped_leaves_nothing, make_dir,
                                        remove_dir),
        cmocka_unit_test_setup_teardown(bad_plans_are_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(folders_are_not_overwritten, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(damaged_records_are_refused, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(shards_of_another_tokenizer_are_refused, make_dir,
                                        remove_dir),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
