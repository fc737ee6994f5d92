/* Published GPT-2 models have their known error rates: vanilla hop-k models of two and three
 * layers, on new sequences, with and without dropout.
 *
 * The models are in $KVSHIFT_SHARED/data/hopk; without them the tests are skipped. */
#include "repro/hop_errors.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SEQUENCES = 60 };

/* Skips the test, with a message, if the file does not exist. */
static void find_model(char *path, size_t size, size_t layers)
{
    const char *shared = getenv("KVSHIFT_SHARED");

    if (!shared) {
        print_message("skipped: KVSHIFT_SHARED is not set; it contains the hop-k models\n");
        skip();
    }
    snprintf(path, size, "%s/data/hopk/width4-depth%zu.safetensors", shared, layers);
    if (access(path, R_OK) != 0) {
        print_message("skipped: no hop-k model '%s'\n", path);
        skip();
    }
}

/* ---- the tables ---- */

typedef struct cell {
    int hops;
    double error; /* three digits, from the table */
} cell;

/* Both errors are fractions of a known number of letters, so the difference has variance p (1-p) /
 * letters for each.  The table's rounding is added, and replaces p if the table has 0. */
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
                        double dropout)
{
    kvsi_hop_error errors[KVSI_HOPS_MAX];
    kvsi_hopk_config task;
    kvs_runtime *rt;
    kvs_model *model;
    char path[1024];
    kvs_err err;

    find_model(path, sizeof path, layers);
    rt = support_runtime(NULL);
    kvsi_hopk_config_init(&task);
    if (kvsi_hop_model_load(&model, rt, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kvs_model_get_config(model)->layers, layers);
    kvsi_hop_model_drop(model, dropout);
    assert_int_equal(kvsi_hop_errors(errors, model, &task, SEQUENCES, dropout > 0, NULL), KVS_OK);
    for (size_t i = 0; i < count; i++) {
        /* no two positions hop to the same one: position 0 and three more per hop have no target */
        const size_t letters = SEQUENCES * (97 - 3 * (size_t)cells[i].hops);

        expect_error(errors[cells[i].hops].error, &cells[i], letters, table_sequences);
    }
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

/* The published errors were measured with dropout; they are clearly larger. */
static void dropout_errs_as_published(void **state)
{
    static const cell cells[] = {{2, .140}, {4, .423}};

    (void)state;
    check_cells(2, cells, sizeof cells / sizeof *cells, 100, 0.1);
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
