/* Trained GPT-2 models, made elsewhere, make the mistakes here that they are known to make: vanilla
 * hop-k models of two and three layers, on fresh sequences, without and with dropout.
 *
 * The models are in $KVSHIFT_SHARED/data/hopk; where they are not, the tests are skipped. */
#include "base/files.h"
#include "base/memory.h"
#include "formats/hf.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { TOKENS = 99, SEQUENCES = 60 };

/* ---- the models ---- */

/* Skips the test, and says so, where the file is not to be had. */
static void find_model(char *path, size_t size, size_t layers)
{
    const char *shared = getenv("KVSHIFT_SHARED");

    if (!shared) {
        print_message("skipped: KVSHIFT_SHARED does not say where the hop-k models are\n");
        skip();
    }
    snprintf(path, size, "%s/data/hopk/width4-depth%zu.safetensors", shared, layers);
    if (access(path, R_OK) != 0) {
        print_message("skipped: no hop-k model '%s'\n", path);
        skip();
    }
}

/* The file has weights only: a folder of ours gives it the configuration. */
static void write_config(const char *dir, size_t layers)
{
    kvs_model_config config;
    char *path = kvsi_path_join(dir, "config.json");

    kvs_model_config_init(&config);
    kvs_model_config_set_body(&config, KVS_BODY_GPT2);
    config.vocab = 30;
    config.dim = 128;
    config.layers = layers;
    config.heads = 4;
    config.context = 100;
    config.head = KVS_HEAD_NONE;
    config.dropout_embedding = config.dropout_attention = config.dropout_residual = 0.1;
    assert_int_equal(kvs_model_config_finish(&config, NULL), KVS_OK);
    assert_int_equal(kvsi_hf_config_write(&config, path, NULL), KVS_OK);
    kvsi_free(path);
}

static kvs_model *load_model(kvs_runtime *rt, const char *path, size_t layers)
{
    char *dir = support_make_dir(), *link = kvsi_path_join(dir, "model.safetensors");
    kvs_model *model;
    kvs_err err;

    write_config(dir, layers);
    assert_int_equal(symlink(path, link), 0);
    if (kvs_model_load(&model, rt, dir, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_free(link);
    support_remove_dir(dir);
    return model;
}

/* Share of the letters that the model gets wrong; *count receives how many there were. */
static double error_of(kvsi_pass *pass, int hops, size_t *count)
{
    enum { ROWS = SEQUENCES * TOKENS };
    static int32_t ids[ROWS], targets[ROWS];
    static uint8_t scored[ROWS];
    size_t starts[SEQUENCES + 1] = {0};
    kvs_hopk_config config;
    kvs_task *task;
    const kvs_batch batch = {
        .sequences = SEQUENCES, .starts = starts, .ids = ids, .targets = targets, .scored = scored};
    kvsi_loss loss;

    kvs_hopk_config_init(&config);
    config.only = (size_t)hops;
    assert_int_equal(kvs_hopk_create(&task, &config, NULL), KVS_OK);
    for (size_t s = 0; s < SEQUENCES; s++) {
        const size_t at = starts[s];
        const size_t length =
            kvs_task_sequence(task, 1, KVS_STREAM_EVAL, (uint64_t)hops * SEQUENCES + s, ids + at,
                              targets + at, scored + at);

        assert_int_equal(length, TOKENS);
        starts[s + 1] = at + length;
    }
    kvs_task_free(task);
    assert_int_equal(kvsi_pass_load(pass, &batch, NULL, NULL), KVS_OK);
    kvsi_pass_forward(pass);
    loss = kvsi_pass_loss(pass, NULL);
    *count = loss.scored;
    return 1 - (double)loss.right / (double)loss.scored;
}

/* ---- the tables ---- */

typedef struct cell {
    int hops;
    double error; /* as the table has it, with three digits */
} cell;

/* Both errors are shares of a known number of letters, so that the difference has the variance
 * p (1-p) / letters for each of them.  The table's rounding comes on top, and stands for p where
 * the table says 0. */
static void expect_error(double found, const cell *c, size_t letters, size_t table_sequences)
{
    const double rounding = 0.0005, p = fmax(c->error, rounding);
    const double table_letters = (double)table_sequences * (97 - 3 * c->hops);
    const double variance = p * (1 - p) * (1 / (double)letters + 1 / table_letters);
    const double limit = 4 * sqrt(variance) + rounding;

    if (!(fabs(found - c->error) <= limit))
        fail_msg("%d hops: error %.4f, expected %.3f within %.4f", c->hops, found, c->error, limit);
}

static void check_cells(size_t layers, const cell *cells, size_t count, size_t table_sequences,
                        int drops)
{
    kvs_runtime *rt;
    kvs_model *model;
    kvsi_pass *pass;
    char path[1024];

    find_model(path, sizeof path, layers);
    rt = support_runtime(NULL);
    model = load_model(rt, path, layers);
    pass = support_pass(model, SEQUENCES * TOKENS, SEQUENCES, 0);
    kvsi_pass_set_dropout(pass, drops, 1, 0);
    for (size_t i = 0; i < count; i++) {
        size_t letters;
        const double error = error_of(pass, cells[i].hops, &letters);

        /* no two places hop to the same one: place 0 and three more a hop have no answer */
        assert_int_equal(letters, SEQUENCES * (97 - 3 * (size_t)cells[i].hops));
        expect_error(error, &cells[i], letters, table_sequences);
    }
    kvsi_pass_free(pass);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

static void two_layers_err_as_known(void **state)
{
    static const cell cells[] = {{1, .001}, {2, .043}, {4, .335}, {8, .609}};

    (void)state;
    check_cells(2, cells, sizeof cells / sizeof *cells, 40, 0);
}

static void three_layers_err_as_known(void **state)
{
    static const cell cells[] = {{1, .000}, {2, .001}, {4, .042}, {8, .382}};

    (void)state;
    check_cells(3, cells, sizeof cells / sizeof *cells, 40, 0);
}

/* The published errors were measured with dropout on; they are clearly larger. */
static void dropout_errs_as_published(void **state)
{
    static const cell cells[] = {{2, .140}, {4, .423}};

    (void)state;
    check_cells(2, cells, sizeof cells / sizeof *cells, 100, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_layers_err_as_known),
        cmocka_unit_test(three_layers_err_as_known),
        cmocka_unit_test(dropout_errs_as_published),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
