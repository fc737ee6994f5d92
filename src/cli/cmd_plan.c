/* kvshift plan: memory and time of training on machines that need not exist. */
#include "base/text.h"
#include "cli/cli.h"
#include "cli/configs.h"

#include <stdio.h>
#include <string.h>

typedef struct plan_settings {
    const char *model, *precision;
    size_t ranks, accumulate, threads;
    uint64_t batch_tokens, tokens;
    double node_flops, link_gbps, memory_bandwidth;
    int recompute, json;
} plan_settings;

static const char CLUSTER[] = "Machines", WORK[] = "Work", OUTPUT[] = "Output";

#define FIELD(name) offsetof(plan_settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    {.name = "model", .kind = KVSI_SETTING_TEXT, .offset = FIELD(model), .group = WORK,
     .placeholder = "NAME", .help = "a preset as in 'kvshift train', or a config.json",
     .automatic = "must be given"},
    {.name = "batch-tokens", .kind = KVSI_SETTING_UINT64, .offset = FIELD(batch_tokens),
     .group = WORK, .placeholder = "N",
     .help = "tokens per step, a multiple of the context",
     .automatic = "the preset's batch; otherwise one sequence per rank"},
    {.name = "accumulate", .kind = KVSI_SETTING_SIZE, .offset = FIELD(accumulate), .group = WORK,
     .placeholder = "N", .help = "micro-batches per step",
     .automatic = "micro-batches of the preset's size, otherwise of one sequence"},
    {.name = "recompute", .kind = KVSI_SETTING_FLAG, .offset = FIELD(recompute), .group = WORK,
     .help = "recompute layers in the backward pass to save memory"},
    {.name = "precision", .kind = KVSI_SETTING_CHOICE, .offset = FIELD(precision), .group = WORK,
     .placeholder = "NAME", .help = "precision of products of matrices; bf16 needs less memory",
     .choice_at = kvsi_precision_choice, .value = "f32"},
    {.name = "tokens", .kind = KVSI_SETTING_UINT64, .offset = FIELD(tokens), .group = WORK,
     .placeholder = "N", .help = "tokens of the whole run", .automatic = "the preset's"},
    {.name = "ranks", .kind = KVSI_SETTING_SIZE, .offset = FIELD(ranks), .group = CLUSTER,
     .placeholder = "N", .help = "processes, one per machine", .low = 1,
     .value = "1"},
    {.name = "node-flops", .kind = KVSI_SETTING_REAL, .offset = FIELD(node_flops),
     .group = CLUSTER, .placeholder = "X",
     .help = "FLOP/s that a rank reaches in training; see 'kvshift bench train'",
     .value = "1e12"},
    {.name = "link-gbps", .kind = KVSI_SETTING_REAL, .offset = FIELD(link_gbps), .group = CLUSTER,
     .placeholder = "X", .help = "Gbit/s to and from each rank", .value = "100"},
    {.name = "memory-bandwidth", .kind = KVSI_SETTING_REAL, .offset = FIELD(memory_bandwidth),
     .group = CLUSTER, .placeholder = "X", .help = "memory bandwidth of a rank in GB/s",
     .value = "100"},
    {.name = "threads", .kind = KVSI_SETTING_SIZE, .offset = FIELD(threads), .group = CLUSTER,
     .placeholder = "N", .help = "threads per rank; each needs some memory", .low = 1,
     .high = 1024, .value = "1"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = OUTPUT,
     .help = "print one JSON object"},
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift plan",
    .examples = "  kvshift plan --model paper-19b --ranks 240\n"
                "  kvshift plan --model paper-1.5b --ranks 8 --link-gbps 10 --json\n",
    .purpose =
        "Computes what training a model needs on many machines, for every way to shard it: memory "
        "per rank, work, bytes sent, and time.",
    .notes = "The time of a step is that of its passes at --node-flops, of the update at\n"
             "--memory-bandwidth, and of the transfers at --link-gbps: one after the other, or\n"
             "overlapped as in 'mpirun kvshift train'.  See docs/cluster.md.",
    .tables = KVSI_OPTIONS(rows),
};

enum { SHARDS_MAX = 8 }; /* values of the setting "shard" */

typedef struct planning {
    const plan_settings *s;
    kvs_model_config *model;
    kvs_train_config *train;
    uint64_t tokens; /* of the whole run; 0 = not known */
    size_t shards;   /* number of plans, one for each value of the setting "shard" */
    kvs_cluster_plan plans[SHARDS_MAX];
} planning;

/* ---- settings -------------------------------------------------------------------------------- */

static int is_preset(const char *name)
{
    const char *preset;

    for (size_t i = 0; (preset = kvs_preset_name(i)) != NULL; i++)
        if (strcmp(preset, name) == 0)
            return 1;
    return 0;
}

