/* Files that appear only when complete, JSON with checks, text and quoting. */
#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/mapping.h"
#include "base/memory.h"
#include "base/program.h"
#include "base/text.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

static char folder[] = "/tmp/kvshift-test-XXXXXX";

static int make_test_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static size_t entries(const char *dir)
{
    DIR *stream = opendir(dir);
    size_t count = 0;

    assert_non_null(stream);
    for (const struct dirent *entry; (entry = readdir(stream)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(stream);
    return count;
}

static int remove_test_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* fails if a test left something behind */
}

static char *path_of(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* ---- files ----------------------------------------------------------------------------------- */

static void only_a_file_that_surely_is_absent_does_not_exist(void **state)
{
    (void)state;
    assert_false(kvsi_file_exists(path_of("nothing")));
    assert_int_equal(kvsi_file_write_text(path_of("file"), "text", NULL), KVS_OK);
    assert_true(kvsi_file_exists(path_of("file")));
    assert_false(kvsi_file_exists(path_of("file/below")));
    assert_int_equal(symlink("loop", path_of("loop")), 0);
    assert_true(kvsi_file_exists(path_of("loop"))); /* opening it will tell what is wrong */
    assert_int_equal(unlink(path_of("loop")), 0);
    assert_int_equal(unlink(path_of("file")), 0);
}

static void an_address_in_a_mapping_leads_to_its_path(void **state)
{
    enum { MANY = 300 }; /* more than are kept */
    kvsi_mapping one, many[MANY];
    char path[256];

    (void)state;
    snprintf(path, sizeof path, "%s", path_of("mapped"));
    assert_int_equal(kvsi_file_write_text(path, "text", NULL), KVS_OK);
    assert_int_equal(kvsi_mapping_open(&one, path, NULL), KVS_OK);
    assert_string_equal(kvsi_mapping_path(one.data), path);
    assert_string_equal(kvsi_mapping_path(one.data + one.size - 1), path);
    assert_null(kvsi_mapping_path(one.data + one.size));
    assert_null(kvsi_mapping_path(path));
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(kvsi_mapping_open(&many[i], path, NULL), KVS_OK);
    for (size_t i = 0; i < MANY; i++) {
        const unsigned char *data = many[i].data;

        kvsi_mapping_close(&many[i]);
        assert_null(kvsi_mapping_path(data));
    }
    assert_string_equal(kvsi_mapping_path(one.data), path);
    kvsi_mapping_close(&one);
    assert_int_equal(unlink(path), 0);
}

static void a_file_comes_back_as_written(void **state)
{
    const char *path = path_of("text");
    char *data;
    size_t size;
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_file_write_text(path, "first", &err), KVS_OK);
    assert_int_equal(kvsi_file_write_text(path, "second time", &err), KVS_OK);
    assert_int_equal(entries(folder), 1);
    assert_int_equal(kvsi_file_read(&data, &size, path, 11, &err), KVS_OK);
    assert_int_equal(size, 11);
    assert_string_equal(data, "second time");
    kvsi_free(data);
    assert_int_equal(kvsi_file_read(&data, &size, path, 10, &err), KVS_E_LIMIT);
    assert_null(data);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(kvsi_file_read(&data, &size, path, 10, &err), KVS_E_IO);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "No such file"));
}

static void only_regular_files_are_read_or_replaced(void **state)
{
    const char *pipe = path_of("pipe");
    char *data;
    size_t size;
    kvs_err err;

    (void)state;
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(kvsi_file_read(&data, &size, pipe, 100, &err), KVS_E_IO);
    assert_int_equal(kvsi_file_write_text(pipe, "x", &err), KVS_E_IO);
    assert_int_equal(kvsi_file_read(&data, &size, folder, 100, &err), KVS_E_IO);
    assert_int_equal(kvsi_file_write_text(folder, "x", &err), KVS_E_IO);
    assert_int_equal(kvsi_file_write_text("/dev/null", "x", &err), KVS_E_IO);
    assert_int_equal(unlink(pipe), 0);
}

