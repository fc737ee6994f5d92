/* Measurements of the hop-k and igsm experiments: error rates with their bootstrap, and
 * solutions. */
#include "base/files.h"
#include "base/memory.h"
#include "data/tasks/tasks.h"
#include "formats/safetensors.h"
#include "repro/hop_errors.h"
#include "repro/igsm_solve.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- hop-k ---- */

static kvs_model_config hop_config(void)
{
    kvs_model_config c;

    kvsi_model_config_init(&c);
    kvsi_model_config_set_body(&c, KVSI_BODY_GPT2);
    c.vocab = 30;
    c.dim = 32;
    c.layers = 2;
    c.heads = 1;
    c.context = 100;
    c.head = KVSI_HEAD_NONE;
    return c;
}

/* A constant final norm makes the model always predict one letter.  With no hops the letters are
 * uniform, so 3 of 4 predictions are wrong; with one hop the answer is never the letter itself. */
static kvs_model *constant_model(kvs_runtime *rt, size_t says)
{
    const kvs_model_config config = hop_config();
    float gain[32] = {0}, bias[32] = {0};
    kvs_model *model;

    assert_int_equal(kvs_model_create(&model, rt, &config, 1, NULL), KVS_OK);
    bias[says] = 1;
    assert_int_equal(kvs_model_write_tensor(model, "transformer.ln_f.weight", gain, 32, NULL),
                     KVS_OK);
    assert_int_equal(kvs_model_write_tensor(model, "transformer.ln_f.bias", bias, 32, NULL),
                     KVS_OK);
    return model;
}

static void a_guess_errs_as_it_must(void **state)
{
    enum { SEQUENCES = 90 }; /* not a multiple of the sequences per pass */
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *letter = constant_model(rt, 17), *none = constant_model(rt, 21);
    kvsi_hop_error errors[KVSI_HOPS_MAX];
    kvsi_hopk_config task;

    (void)state;
    kvsi_hopk_config_init(&task);
    task.hops = 16;
    assert_int_equal(kvsi_hop_errors(errors, letter, &task, SEQUENCES, 0, NULL), KVS_OK);
    for (size_t k = 0; k <= 16; k++) {
        /* a letter's share of a string has a deviation of about .03, so that the mean of 90 strings
         * has one of about .003, which is what the bootstrap must find */
        assert_true(fabs(errors[k].error - .75) < .02);
        assert_true(errors[k].deviation > .001 && errors[k].deviation < .01);
    }
    assert_int_equal(kvsi_hop_errors(errors, none, &task, SEQUENCES, 0, NULL), KVS_OK);
    for (size_t k = 0; k <= 16; k++)
        assert_true(errors[k].error == 1 && errors[k].deviation == 0);
    kvs_model_free(letter);
    kvs_model_free(none);
    kvs_runtime_free(rt);
}

static void errors_survive_their_file(void **state)
{
    const kvsi_hop_error errors[] = {{0, 0}, {.25, .01}, {.5, .02}};
    kvsi_hop_error back[3];
    json_t *list = kvsi_hop_errors_to_json(errors, 2);

    (void)state;
    assert_int_equal(kvsi_hop_errors_from_json(back, 2, list, "list", NULL), KVS_OK);
    assert_memory_equal(back, errors, sizeof back);
    assert_int_equal(kvsi_hop_errors_from_json(back, 1, list, "list", NULL), KVS_E_FORMAT);
    assert_int_equal(kvsi_hop_errors_from_json(back, 2, NULL, "list", NULL), KVS_E_FORMAT);
    json_decref(list);
}