/* Sets the model and the defaults for training it. */
static kvs_status find_model(planning *p, kvs_err *err)
{
    const char *name = p->s->model;

    if (!name)
        return kvsi_fail(err, KVS_E_INVALID, "no model is given; try --model paper-19b");
    if (is_preset(name) || !(strchr(name, '/') || strstr(name, ".json"))) {
        TRY(kvs_model_config_create(&p->model, name, err));
        TRY(kvs_train_config_create(&p->train, name, err));
        p->tokens = kvsi_train_count(p->train, "steps") * kvsi_train_count(p->train, "batch") *
                    kvsi_model_count(p->model, "context");
    } else {
        TRY(kvs_model_config_load(&p->model, name, err));
        TRY(kvs_train_config_create(&p->train, NULL, err));
        TRY(kvs_train_config_set_number(p->train, "batch", (double)p->s->ranks, err));
        TRY(kvs_train_config_set_number(p->train, "accumulate", (double)p->s->ranks, err));
    }
    return kvs_model_config_finish(p->model, err);
}

static kvs_status apply_settings(planning *p, kvs_err *err)
{
    const plan_settings *s = p->s;
    const size_t context = kvsi_model_count(p->model, "context");
    uint64_t batch = kvsi_train_count(p->train, "batch");
    uint64_t accumulate = kvsi_train_count(p->train, "accumulate");
    const uint64_t part = batch / accumulate;

    if (s->batch_tokens % context != 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "batch tokens is %llu, expected a multiple of the context %zu",
                         (unsigned long long)s->batch_tokens, context);
    if (s->batch_tokens > 0)
        batch = s->batch_tokens / context;
    if (s->accumulate > 0)
        accumulate = s->accumulate;
    else if (s->batch_tokens > 0)
        accumulate = batch % part == 0 ? batch / part : batch;
    if (s->tokens > 0)
        p->tokens = s->tokens;
    TRY(kvs_train_config_set_number(p->train, "batch", (double)batch, err));
    TRY(kvs_train_config_set_number(p->train, "accumulate", (double)accumulate, err));
    TRY(kvs_train_config_set(p->train, "precision", s->precision, err));
    return kvs_train_config_set_number(p->train, "recompute", s->recompute, err);
}

static kvs_status make_plans(planning *p, kvs_err *err)
{
    const kvs_cluster cluster = {
        .ranks = p->s->ranks,
        .flops = p->s->node_flops,
        .link_bytes = p->s->link_gbps * 1e9 / 8,
        .memory_bytes = p->s->memory_bandwidth * 1e9,
    };
    kvs_runtime_options runtime;
    kvs_runtime *rt = NULL;
    const char *shard;
    kvs_status st;

    kvs_runtime_options_init(&runtime, sizeof runtime);
    runtime.threads = (int)p->s->threads;
    TRY_OUT(find_model(p, err));
    TRY_OUT(apply_settings(p, err));
    TRY_OUT(kvs_runtime_create(&rt, &runtime, err));
    for (; p->shards < SHARDS_MAX && (shard = kvsi_shard_choice(p->shards)); p->shards++) {
        TRY_OUT(kvs_train_config_set(p->train, "shard", shard, err));
        TRY_OUT(kvs_train_plan_cluster(&p->plans[p->shards], rt, p->model, NULL, p->train, &cluster,
                                       err));
    }
out:
    kvs_runtime_free(rt);
    return st;
}

/* ---- output ---------------------------------------------------------------------------------- */

static double steps_of(const planning *p)
{
    return (double)p->tokens / p->plans[0].plan.tokens_per_step;
}

/* A row of the table: one value per plan. */
static void print_row(const planning *p, const char *label, double (*of)(const kvs_cluster_plan *),
                      void (*format)(char *, size_t, double), double factor, const char *unit)
{
    printf("  %-14s", label);
    for (size_t i = 0; i < p->shards; i++) {
        char number[32], text[40];

        format(number, sizeof number, factor * of(&p->plans[i]));
        snprintf(text, sizeof text, "%s%s", number, unit);
        printf("%14s", text);
    }
    printf("\n");
}

#define OF(name, expression)                                                                       \
    static double name(const kvs_cluster_plan *c)                                                  \
    {                                                                                              \
        return (double)(expression);                                                               \
    }

OF(weights, c->plan.weight_bytes)
OF(gradients, c->plan.gradient_bytes)
OF(moments, c->plan.moment_bytes)
OF(exchange, c->plan.exchange_bytes)
OF(passes, c->plan.pass_bytes)
OF(total, c->plan.total_bytes)
OF(gradients_sent, c->plan.gradients_sent)
OF(weights_sent, c->plan.weights_sent)
OF(computing, c->compute_seconds)
OF(updating, c->update_seconds)
OF(sending, c->transfer_seconds)
OF(in_turn, c->step_seconds)
OF(overlapped, c->overlapped_step_seconds)

static void print_bytes(const planning *p)
{
    printf("memory per rank\n");
    print_row(p, "weights", weights, kvsi_format_count, 1, "B");
    print_row(p, "gradients", gradients, kvsi_format_count, 1, "B");
    print_row(p, "moments", moments, kvsi_format_count, 1, "B");
    print_row(p, "exchange", exchange, kvsi_format_count, 1, "B");
    print_row(p, "passes", passes, kvsi_format_count, 1, "B");
    print_row(p, "total", total, kvsi_format_count, 1, "B");
    printf("sent per rank and step\n");
    print_row(p, "gradients", gradients_sent, kvsi_format_count, 1, "B");
    print_row(p, "weights", weights_sent, kvsi_format_count, 1, "B");
}

