/* Checks of a model's configuration, so that the code behind it can rely on it. */
#include "config/config.h"

#include "config/rotations.h"
#include "kernels/forms.h"
#include "model/layer.h"

#include <math.h>

/* Heads and their size in layers with a sliding window, or in the others. */
static size_t heads_of(const kvs_model_config *c, int slides)
{
    return slides ? c->sliding_heads : c->heads;
}

static size_t head_size_of(const kvs_model_config *c, int slides)
{
    if (slides && c->sliding_head_size > 0)
        return c->sliding_head_size;
    return c->head_size > 0 ? c->head_size : c->dim / heads_of(c, slides);
}

/* A fraction such as 1/3 comes with a rounding error of its own. */
size_t kvsi_rotary_channels(const kvs_model_config *c, int slides)
{
    const double fraction = c->positions == KVSI_POSITIONS_ROPE ? c->rotary_fraction : 0.0;

    return (size_t)lround(fraction * (double)head_size_of(c, slides));
}

/* ---- checks ---- */

static kvs_status check_heads(const kvs_model_config *c, int slides, kvs_err *err)
{
    const size_t heads = heads_of(c, slides), kv_heads = slides ? c->sliding_kv_heads : c->kv_heads;

    if (c->head_size == 0 && !(slides && c->sliding_head_size > 0) && c->dim % heads != 0)
        return kvsi_fail(err, KVS_E_INVALID, "dim %zu is not divisible by heads %zu", c->dim,
                         heads);
    if (kv_heads > heads)
        return kvsi_fail(err, KVS_E_INVALID, "kv heads %zu is more than heads %zu", kv_heads,
                         heads);
    if (heads % kv_heads != 0)
        return kvsi_fail(err, KVS_E_INVALID, "heads %zu is not divisible by kv heads %zu", heads,
                         kv_heads);
    return KVS_OK;
}

static kvs_status check_rotation(const kvs_model_config *c, int slides, kvs_err *err)
{
    const size_t head_size = head_size_of(c, slides), rotary = kvsi_rotary_channels(c, slides);
    const double exact = c->rotary_fraction * (double)head_size;

    if (fabs(exact - (double)rotary) > 1e-3 || rotary % 2 != 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "rotary positions turn %g of %zu channels of a head (dim %zu, heads %zu), "
                         "expected an even number",
                         exact, head_size, c->dim, heads_of(c, slides));
    return KVS_OK;
}

/* A list of layers, as bits. */
static kvs_status check_layers(const char *name, uint64_t listed, size_t layers, kvs_err *err)
{
    if (listed != 0 && layers > KVSI_LISTED_LAYERS_MAX)
        return kvsi_fail(err, KVS_E_INVALID,
                         "a list of %s layers needs at most %d layers, "
                         "found %zu",
                         name, KVSI_LISTED_LAYERS_MAX, layers);
    if (listed != 0 && layers < 64 && listed >> layers != 0)
        return kvsi_fail(err, KVS_E_INVALID, "a %s layer is beyond the last of %zu layers", name,
                         layers);
    return KVS_OK;
}

static kvs_status check_relative(const kvs_model_config *c, kvs_err *err)
{
    if ((c->relative_size > 0 || c->relative_extent > 0) && c->positions != KVSI_POSITIONS_RELATIVE)
        return kvsi_fail(err, KVS_E_INVALID,
                         "a size and an extent of relative positions need positions relative, "
                         "found %s",
                         kvsi_positions_name(c->positions));
    if (c->score_growth_start > 0 && c->score_growth == 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "a start of the growth of scores at %g needs a growth, found 0",
                         c->score_growth_start);
    return KVS_OK;
}

