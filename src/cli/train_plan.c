#include "cli/train_plan.h"

#include "base/text.h"

#include <stdio.h>

static void print_bytes(const char *what, double bytes)
{
    char text[32];

    kvsi_format_count(text, sizeof text, bytes);
    printf("  %-12s%sB\n", what, text);
}

/* Who runs where. */
static void print_ranks(const kvs_comm *comm, const kvsi_train_options *s)
{
    const size_t ranks = kvs_comm_size(comm);

    printf("ranks         %zu, %zu sequences a step each\n", ranks, s->train.batch / ranks);
    for (size_t r = 0; r < ranks; r++) {
        const int threads = s->threads > 0 ? (int)s->threads : kvs_comm_cores(comm, r);

        printf("  rank %-7zu%s, %d thread%s\n", r, kvs_comm_host(comm, r), threads,
               threads == 1 ? "" : "s");
    }
}

static void print_exchange(const kvs_plan *plan, const kvsi_train_options *s)
{
    printf("sent by a rank in a step, shard %s\n", kvs_shard_name(s->train.shard));
    print_bytes("gradients", plan->gradients_sent);
    print_bytes("weights", plan->weights_sent);
}

kvs_status kvsi_train_plan_print(const kvsi_train_setup *w, const kvsi_train_options *s,
                                 kvs_err *err)
{
    kvs_plan plan;
    char parameters[32], work[32], tokens[32];
    const kvs_status st = kvs_train_plan(&plan, w->rt, &s->model, w->task, &s->train, err);

    if (st != KVS_OK || kvs_comm_rank(w->comm) > 0)
        return st;
    kvsi_format_count(parameters, sizeof parameters, (double)plan.parameters);
    kvsi_format_count(tokens, sizeof tokens, plan.tokens_per_step);
    kvsi_format_count(work, sizeof work, plan.flops_per_token * plan.tokens_per_step);
    if (!w->task)
        printf("planned for   text in windows of %zu tokens; no --data or --task is given\n",
               s->model.context);
    if (plan.ranks > 1)
        print_ranks(w->comm, s);
    printf("parameters    %s\n%s\n", parameters, plan.ranks > 1 ? "memory of a rank" : "memory");
    print_bytes("weights", (double)plan.weight_bytes);
    print_bytes("gradients", (double)plan.gradient_bytes);
    print_bytes("moments", (double)plan.moment_bytes);
    if (plan.exchange_bytes > 0)
        print_bytes("exchange", (double)plan.exchange_bytes);
    print_bytes("passes", (double)plan.pass_bytes);
    print_bytes("total", (double)plan.total_bytes);
    if (plan.ranks > 1)
        print_exchange(&plan, s);
    printf("a step        %s tokens on average, %sFLOP\n", tokens, work);
    return KVS_OK;
}
