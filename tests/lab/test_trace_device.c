/* Traces on a backend whose memory is not the host's: the activations have the bits of the
 * reference, operations that fail become a status, and the pass ends after the last activation that
 * is visited. */
#include "device.h"
#include "trace.h"

/* Returns how many operations a trace of one name takes. */
static size_t operations_for(device *d, const trace_fixture *f, const char *name)
{
    const size_t before = device_operations(d);
    trace_capture c;

    trace_run(&c, f->model, f->ids, TRACE_TOKENS, &name, 1);
    trace_capture_release(&c);
    return device_operations(d) - before;
}

/* The pass ends after the last activation that is visited. */
static void the_rest_of_the_pass_is_left_out(void **state)
{
    static const char *const later[] = {"hook_embed",
                                        "blocks.0.hook_resid_pre",
                                        "blocks.0.hook_resid_post",
                                        "blocks.1.hook_resid_pre",
                                        "blocks.1.hook_resid_post",
                                        "logits"};
    device *d = device_create();
    trace_fixture f = trace_fixture_create(device_runtime(d));
    size_t before = 0;

    (void)state;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        const size_t operations = operations_for(d, &f, later[i]);

        if (operations <= before)
            fail_msg("'%s' takes %zu operations, the activation before it %zu", later[i],
                     operations, before);
        before = operations;
    }
    assert_true(operations_for(d, &f, "blocks.*.attn.hook_k") <
                operations_for(d, &f, "blocks.*.attn.hook_attn_scores"));
    trace_fixture_release(&f);
    device_free(d);
}

static void device_has_the_same_activations(void **state)
{
    device *d = device_create();
    trace_fixture f = trace_fixture_create(support_runtime("reference"));
    trace_fixture g = trace_fixture_create(device_runtime(d));
    trace_capture expected, found;

    (void)state;
    trace_run(&expected, f.model, f.ids, TRACE_TOKENS, NULL, 0);
    trace_run(&found, g.model, g.ids, TRACE_TOKENS, NULL, 0);
    assert_int_equal(found.count, expected.count);
    for (size_t i = 0; i < found.count; i++) {
        assert_string_equal(found.list[i].name, expected.list[i].name);
        assert_memory_equal(found.list[i].values, expected.list[i].values,
                            found.list[i].count * sizeof(float));
    }
    trace_capture_release(&found);
    trace_capture_release(&expected);
    trace_fixture_release(&f);
    trace_fixture_release(&g);
    device_free(d);
}

static void failed_operations_become_a_status(void **state)
{
    device *d = device_create();
    trace_fixture f = trace_fixture_create(device_runtime(d));
    const size_t before = device_operations(d);
    size_t all;
    trace_capture c;
    kvs_err err;

    (void)state;
    trace_run(&c, f.model, f.ids, TRACE_TOKENS, NULL, 0);
    trace_capture_release(&c);
    all = device_operations(d) - before;
    for (size_t i = 0; i < all; i += 7) {
        device_fail_at(d, i);
        err.status = KVS_OK;
        assert_int_not_equal(
            kvs_model_trace(f.model, f.ids, TRACE_TOKENS, NULL, 0, trace_take, &c, &err), KVS_OK);
        assert_int_not_equal(err.status, KVS_OK);
        trace_capture_release(&c);
    }
    device_fail_at(d, SIZE_MAX);
    trace_fixture_release(&f);
    device_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rest_of_the_pass_is_left_out),
        cmocka_unit_test(device_has_the_same_activations),
        cmocka_unit_test(failed_operations_become_a_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