static void an_abandoned_file_never_shows(void **state)
{
    const char *path = path_of("kept");
    kvsi_new_file *file;
    char *data;
    size_t size;

    (void)state;
    assert_int_equal(kvsi_file_write_text(path, "old", NULL), KVS_OK);
    assert_int_equal(kvsi_new_file_open(&file, path, NULL), KVS_OK);
    assert_int_equal(kvsi_new_file_write(file, "new and longer", 14, NULL), KVS_OK);
    assert_int_equal(kvsi_file_read(&data, &size, path, 100, NULL), KVS_OK);
    assert_string_equal(data, "old"); /* until the commit */
    kvsi_free(data);
    kvsi_new_file_abandon(file);
    assert_int_equal(entries(folder), 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(kvsi_new_file_open(&file, path_of("no/such/folder"), NULL), KVS_E_IO);
    assert_null(file);
}

/* The folder is removed while the file is being written: the commit must fail. */
static void a_failed_commit_is_reported(void **state)
{
    char dir[256], path[300], moved[256];
    kvsi_new_file *file;
    int made;
    kvs_err err;

    (void)state;
    snprintf(dir, sizeof dir, "%s/going", folder);
    snprintf(moved, sizeof moved, "%s/gone", folder);
    snprintf(path, sizeof path, "%s/file", dir);
    assert_int_equal(kvsi_dir_make(dir, &made, &err), KVS_OK);
    assert_int_equal(kvsi_new_file_open(&file, path, &err), KVS_OK);
    assert_int_equal(rename(dir, moved), 0);
    assert_int_equal(kvsi_new_file_commit(file, &err), KVS_E_IO);
    assert_int_equal(entries(moved), 1);
    snprintf(path, sizeof path, "%s/file.tmp-%ld", moved, (long)getpid());
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(moved), 0);
}

static void folders_are_made_with_their_parents(void **state)
{
    char path[256];
    int made = 0;
    kvs_err err;

    (void)state;
    snprintf(path, sizeof path, "%s/a/b//c/", folder);
    assert_int_equal(kvsi_dir_make(path, &made, &err), KVS_OK);
    assert_true(made);
    assert_int_equal(kvsi_dir_make(path, &made, &err), KVS_OK);
    assert_false(made);
    for (const char **p = (const char *[]){"a/b/c", "a/b", "a", NULL}; *p; p++)
        assert_int_equal(rmdir(path_of(*p)), 0);
}

static void a_folder_that_cannot_be_made_leaves_no_parents(void **state)
{
    char path[512], name[300];
    int made = 1;
    kvs_err err;

    (void)state;
    memset(name, 'x', sizeof name - 1); /* longer than a file name may be */
    name[sizeof name - 1] = '\0';
    snprintf(path, sizeof path, "%s/new/deeper/%s", folder, name);
    assert_int_equal(kvsi_dir_make(path, &made, &err), KVS_E_IO);
    assert_false(made);
    assert_int_equal(entries(folder), 0);

    assert_int_equal(kvsi_file_write_text(path_of("file"), "", NULL), KVS_OK);
    assert_int_equal(kvsi_dir_make(path_of("file"), &made, &err), KVS_E_IO);
    assert_int_equal(kvsi_dir_make(path_of("file/below"), &made, &err), KVS_E_IO);
    assert_int_equal(kvsi_dir_make("", &made, &err), KVS_E_IO);
    assert_int_equal(unlink(path_of("file")), 0);
}

static void paths_are_joined_with_one_slash(void **state)
{
    static const char *const cases[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = kvsi_path_join(cases[i][0], cases[i][1]);

        assert_string_equal(path, cases[i][2]);
        kvsi_free(path);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *parse(const char *text)
{
    json_t *object;
    kvs_err err;

    if (kvsi_json_parse(&object, text, strlen(text), "here", &err) != KVS_OK)
        fail_msg("%s", err.message);
    return object;
}

static void bad_json_is_refused_with_its_place(void **state)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "[1]",
                                      "3",
                                      "{\"a\": 1, \"a\": 2}",
                                      "{} {}",
                                      "{\"a\": 1e999}",
                                      "{\"a\": \"\xff\"}"};
    json_t *object;
    kvs_err err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(kvsi_json_parse(&object, bad[i], strlen(bad[i]), "here", &err),
                         KVS_E_FORMAT);
        assert_null(object);
        assert_non_null(strstr(err.message, "'here'"));
        assert_null(strchr(err.message, '\n'));
    }
    assert_int_equal(kvsi_json_parse(&object, "{\n\"a\" 1}", 8, "here", &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "line 2"));
}