static kvs_status check_positions(const kvs_model_config *c, kvs_err *err)
{
    TRY(check_relative(c, err));
    if (c->rotary_fraction != 1.0 && c->positions != KVSI_POSITIONS_ROPE)
        return kvsi_fail(err, KVS_E_INVALID, "a rotary fraction needs positions rope, found %s",
                         kvsi_positions_name(c->positions));
    if (c->slopes > 0 && c->positions != KVSI_POSITIONS_ALIBI)
        return kvsi_fail(err, KVS_E_INVALID, "slopes need positions alibi, found %s",
                         kvsi_positions_name(c->positions));
    if (c->slopes > KVSI_SLOPES_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "%zu slopes, expected at most %d", c->slopes,
                         KVSI_SLOPES_MAX);
    if (c->slopes > 1 && (c->slopes != c->heads || c->sliding_heads != c->heads))
        return kvsi_fail(err, KVS_E_INVALID, "%zu slopes for %zu heads, expected 1 or one a head",
                         c->slopes, c->heads);
    for (size_t i = 0; i < c->slopes; i++)
        if (!isfinite(c->slope[i]))
            return kvsi_fail(err, KVS_E_INVALID, "slope %zu is %g", i, c->slope[i]);
    if (c->positions == KVSI_POSITIONS_ROPE) {
        TRY(check_rotation(c, 0, err));
        TRY(check_rotation(c, 1, err));
        TRY(kvsi_rope_check(c, kvsi_rotary_channels(c, 0), err));
        if (c->rope.scaling == KVSI_ROPE_LONGROPE)
            TRY(kvsi_rope_check(c, kvsi_rotary_channels(c, 1), err));
    } else if (c->rope.scaling != KVSI_ROPE_PLAIN || c->no_rope_layers != 0 ||
               c->sliding_rope_base > 0) {
        return kvsi_fail(err, KVS_E_INVALID,
                         "rope scaling, layers without it and a sliding base need positions rope, "
                         "found %s",
                         kvsi_positions_name(c->positions));
    }
    return check_layers("no-rope", c->no_rope_layers, c->layers, err);
}

static kvs_status check_sliding(const kvs_model_config *c, kvs_err *err)
{
    const int own_heads = c->sliding_heads != c->heads || c->sliding_kv_heads != c->kv_heads ||
                          c->sliding_head_size > 0;

    if (c->sliding_window == 0 && (c->sliding_layers != 0 || own_heads))
        return kvsi_fail(err, KVS_E_INVALID, "sliding layers or heads need a sliding window");
    if (c->sliding_window == 0 && c->sliding_rope_base > 0)
        return kvsi_fail(err, KVS_E_INVALID, "a sliding rope base needs a sliding window");
    return check_layers("sliding", c->sliding_layers, c->layers, err);
}

static kvs_status check_head(const kvs_model_config *c, kvs_err *err)
{
    if (c->head == KVSI_HEAD_NONE && c->tied)
        return kvsi_fail(err, KVS_E_INVALID, "head none has nothing to tie to the embeddings");
    if (c->head == KVSI_HEAD_NONE && c->vocab > c->dim)
        return kvsi_fail(err, KVS_E_INVALID, "head none gives %zu logits for a vocabulary of %zu",
                         c->dim, c->vocab);
    return KVS_OK;
}

static kvs_status check_shift(const kvs_model_config *c, kvs_err *err)
{
    const kvsi_shift_config *s = &c->shift;
    const kvsi_form *form = kvsi_form_get(s->form);

    if (s->targets == 0)
        return KVS_OK;
    if (s->window > form->window_max)
        return kvsi_fail(err, KVS_E_INVALID, "shift window is %zu, form '%s' takes at most %zu",
                         s->window, kvsi_shift_form_name(s->form), form->window_max);
    if (s->init == KVSI_SHIFT_INIT_IDENTITY && !form->can_be_identity)
        return kvsi_fail(err, KVS_E_INVALID, "shift init 'identity' is out of reach of form '%s'",
                         kvsi_shift_form_name(s->form));
    if (s->init != KVSI_SHIFT_INIT_UNIFORM && !form->from_taps)
        return kvsi_fail(err, KVS_E_INVALID,
                         "shift init '%s' does not apply to form '%s', which "
                         "has no taps",
                         kvsi_shift_init_name(s->init), kvsi_shift_form_name(s->form));
    if (s->form == KVSI_SHIFT_HARD && c->positions == KVSI_POSITIONS_ROPE &&
        c->rotary_fraction > 0.5)
        return kvsi_fail(err, KVS_E_INVALID,
                         "shift form 'hard' needs a rotary fraction of at most "
                         "0.5, found %g",
                         c->rotary_fraction);
    return KVS_OK;
}