/* Dropout changes predictions, and the same way each time. */
static void dropout_is_set_and_acts(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model_config config = hop_config();
    kvsi_hop_error kept[KVSI_HOPS_MAX], dropped[KVSI_HOPS_MAX], again[KVSI_HOPS_MAX];
    kvsi_hopk_config task;
    kvs_model *model;

    (void)state;
    config.init_std = 0.2; /* so that predictions differ between positions */
    kvsi_hopk_config_init(&task);
    task.hops = 1;
    assert_int_equal(kvs_model_create(&model, rt, &config, 1, NULL), KVS_OK);
    kvsi_hop_model_drop(model, 0.5);
    assert_int_equal(kvsi_hop_errors(kept, model, &task, 20, 0, NULL), KVS_OK);
    assert_int_equal(kvsi_hop_errors(dropped, model, &task, 20, 1, NULL), KVS_OK);
    assert_int_equal(kvsi_hop_errors(again, model, &task, 20, 1, NULL), KVS_OK);
    assert_memory_equal(dropped, again, 2 * sizeof *again);
    assert_true(kept[0].error != dropped[0].error);
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* The same weights in a file without a configuration, with another prefix. */
static void bare_file_is_loaded(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    const kvs_model_config config = hop_config();
    char *dir = support_make_dir(), *path = kvsi_path_join(dir, "bare.safetensors");
    char *saved = kvsi_path_join(dir, "model.safetensors"),
         *settings = kvsi_path_join(dir, "config.json");
    kvsi_file_tensor tensors[64];
    char names[64][96];
    kvsi_safetensors *file;
    kvs_model *model, *loaded;
    float one[30 * 32], other[30 * 32];
    size_t count;
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_model_create(&model, rt, &config, 7, NULL), KVS_OK);
    assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
    assert_int_equal(kvsi_safetensors_open(&file, saved, NULL), KVS_OK);
    count = kvsi_safetensors_count(file);
    for (size_t i = 0; i < count; i++) {
        tensors[i] = *kvsi_safetensors_at(file, i);
        snprintf(names[i], sizeof names[i], "backbone.%s",
                 tensors[i].name + strlen("transformer."));
        tensors[i].name = names[i];
    }
    assert_int_equal(kvsi_safetensors_write(path, tensors, count, NULL), KVS_OK);
    remove(settings);
    if (kvsi_hop_model_load(&loaded, rt, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kvs_model_get_config(loaded)->layers, 2);
    assert_int_equal(kvs_model_get_config(loaded)->head, KVSI_HEAD_NONE);
    kvs_model_read_tensor(one, 30 * 32, model, "transformer.wte.weight", NULL);
    kvs_model_read_tensor(other, 30 * 32, loaded, "transformer.wte.weight", NULL);
    assert_memory_equal(one, other, sizeof one);
    kvs_model_free(loaded);

    /* one tensor missing */
    assert_int_equal(kvsi_safetensors_write(path, tensors, count - 1, NULL), KVS_OK);
    assert_int_equal(kvsi_hop_model_load(&loaded, rt, path, &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "has no tensor"));
    /* no tensor that gives its size */
    assert_int_equal(kvsi_safetensors_write(path, tensors, 1, NULL), KVS_OK);
    assert_int_equal(kvsi_hop_model_load(&loaded, rt, path, &err), KVS_E_FORMAT);
    kvsi_safetensors_close(file);
    kvs_model_free(model);
    kvsi_free(saved);
    kvsi_free(settings);
    kvsi_free(path);
    support_remove_dir(dir);
    kvs_runtime_free(rt);
}

/* ---- igsm ---- */

/* Problems with four numbers each.  An untrained model solves none of them, and all are counted. */
static void untrained_models_solve_nothing(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model_config config;
    kvsi_igsm_config problem;
    kvsi_igsm_score score;
    kvs_model *model;
    kvs_data *task;

    (void)state;
    kvsi_igsm_config_init(&problem);
    problem.wording = KVSI_IGSM_COMPACT;
    problem.items = 1;
    problem.max_op = 4;
    problem.max_length = 96;
    assert_int_equal(kvsi_igsm_create(&task, &problem, NULL), KVS_OK);
    kvsi_model_config_init(&config);
    config.vocab = kvs_data_vocab(task);
    config.dim = 32;
    config.heads = 2;
    config.context = 96;
    assert_int_equal(kvs_model_create(&model, rt, &config, 1, NULL), KVS_OK);
    assert_int_equal(kvsi_igsm_solve(&score, model, task, 1, 40, NULL), KVS_OK);
    assert_int_equal(score.problems, 40);
    assert_int_equal(score.solved + score.strict + score.first_right, 0);
    assert_int_equal(score.asked_missing, 40);
    kvs_model_free(model);
    kvs_data_free(task);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_guess_errs_as_it_must),
        cmocka_unit_test(errors_survive_their_file),
        cmocka_unit_test(dropout_is_set_and_acts),
        cmocka_unit_test(bare_file_is_loaded),
        cmocka_unit_test(untrained_models_solve_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