static void members_have_types(void **state)
{
    json_t *object = parse("{\"n\": 7, \"neg\": -7, \"x\": 2.5, \"t\": \"word\", \"b\": true}");
    size_t size = 1;
    double real = 1;
    int truth = 0;
    const char *text = "preset";
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_json_get_size(&size, object, "n", "here", &err), KVS_OK);
    assert_int_equal(size, 7);
    assert_int_equal(kvsi_json_get_real(&real, object, "n", "here", &err), KVS_OK);
    assert_true(real == 7);
    assert_int_equal(kvsi_json_get_bool(&truth, object, "b", "here", &err), KVS_OK);
    assert_true(truth);
    assert_int_equal(kvsi_json_get_text(&text, object, "t", "here", &err), KVS_OK);
    assert_string_equal(text, "word");

    assert_int_equal(kvsi_json_get_size(&size, object, "gone", "here", &err), KVS_OK);
    assert_int_equal(size, 7); /* unchanged */
    assert_int_equal(kvsi_json_require(object, "gone", "here", &err), KVS_E_FORMAT);
    assert_string_equal(err.message, "'here': key 'gone' is missing");

    assert_int_equal(kvsi_json_get_size(&size, object, "x", "here", &err), KVS_E_FORMAT);
    assert_string_equal(err.message, "'here': key 'x': expected a whole number, found a fraction");
    assert_int_equal(kvsi_json_get_size(&size, object, "neg", "here", &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "-7"));
    assert_int_equal(kvsi_json_get_real(&real, object, "t", "here", &err), KVS_E_FORMAT);
    assert_int_equal(kvsi_json_get_bool(&truth, object, "n", "here", &err), KVS_E_FORMAT);
    assert_int_equal(kvsi_json_get_text(&text, object, "b", "here", &err), KVS_E_FORMAT);
    assert_int_equal(size, 7);
    json_decref(object);
}

static void json_files_read_as_people_wrote_them(void **state)
{
    const char *path = path_of("file.json");
    json_t *object =
        json_pack("{s:f, s:f, s:o}", "eps", 1e-6, "rate", 0.1, "none", kvsi_json_number(NAN));
    char *data;
    size_t size;
    double eps = 0;
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_json_write(object, path, &err), KVS_OK);
    json_decref(object);
    assert_int_equal(kvsi_file_read(&data, &size, path, 1000, &err), KVS_OK);
    assert_non_null(strstr(data, "1e-6"));
    assert_non_null(strstr(data, "0.1,\n"));
    assert_non_null(strstr(data, "null"));
    assert_int_equal(data[size - 1], '\n');
    kvsi_free(data);
    assert_int_equal(kvsi_json_read(&object, path, 1000, &err), KVS_OK);
    assert_int_equal(kvsi_json_get_real(&eps, object, "eps", path, &err), KVS_OK);
    assert_true(eps == 1e-6);
    json_decref(object);
    assert_int_equal(kvsi_json_read(&object, path, 5, &err), KVS_E_LIMIT);
    assert_int_equal(unlink(path), 0);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void text_grows(void **state)
{
    const size_t live = kvsi_memory_live();
    kvsi_text text = {0};

    (void)state;
    for (int i = 0; i < 1000; i++)
        kvsi_text_format(&text, "%04d", i);
    kvsi_text_add(&text, "end");
    assert_int_equal(kvsi_text_check(&text, NULL), KVS_OK);
    assert_int_equal(text.length, 4003);
    assert_int_equal(strlen(text.data), 4003);
    assert_memory_equal(text.data + 2712, "0678", 4);
    assert_string_equal(text.data + 4000, "end");
    kvsi_text_release(&text);
    assert_int_equal(kvsi_memory_live(), live);
}

static void text_is_quoted_for_other_languages(void **state)
{
    kvsi_text text = {0};

    (void)state;
    kvsi_text_add_xml(&text, "<a href=\"x\">'&'\x01 \xc3\xa9");
    assert_string_equal(text.data, "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;? \xc3\xa9");
    kvsi_text_release(&text);
    kvsi_text_add_shell_word(&text, "--out=runs/kv-1");
    kvsi_text_add(&text, " ");
    kvsi_text_add_shell_word(&text, "it's $HOME");
    kvsi_text_add(&text, " ");
    kvsi_text_add_shell_word(&text, "");
    assert_string_equal(text.data, "--out=runs/kv-1 'it'\\''s $HOME' ''");
    kvsi_text_release(&text);
}

static const char *name_at(const void *names, size_t index)
{
    return ((const char *const *)names)[index];
}

