/* Sizes of models against counts by hand, and taps against values that were written to the
 * tensors. */
#include "kvshift/kvshift_lab.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { K = KVS_SHIFT_K, V = KVS_SHIFT_V, KV = K | V, QKV = K | V | KVS_SHIFT_Q };

#define SHIFT(what, how, reach)                                                                    \
    .shift = {.targets = (what), .form = KVSI_SHIFT_##how, .window = (reach)}

/* Sets what `special` leaves 0. */
static kvs_model_config complete(const kvs_model_config *special)
{
    kvs_model_config c = *special;
    kvs_err err;

    c.norm_eps = 1e-5;
    c.init_std = 0.02;
    c.rope_base = 10000;
    if (c.positions != KVSI_POSITIONS_ROPE || c.rotary_fraction == 0)
        c.rotary_fraction = 1;
    if (c.shift.window == 0)
        c.shift.window = 1;
    if (kvs_model_config_finish(&c, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return c;
}

/* ---- sizes ---- */

#define SMALL .vocab = 10, .dim = 8, .layers = 2, .heads = 4, .kv_heads = 2, .ffn = 6, .context = 5
#define HOPK                                                                                       \
    .body = KVSI_BODY_GPT2, .positions = KVSI_POSITIONS_LEARNED, .dim = 128, .layers = 2,          \
    .heads = 4, .vocab = 30, .context = 100, .head = KVSI_HEAD_NONE

static void sizes_are_as_counted_by_hand(void **state)
{
    static const struct {
        kvs_model_config config;
        uint64_t parameters, embeddings, cache, shift_state;
    } cases[] = {
        /* a layer: q, o 64; k, v 32; gate, up, down 48; two norms; the final norm */
        {{SMALL}, 2 * (64 + 64 + 32 + 32 + 3 * 48 + 16) + 8 + 160, 160, 64, 0},
        {{SMALL, .tied = 1}, 2 * 352 + 8 + 80, 80, 64, 0},
        {{SMALL, SHIFT(KV, FREE, 2)}, 2 * (352 + 2 * 2 * 3) + 8 + 160, 160, 64, 2 * 2 * 8 * 4},
        {{SMALL, SHIFT(QKV, GATE, 1)}, 2 * (352 + 2 + 2 + 4) + 8 + 160, 160, 64, 2 * 16 * 4},
        {{SMALL, SHIFT(K, CHANNEL, 1)}, 2 * (352 + 2 * 2 * 2) + 8 + 160, 160, 64, 2 * 4 * 4},
        {{SMALL, SHIFT(V, DATA, 1)}, 2 * (352 + 2 * 8) + 8 + 160, 160, 64, 2 * 4 * 4},
        {{SMALL, .no_mlp = 1, .no_norm = 1}, 2 * 192 + 160, 160, 64, 0},
        /* the second layer has two heads of four channels, one of them for keys and values */
        {{SMALL, SHIFT(KV, FREE, 1), .sliding_window = 3, .sliding_layers = 2, .sliding_heads = 2,
          .sliding_kv_heads = 1},
         2 * 352 + 2 * 2 * 2 + 1 * 2 * 2 + 8 + 160,
         160,
         64,
         2 * 8 * 4},
        {{HOPK}, 198272 * 2 + 16896, 130 * 128, 2 * 2 * 128 * 4, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const kvs_model_config config = complete(&cases[i].config);
        kvs_model_sizes sizes;
        kvs_err err;

        print_message("case %zu\n", i);
        assert_int_equal(kvs_model_config_sizes(&sizes, &config, &err), KVS_OK);
        assert_int_equal(sizes.parameters, cases[i].parameters);
        assert_int_equal(sizes.embedding_parameters, cases[i].embeddings);
        assert_int_equal(sizes.cache_bytes_per_token, cases[i].cache);
        assert_int_equal(sizes.shift_state_bytes, cases[i].shift_state);
        assert_int_equal(sizes.weight_bytes, 4 * cases[i].parameters);
        assert_int_equal(sizes.training_bytes, 16 * cases[i].parameters);
    }
}

static void layers_tell_their_heads(void **state)
{
    const kvs_model_config config =
        complete(&(kvs_model_config){SMALL, .sliding_window = 3, .sliding_layers = 2,
                                     .sliding_heads = 2, .sliding_kv_heads = 1});

    (void)state;
    assert_int_equal(kvsi_model_config_heads(&config, 0), 4);
    assert_int_equal(kvsi_model_config_kv_heads(&config, 0), 2);
    assert_int_equal(kvsi_model_config_heads(&config, 1), 2);
    assert_int_equal(kvsi_model_config_kv_heads(&config, 1), 1);
}

/* ---- taps ---- */

static kvs_runtime *runtime;

static int set_up(void **state)
{
    (void)state;
    return kvs_runtime_create(
        &runtime, &(kvs_runtime_options){.size = sizeof(kvs_runtime_options), .threads = 1}, NULL);
}

static int tear_down(void **state)
{
    (void)state;
    kvs_runtime_free(runtime);
    return 0;
}

static kvs_model *make(const kvs_model_config *special)
{
    const kvs_model_config config = complete(special);
    kvs_model *model;
    kvs_err err;

    if (kvs_model_create(&model, runtime, &config, 1, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return model;
}

static void set(kvs_model *model, const char *name, const float *numbers, size_t count)
{
    kvs_err err;

    if (kvs_model_write_tensor(model, name, numbers, count, &err) != KVS_OK)
        fail_msg("%s", err.message);
}

/* Taps and, unless NULL, their spread. */
static void check(const kvs_model *model, size_t layer, unsigned target, size_t head,
                  const double *taps, const double *spread)
{
    const size_t count = kvs_model_get_config(model)->shift.window + 1;
    double found[4], found_spread[4];
    kvs_err err;

    if (kvs_model_taps(found, found_spread, model, layer, target, head, &err) != KVS_OK)
        fail_msg("%s", err.message);
    for (size_t j = 0; j < count; j++) {
        assert_true(fabs(found[j] - taps[j]) < 1e-6);
        assert_true(fabs(found_spread[j] - (spread ? spread[j] : 0)) < 1e-6);
    }
    assert_int_equal(kvs_model_taps(found, NULL, model, layer, target, head, NULL), KVS_OK);
}

static void free_taps_are_the_numbers(void **state)
{
    kvs_model *model = make(&(kvs_model_config){SMALL, SHIFT(QKV, FREE, 2)});
    const float k[] = {1, 2, 3, 4, 5, 6}, v[] = {-1, -2, -3, -4, -5, -6};
    const float q[] = {.1f, .2f, .3f, .4f, .5f, .6f, .7f, .8f, .9f, 1, 1.1f, 1.2f};

    (void)state;
    set(model, "model.layers.1.self_attn.k_shift", k, 6);
    set(model, "model.layers.1.self_attn.v_shift", v, 6);
    set(model, "model.layers.1.self_attn.q_shift", q, 12);
    check(model, 1, K, 1, (double[]){4, 5, 6}, NULL);
    check(model, 1, V, 0, (double[]){-1, -2, -3}, NULL);
    check(model, 1, KVS_SHIFT_Q, 3, (double[]){1, 1.1, 1.2}, NULL);
    kvs_model_free(model);
}

static void gate_and_clamp_give_what_they_do(void **state)
{
    kvs_model *gate = make(&(kvs_model_config){SMALL, SHIFT(KV, GATE, 1)});
    kvs_model *clamp = make(&(kvs_model_config){SMALL, SHIFT(KV, CLAMP, 1)});

    (void)state;
    set(gate, "model.layers.0.self_attn.v_shift", (float[]){0, logf(3)}, 2);
    check(gate, 0, V, 0, (double[]){.5, .5}, NULL);
    check(gate, 0, V, 1, (double[]){.25, .75}, NULL);
    set(clamp, "model.layers.0.self_attn.k_shift", (float[]){-2, .25f, .5f, 7}, 4);
    check(clamp, 0, K, 0, (double[]){0, .25}, NULL);
    check(clamp, 0, K, 1, (double[]){.5, 1}, NULL);
    kvs_model_free(clamp);
    kvs_model_free(gate);
}

/* Heads of two channels in a GPT-2 body, which has other names; taps of a channel are adjacent. */
static void channels_are_averaged(void **state)
{
    kvs_model *model = make(&(kvs_model_config){SMALL, SHIFT(V, CHANNEL, 1), .body = KVSI_BODY_GPT2,
                                                .positions = KVSI_POSITIONS_LEARNED});

    (void)state;
    set(model, "transformer.h.1.attn.v_shift", (float[]){0, 1, 2, 5, 10, 20, 30, 60}, 8);
    check(model, 1, V, 0, (double[]){1, 3}, (double[]){1, 2});
    check(model, 1, V, 1, (double[]){20, 40}, (double[]){10, 20});
    kvs_model_free(model);
}

static void hard_halves_are_seen(void **state)
{
    kvs_model *model =
        make(&(kvs_model_config){SMALL, SHIFT(K, HARD, 1), .positions = KVSI_POSITIONS_NONE});

    (void)state;
    check(model, 0, K, 1, (double[]){.5, .5}, (double[]){.5, .5});
    kvs_model_free(model);
}

static void data_has_gates_and_no_taps(void **state)
{
    kvs_model *model = make(&(kvs_model_config){SMALL, SHIFT(K, DATA, 1)});
    kvs_model *other = make(&(kvs_model_config){SMALL, SHIFT(K, FREE, 1)});
    float w[16] = {[8] = 3, [15] = 4};
    double taps[2], length = 0;
    kvs_err err;

    (void)state;
    set(model, "model.layers.0.self_attn.k_shift", w, 16);
    assert_int_equal(kvs_model_gate_length(&length, model, 0, K, 1, &err), KVS_OK);
    assert_true(fabs(length - 5) < 1e-6);
    assert_int_equal(kvs_model_taps(taps, NULL, model, 0, K, 0, &err), KVS_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'data'"));
    assert_int_equal(kvs_model_gate_length(&length, other, 0, K, 0, &err), KVS_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'free'"));
    kvs_model_free(other);
    kvs_model_free(model);
}

static void what_is_not_there_is_refused(void **state)
{
    kvs_model *model =
        make(&(kvs_model_config){SMALL, SHIFT(KV, FREE, 1), .sliding_window = 3,
                                 .sliding_layers = 2, .sliding_heads = 2, .sliding_kv_heads = 1});
    double taps[2];
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_model_taps(taps, NULL, model, 1, K, 0, &err), KVS_OK);
    assert_int_equal(kvs_model_taps(taps, NULL, model, 2, K, 0, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "layer 2 is beyond the last of 2 layers");
    assert_int_equal(kvs_model_taps(taps, NULL, model, 1, K, 1, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "head 1 is beyond the last of 1 heads");
    assert_int_equal(kvs_model_taps(taps, NULL, model, 0, KVS_SHIFT_Q, 0, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "'kv'"));
    assert_int_equal(kvs_model_taps(taps, NULL, model, 0, KV, 0, &err), KVS_E_INVALID);
    kvs_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_as_counted_by_hand),
        cmocka_unit_test(layers_tell_their_heads),
        cmocka_unit_test(free_taps_are_the_numbers),
        cmocka_unit_test(gate_and_clamp_give_what_they_do),
        cmocka_unit_test(channels_are_averaged),
        cmocka_unit_test(hard_halves_are_seen),
        cmocka_unit_test(data_has_gates_and_no_taps),
        cmocka_unit_test(what_is_not_there_is_refused),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
