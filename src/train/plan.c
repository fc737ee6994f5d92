/* What a run will take, before anything is allocated. */
#include "kernels/runtime.h"
#include "model/pass.h"
#include "train/budget.h"

/* Every weight of a matrix takes part in one multiplication forward and two backward, but for the
 * embedding, which is looked up; attention's products grow with the length.  Norms and the shift's
 * taps are no matrices. */
static double flops_per_token(const kvs_model_config *c, const kvsi_layout *layout, double length)
{
    double weights = 0;

    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        const int looked_up = p->role == KVSI_POSITION || (p->role == KVSI_EMBEDDING && !c->tied);

        weights += p->rank == 2 && p->role != KVSI_TAPS && !looked_up ? (double)p->count : 0;
    }
    return 6 * weights + 6 * (double)(c->layers * c->dim) * length;
}

kvs_status kvs_train_plan(kvs_plan *out, const kvs_runtime *rt, const kvs_model_config *config,
                          const kvs_task *task, const kvs_train_config *train, kvs_err *err)
{
    kvs_model measured = {.config = *config, .context = {.ops = rt->ops, .threads = rt->threads}};
    const kvs_task windows = {.max_tokens = config->context,
                              .mean_tokens = (double)config->context};
    kvs_status st;

    if (!task)
        task = &windows;
    KVS_TRY(kvs_train_config_check(train, err));
    KVS_TRY(kvs_model_config_finish(&measured.config, err));
    KVS_TRY(kvsi_layout_init(&measured.layout, &measured.config, err));
    {
        const kvsi_pass_limits limits = kvsi_training_limits(task, train, rt->comm->size);
        const uint64_t bytes = kvsi_layout_total(&measured.layout) * sizeof(real);

        *out = (kvs_plan){
            .parameters = kvsi_layout_total(&measured.layout),
            .weight_bytes = bytes,
            .gradient_bytes = bytes,
            .moment_bytes = 2 * bytes,
            .pass_bytes = kvsi_pass_bytes(&measured, &limits),
            .tokens_per_step = task->mean_tokens * (double)train->batch,
            .flops_per_token =
                flops_per_token(&measured.config, &measured.layout, task->mean_tokens),
        };
        out->total_bytes =
            out->weight_bytes + out->gradient_bytes + out->moment_bytes + out->pass_bytes;
    }
out:
    kvsi_layout_release(&measured.layout);
    return st;
}