static void the_nearest_name_is_the_one_meant(void **state)
{
    static const char *const names[] = {"layers",     "heads",        "kv-heads", "threads",
                                        "eval-every", "shift-window", "lr",       NULL};
    static const char *const cases[][2] = {{"layer", "layers"},         {"head", "heads"},
                                           {"treads", "threads"},       {"thraeds", "threads"},
                                           {"kvheads", "kv-heads"},     {"window", "shift-window"},
                                           {"eval_every", "eval-every"}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *nearest = kvsi_nearest_name(cases[i][0], name_at, names);

        assert_non_null(nearest);
        assert_string_equal(nearest, cases[i][1]);
    }
    assert_null(kvsi_nearest_name("zzz", name_at, names));
    assert_null(kvsi_nearest_name("x", name_at, names));
    assert_null(kvsi_nearest_name("", name_at, names));
    assert_int_equal(kvsi_edit_distance("", "abc"), 3);
    assert_int_equal(kvsi_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(kvsi_edit_distance("abcd", "abdc"), 1);
}

static void numbers_speak_to_people(void **state)
{
    static const struct {
        double value;
        const char *duration, *count;
    } cases[] = {
        {0, "0.0 s", "0"},
        {9.94, "9.9 s", "10"},
        {9.96, "10 s", "10"},
        {119.4, "119 s", "119"},
        {119.6, "2 min 00 s", "120"},
        {7199, "119 min 59 s", "7199"},
        {9999.4, "2 h 46 min", "9999"},
        {9999.6, "2 h 46 min", "10.0k"},
        {999499, "11 d 13 h", "999k"},
        {999501, "11 d 13 h", "1.00M"},
        {12345678, "142 d 21 h", "12.3M"},
        {123456789, "3.91 years", "123M"},
        {34812374400, "1103 years", "34.8G"},
        {NAN, "?", "?"},
    };
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_format_duration(text, sizeof text, cases[i].value);
        assert_string_equal(text, cases[i].duration);
        kvsi_format_count(text, sizeof text, cases[i].value);
        assert_string_equal(text, cases[i].count);
    }
    kvsi_format_duration(text, sizeof text, -1);
    assert_string_equal(text, "?");
}

/* ---- other ----------------------------------------------------------------------------------- */

static void the_clock_goes_forward(void **state)
{
    const double start = kvsi_clock_seconds();
    double passed;

    (void)state;
    usleep(20000);
    passed = kvsi_clock_seconds() - start;
    assert_true(passed >= 0.02 && passed < 10);
}

static void programs_are_filters(void **state)
{
    static const char *const upper[] = {"tr", "a-z", "A-Z", NULL};
    static const char *const failing[] = {"sh", "-c", "echo; echo bad luck >&2; exit 3", NULL};
    static const char *const missing[] = {"no-such-program-here", NULL};
    enum { BIG = 1 << 20 }; /* more than a pipe holds */
    char *input = kvsi_alloc(BIG + 1, 1), *output;
    kvs_err err;

    (void)state;
    memset(input, 'q', BIG);
    assert_true(kvsi_program_found("tr"));
    assert_false(kvsi_program_found(missing[0]));
    assert_int_equal(kvsi_program_filter(&output, upper, input, BIG, &err), KVS_OK);
    assert_int_equal(strspn(output, "Q"), BIG);
    kvsi_free(output);
    assert_int_equal(kvsi_program_filter(&output, upper, input, BIG - 1, &err), KVS_E_LIMIT);
    assert_int_equal(kvsi_program_filter(&output, failing, input, BIG, &err), KVS_E_UNSUPPORTED);
    assert_string_equal(err.message, "'sh' failed: bad luck");
    assert_int_equal(kvsi_program_filter(&output, missing, "", BIG, &err), KVS_E_UNSUPPORTED);
    assert_null(output);
    kvsi_free(input);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_file_that_surely_is_absent_does_not_exist),
        cmocka_unit_test(an_address_in_a_mapping_leads_to_its_path),
        cmocka_unit_test(a_file_comes_back_as_written),
        cmocka_unit_test(only_regular_files_are_read_or_replaced),
        cmocka_unit_test(an_abandoned_file_never_shows),
        cmocka_unit_test(a_failed_commit_is_reported),
        cmocka_unit_test(folders_are_made_with_their_parents),
        cmocka_unit_test(a_folder_that_cannot_be_made_leaves_no_parents),
        cmocka_unit_test(paths_are_joined_with_one_slash),
        cmocka_unit_test(bad_json_is_refused_with_its_place),
        cmocka_unit_test(members_have_types),
        cmocka_unit_test(json_files_read_as_people_wrote_them),
        cmocka_unit_test(text_grows),
        cmocka_unit_test(text_is_quoted_for_other_languages),
        cmocka_unit_test(the_nearest_name_is_the_one_meant),
        cmocka_unit_test(numbers_speak_to_people),
        cmocka_unit_test(the_clock_goes_forward),
        cmocka_unit_test(programs_are_filters),
    };

    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