static void print_times(const planning *p)
{
    char tokens[32];

    printf("time per step\n");
    print_row(p, "passes", computing, kvsi_format_duration, 1, "");
    print_row(p, "update", updating, kvsi_format_duration, 1, "");
    print_row(p, "transfers", sending, kvsi_format_duration, 1, "");
    print_row(p, "in turn", in_turn, kvsi_format_duration, 1, "");
    print_row(p, "overlapped", overlapped, kvsi_format_duration, 1, "");
    if (p->tokens == 0)
        return;
    kvsi_format_count(tokens, sizeof tokens, (double)p->tokens);
    printf("time for %s tokens\n", tokens);
    print_row(p, "in turn", in_turn, kvsi_format_duration, steps_of(p), "");
    print_row(p, "overlapped", overlapped, kvsi_format_duration, steps_of(p), "");
}

static void print_text(const planning *p)
{
    const kvs_plan *plan = &p->plans[0].plan;
    const size_t batch = (size_t)kvsi_train_count(p->train, "batch");
    char parameters[32], tokens[32], work[32], flops[32];

    kvsi_format_count(parameters, sizeof parameters, (double)plan->parameters);
    kvsi_format_count(tokens, sizeof tokens, plan->tokens_per_step);
    kvsi_format_count(work, sizeof work, plan->flops_per_token * plan->tokens_per_step);
    kvsi_format_count(flops, sizeof flops, p->s->node_flops);
    printf("model         %s, %s parameters\n", p->s->model, parameters);
    printf("step          %s tokens, %sFLOP; %zu of %zu sequences per rank, in %zu pass%s\n",
           tokens, work, batch / plan->ranks, batch, plan->passes, plan->passes == 1 ? "" : "es");
    printf("machines      %zu ranks of %sFLOP/s, %g Gbit/s, memory %g GB/s\n", plan->ranks, flops,
           p->s->link_gbps, p->s->memory_bandwidth);
    printf("%-16s", "shard");
    for (size_t i = 0; i < p->shards; i++)
        printf("%14s", kvsi_shard_choice(i));
    printf("\n");
    print_bytes(p);
    print_times(p);
}

static json_t *plan_json(const planning *p, size_t shard)
{
    const kvs_cluster_plan *c = &p->plans[shard];
    const double steps = steps_of(p);

    /* clang-format off */
    return json_pack(
        "{s:s, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:{s:f, s:f}, "
        "s:{s:f, s:f, s:f, s:f, s:f}, s:f, s:f}",
        "shard", kvsi_shard_choice(shard),
        "bytes",
            "weights", (json_int_t)c->plan.weight_bytes,
            "gradients", (json_int_t)c->plan.gradient_bytes,
            "moments", (json_int_t)c->plan.moment_bytes,
            "exchange", (json_int_t)c->plan.exchange_bytes,
            "passes", (json_int_t)c->plan.pass_bytes,
            "total", (json_int_t)c->plan.total_bytes,
        "sent_bytes",
            "gradients", c->plan.gradients_sent,
            "weights", c->plan.weights_sent,
        "step_seconds",
            "passes", c->compute_seconds,
            "update", c->update_seconds,
            "transfers", c->transfer_seconds,
            "in_turn", c->step_seconds,
            "overlapped", c->overlapped_step_seconds,
        "days_in_turn", steps * c->step_seconds / 86400,
        "days_overlapped", steps * c->overlapped_step_seconds / 86400);
    /* clang-format on */
}

static kvs_status print_json(const planning *p, kvs_err *err)
{
    const kvs_plan *plan = &p->plans[0].plan;
    json_t *shards = json_array();

    for (size_t i = 0; i < p->shards; i++)
        json_array_append_new(shards, plan_json(p, i));
    return kvsi_cli_print_json(
        json_pack(
            "{s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:o}", "model", p->s->model, "parameters",
            (json_int_t)plan->parameters, "ranks", (json_int_t)plan->ranks, "sequences_per_rank",
            (json_int_t)(kvsi_train_count(p->train, "batch") / plan->ranks), "passes_per_step",
            (json_int_t)plan->passes, "tokens_per_step", plan->tokens_per_step, "flops_per_step",
            plan->flops_per_token * plan->tokens_per_step, "tokens", (json_int_t)p->tokens,
            "shards", shards),
        err);
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    planning p = {.s = data};
    kvs_status st;

    (void)call;
    TRY_OUT(make_plans(&p, err));
    if (p.s->json)
        TRY_OUT(print_json(&p, err));
    else
        print_text(&p);
out:
    kvs_model_config_free(p.model);
    kvs_train_config_free(p.train);
    return st;
}

const kvsi_command kvsi_cmd_plan = {
    .name = "plan",
    .summary = "compute the memory and time that training needs on many machines",
    .options = &options,
    .settings_size = sizeof(plan_settings),
    .run = run,
};