static kvs_status check_filters(const kvs_model_config *c, kvs_err *err)
{
    if (c->filters & KVSI_FILTER_MLP && c->no_mlp)
        return kvsi_fail(err, KVS_E_INVALID, "filters '%s' need a body with an MLP",
                         kvsi_name_of(kvsi_filters_names, (int)c->filters));
    if (c->filter_window > 0 && c->filters == 0)
        return kvsi_fail(err, KVS_E_INVALID, "a filter window of %zu needs filters, found none",
                         c->filter_window);
    if (c->mlp_factor && !(c->filters & KVSI_FILTER_MLP))
        return kvsi_fail(err, KVS_E_INVALID,
                         "a factor of the MLP needs filters 'mlp' or 'branches', found '%s'",
                         kvsi_name_of(kvsi_filters_names, (int)c->filters));
    return KVS_OK;
}

static kvs_status check_body(const kvs_model_config *c, kvs_err *err)
{
    if (c->body != KVSI_BODY_LLAMA && (c->qkv_bias || c->o_bias || c->mlp_bias || c->qk_norm))
        return kvsi_fail(err, KVS_E_INVALID,
                         "settings of biases and norms of queries and keys need body llama, found "
                         "%s",
                         kvsi_body_name(c->body));
    if (c->body != KVSI_BODY_LLAMA && c->embedding_norm)
        return kvsi_fail(err, KVS_E_INVALID, "a norm of the embeddings needs body llama, found %s",
                         kvsi_body_name(c->body));
    if (c->body != KVSI_BODY_LLAMA && (c->filters || c->positions == KVSI_POSITIONS_RELATIVE))
        return kvsi_fail(err, KVS_E_INVALID,
                         "filters and relative positions need body llama, found %s",
                         kvsi_body_name(c->body));
    if (c->body != KVSI_BODY_LLAMA &&
        (c->norm_place != KVSI_NORM_BEFORE || c->parallel != KVSI_PARALLEL_NONE))
        return kvsi_fail(err, KVS_E_INVALID,
                         "norms after attention and MLP, and parallel ones, need body llama, found "
                         "%s",
                         kvsi_body_name(c->body));
    return KVS_OK;
}

/* Settings that would have no effect on a body without norms, residual or MLP. */
static kvs_status check_parts(const kvs_model_config *c, kvs_err *err)
{
    const int parallel = c->parallel != KVSI_PARALLEL_NONE;

    if (c->no_norm && (c->norm_place != KVSI_NORM_BEFORE || c->parallel == KVSI_PARALLEL_SHARED))
        return kvsi_fail(err, KVS_E_INVALID,
                         "norms after attention and MLP, and shared ones, need "
                         "a body with norms");
    if (parallel && (c->no_mlp || c->no_residual))
        return kvsi_fail(err, KVS_E_INVALID,
                         "parallel attention and MLP need a body with an MLP and a residual");
    if (c->parallel == KVSI_PARALLEL_SHARED && c->norm_place == KVSI_NORM_AFTER)
        return kvsi_fail(err, KVS_E_INVALID,
                         "norm place 'after' leaves no norm that attention and MLP could share");
    return KVS_OK;
}

/* Each head then has tensors of its own. */
static kvs_status check_layer_norms(const kvs_model_config *c, kvs_err *err)
{
    enum { HEADS_MAX = 1 << 16 };
    const size_t heads = c->heads > c->sliding_heads ? c->heads : c->sliding_heads;

    if (c->qk_norm == KVSI_QK_NORM_LAYER && heads > HEADS_MAX / c->layers)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "norms of queries and keys of kind layer need at most %d heads in all "
                         "layers, found %zu layers with %zu",
                         HEADS_MAX, c->layers, heads);
    return KVS_OK;
}

static kvs_status check_lora(const kvsi_lora_config *lora, kvs_err *err)
{
    if (lora->rank > KVSI_LORA_RANK_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "lora rank is %zu, expected at most %d", lora->rank,
                         (int)KVSI_LORA_RANK_MAX);
    if (lora->rank > 0 && !(lora->alpha > 0 && lora->alpha < 1e9))
        return kvsi_fail(err, KVS_E_INVALID, "lora alpha is %g, expected above 0 to below 1e9",
                         lora->alpha);
    return KVS_OK;
}

enum { DEFAULT_RELATIVE_SIZE = 16 };

