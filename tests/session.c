#include "session.h"

int session_set_up(void **state, const kvs_model_config *config, const session_options *options)
{
    const kvs_session_options session = {.size = sizeof session, .capacity = options->capacity};
    session_fixture *f = test_malloc(sizeof *f);

    f->rt = support_runtime(NULL);
    f->model = support_model(f->rt, config, options->model_seed);
    support_fill_ids(f->ids, SESSION_IDS, options->ids_seed, config->vocab);
    assert_int_equal(kvs_session_create(&f->session, f->model, &session, NULL), KVS_OK);
    *state = f;
    return 0;
}

int session_tear_down(void **state)
{
    session_fixture *f = *state;

    kvs_session_free(f->session);
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
    test_free(f);
    return 0;
}
