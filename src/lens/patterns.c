/* kvs_patterns: visits the pattern and the content of each head, which kvs_model_trace computes. */
#include "base/status.h"
#include "kvshift/kvshift_lab.h"
#include "model/model.h"

typedef struct lens {
    const kvs_model *model;
    size_t layer;
    const float *pattern; /* [heads, tokens, tokens]; NULL = not seen yet in this layer */
    void (*visit)(void *user, const kvs_pattern *pattern);
    void *user;
} lens;

/* Called with the pattern of a layer, which stays valid, and then with its content. */
static int take(void *user, const kvs_activation *a)
{
    lens *l = user;
    const size_t heads = a->shape[0], tokens = a->shape[1];
    const kvsi_layer_shape shape = kvsi_layer_shape_of(&l->model->config, l->layer);

    if (!l->pattern) {
        l->pattern = a->values;
        return 0;
    }
    for (size_t h = 0; h < heads; h++)
        l->visit(l->user, &(kvs_pattern){.layer = l->layer,
                                         .head = h,
                                         .kv_head = h / (heads / shape.kv_heads),
                                         .tokens = tokens,
                                         .places = l->pattern + h * tokens * tokens,
                                         .contents = a->values + h * tokens * tokens});
    l->pattern = NULL;
    l->layer++;
    return 0;
}

kvs_status kvs_patterns(const kvs_model *model, const int32_t *ids, size_t count,
                        void (*visit)(void *user, const kvs_pattern *pattern), void *user,
                        kvs_err *err)
{
    static const char *const names[] = {"blocks.*.attn.hook_pattern", "blocks.*.attn.hook_content"};
    lens l = {.model = model, .visit = visit, .user = user};

    NEED(visit);
    return kvs_model_trace(model, ids, count, names, sizeof names / sizeof *names, take, &l, err);
}