static void fill_in(kvs_model_config *c)
{
    if (c->kv_heads == 0)
        c->kv_heads = c->heads;
    if (c->sliding_heads == 0)
        c->sliding_heads = c->heads;
    if (c->sliding_kv_heads == 0)
        c->sliding_kv_heads = c->sliding_heads == c->heads ? c->kv_heads : c->sliding_heads;
    if (c->head_size * c->heads == c->dim && c->sliding_heads == c->heads)
        c->head_size = 0;
    if (c->sliding_head_size == (c->head_size > 0 ? c->head_size : c->dim / c->sliding_heads))
        c->sliding_head_size = 0;
    if (c->positions == KVSI_POSITIONS_RELATIVE && c->relative_size == 0)
        c->relative_size = DEFAULT_RELATIVE_SIZE;
    if (c->positions == KVSI_POSITIONS_RELATIVE && c->relative_extent == 0)
        c->relative_extent = c->context;
    if (c->filters != 0 && c->filter_window == 0)
        c->filter_window = 1;
    if (c->score_growth > 0 && c->score_growth_start == 0)
        c->score_growth_start = 1;
    if (c->norm_kind == KVSI_NORM_AUTO)
        c->norm_kind = c->body == KVSI_BODY_GPT2 ? KVSI_NORM_LAYER : KVSI_NORM_RMS;
    if (c->activation == KVSI_ACTIVATION_AUTO)
        c->activation =
            c->body == KVSI_BODY_GPT2 ? KVSI_ACTIVATION_GELU_TANH : KVSI_ACTIVATION_SILU;
    if (c->body == KVSI_BODY_GPT2)
        c->plain_mlp = 1;
    if (c->ffn == 0)
        c->ffn = c->body == KVSI_BODY_GPT2 ? 4 * c->dim : (c->dim * 8 / 3 + 15) / 16 * 16;
}

static kvs_status check(const kvs_model_config *config, kvs_err *err)
{
    TRY(kvsi_settings_check(&kvsi_model_settings, config, err));
    if (config->context < 1)
        return kvsi_fail(err, KVS_E_INVALID, "context is 0, expected at least 1");
    TRY(check_heads(config, 0, err));
    TRY(check_heads(config, 1, err));
    TRY(check_sliding(config, err));
    TRY(check_positions(config, err));
    TRY(check_head(config, err));
    TRY(check_shift(config, err));
    TRY(check_filters(config, err));
    TRY(check_body(config, err));
    TRY(check_parts(config, err));
    TRY(check_layer_norms(config, err));
    TRY(check_lora(&config->lora, err));
    if (config->identity_projections && (config->head_size > 0 || config->sliding_head_size > 0))
        return kvsi_fail(err, KVS_E_INVALID, "identity projections need no head size of their own");
    if (config->identity_projections &&
        (config->kv_heads != config->heads || config->sliding_kv_heads != config->sliding_heads))
        return kvsi_fail(err, KVS_E_INVALID, "identity projections need as many kv heads as heads");
    return KVS_OK;
}

kvs_status kvs_model_config_finish(kvs_model_config *config, kvs_err *err)
{
    kvs_model_config finished;

    NEED(config);
    finished = *config; /* so that a failure changes nothing */
    fill_in(&finished);
    TRY(check(&finished, err));
    *config = finished;
    return KVS_OK;
}

/* ---- layers ---- */

kvsi_layer_shape kvsi_layer_shape_of(const kvs_model_config *c, size_t layer)
{
    const int slides =
        c->sliding_window > 0 && (c->sliding_layers == 0 || (c->sliding_layers >> layer & 1));
    const size_t heads = heads_of(c, slides);
    const size_t kv_heads = slides ? c->sliding_kv_heads : c->kv_heads;
    const size_t head_size = head_size_of(c, slides);
    const int rotates = layer >= KVSI_LISTED_LAYERS_MAX || !(c->no_rope_layers >> layer & 1);

    return (kvsi_layer_shape){
        .heads = heads,
        .kv_heads = kv_heads,
        .head_size = head_size,
        .rotary = rotates ? kvsi_rotary_channels(c, slides) : 0,
        .q_width = heads * head_size,
        .qkv_width = (heads + 2 * kv_heads) * head_size,
        .sliding_window = slides ? c->sliding_window : 0,
        .relative_extent = c->positions != KVSI_POSITIONS_RELATIVE ? 0
                           : slides                                ? c->sliding_window
                                                                   : c->relative_extent,
    };
}
