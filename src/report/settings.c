#include "report/settings.h"

#include "config/config.h"
#include "formats/hf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char DATA[] = "data ";

void kvsi_describe_shift(char *out, size_t size, const kvsi_shift_config *shift)
{
    char form[16] = "", window[32] = "", init[24] = "";

    if (shift->targets != 0 && shift->form != KVSI_SHIFT_FREE)
        snprintf(form, sizeof form, " %s", kvsi_shift_form_name(shift->form));
    if (shift->targets != 0 && shift->window > 1)
        snprintf(window, sizeof window, " window %zu", shift->window);
    if (shift->targets != 0 && shift->init != KVSI_SHIFT_INIT_UNIFORM)
        snprintf(init, sizeof init, " init %s", kvsi_shift_init_name(shift->init));
    snprintf(out, size, "%s%s%s%s", kvsi_shift_targets_name(shift->targets), form, window, init);
}

/* ---- the list -------------------------------------------------------------------------------- */

/* The settings at the front of the list, after the shift. */
static const char *const front[] = {"body",     "layers", "dim",     "heads",
                                    "kv-heads", "ffn",    "context", "vocab"};

/* Keys of the log that are not in the list: the steps are at its front, repetitions differ in the
 * seed alone, a path is not the data itself, and evaluations do not change the result. */
static const char *const left_out[] = {"steps", "seed", "path", "eval_every"};

static int is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

#define IS_AMONG(name, names) is_among(name, names, sizeof(names) / sizeof *(names))

static json_t *in_words(const json_t *value)
{
    char number[40], *text;
    json_t *words;

    if (json_is_string(value))
        return json_string(json_string_value(value));
    if (json_is_boolean(value))
        return json_string(json_is_true(value) ? "yes" : "no");
    if (json_is_real(value)) {
        snprintf(number, sizeof number, "%.9g", json_real_value(value));
        return json_string(number);
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    words = text ? json_string(text) : NULL;
    free(text);
    return words;
}

static int add(json_t *list, const char *prefix, const char *key, json_t *words)
{
    char name[96];

    snprintf(name, sizeof name, "%s%s", prefix, key);
    for (char *c = name; *c; c++)
        *c = *c == '_' || *c == '-' ? ' ' : *c;
    return json_object_set_new(list, name, words);
}

/* Members of an object under their keys with blanks. */
static int add_members(json_t *list, const char *prefix, const json_t *object)
{
    const char *key;
    json_t *value;
    int failed = 0;

    json_object_foreach((json_t *)object, key, value)
        if (!IS_AMONG(key, left_out))
            failed |= add(list, prefix, key, in_words(value));
    return failed;
}

/* A run without adapters has none of these names. */
static int add_lora(json_t *list, const kvsi_lora_config *lora)
{
    int failed = 0;

    if (lora->rank == 0)
        return 0;
    failed |= add(list, "", "lora", json_sprintf("%zu", lora->rank));
    failed |= add(list, "", "lora alpha", json_sprintf("%.9g", lora->alpha));
    return failed | add(list, "", "lora on", json_string(lora->on));
}

static int add_front(json_t *list, const kvs_model_config *model)
{
    char shift[96];
    int failed = 0;

    kvsi_describe_shift(shift, sizeof shift, &model->shift);
    failed |= add(list, "", "shift", json_string(shift));
    failed |= add_lora(list, &model->lora);
    for (size_t i = 0; i < sizeof front / sizeof *front; i++) {
        const kvsi_setting *row = kvsi_settings_find(&kvsi_model_settings, front[i]);
        kvsi_text words = {0};

        kvsi_setting_print(&words, row, model);
        failed |= words.failed || add(list, "", front[i], json_string(words.data));
        kvsi_text_release(&words);
    }
    return failed;
}

/* Adds the other settings of the model, also those of objects in its config.json.  Keys that are no
 * settings are left out: they are the same for all models. */
static int add_model(json_t *list, const json_t *object, kvsi_body body)
{
    const char *key;
    json_t *value;
    int failed = 0;

    json_object_foreach((json_t *)object, key, value) {
        const kvsi_setting *row = kvsi_hf_setting(key, body);

        if (json_is_object(value) && strcmp(key, "lora") != 0)
            failed |= add_model(list, value, body);
        else if (row && !IS_AMONG(row->name, front) && strncmp(row->name, "shift", 5) != 0)
            failed |= add(list, "", row->negated ? row->key : row->name, in_words(value));
    }
    return failed;
}

json_t *kvsi_settings_list(const json_t *line, const kvs_model_config *model,
                           uint64_t planned_steps)
{
    json_t *list = json_object(), *train = json_copy(json_object_get(line, "train"));
    int failed = !list;

    failed |= add_front(list, model);
    failed |= json_object_set_new(list, "steps", json_sprintf("%" PRIu64, planned_steps));
    failed |= train && kvsi_train_settings_add_missing(train);
    failed |= add_members(list, "", train);
    failed |= add_members(list, DATA, json_object_get(line, "task"));
    failed |= add_model(list, json_object_get(line, "model"), model->body);
    json_decref(train);
    if (!failed)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- what differs ---------------------------------------------------------------------------- */

const char *kvsi_run_setting(const json_t *list, const char *name)
{
    return json_string_value(json_object_get(list, name));
}

int kvsi_settings_differ(const json_t *a, const json_t *b, const char *name)
{
    const char *ours = kvsi_run_setting(a, name), *theirs = kvsi_run_setting(b, name);

    return ours && theirs ? strcmp(ours, theirs) != 0 : ours != theirs;
}

/* The first thing that `a` says about the data and `b` does not. */
static const char *find_other_data(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)a, name, value) {
        const int about_data =
            strncmp(name, DATA, sizeof DATA - 1) == 0 || strcmp(name, "eval sequences") == 0;

        if (about_data && kvsi_settings_differ(a, b, name))
            return name;
    }
    return NULL;
}

const char *kvsi_settings_other_data(const json_t *a, const json_t *b)
{
    const char *name = find_other_data(a, b);

    return name ? name : find_other_data(b, a);
}

/* Whether all the names said so far tell the two lists apart. */
static int are_apart(const json_t *a, const json_t *b, const json_t *said)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)said, name, value)
        if (kvsi_settings_differ(a, b, name))
            return 1;
    return 0;
}

/* Does this name set any two lists apart that were not apart before? */
static int helps(const json_t *const *lists, size_t count, const json_t *said, const char *name)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (kvsi_settings_differ(lists[i], lists[j], name) &&
                !are_apart(lists[i], lists[j], said))
                return 1;
    return 0;
}

void kvsi_settings_label(kvsi_text *out, const json_t *const *lists, size_t count, size_t which)
{
    json_t *said = json_object();
    int failed = !said;

    /* A list may have a name that another lacks, so all of them are gone through. */
    for (size_t i = 0; i < count; i++) {
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)lists[i], name, value)
            if (helps(lists, count, said, name))
                failed |= json_object_set_new(said, name, json_true());
    }
    if (json_object_size(said) == 0)
        failed |= json_object_set_new(said, "shift", json_true());
    for (void *at = json_object_iter(said); at; at = json_object_iter_next(said, at)) {
        const char *name = json_object_iter_key(at), *words = kvsi_run_setting(lists[which], name);

        kvsi_text_format(out, "%s%s %s", at == json_object_iter(said) ? "" : ", ", name,
                         words ? words : "-");
    }
    json_decref(said);
    out->failed |= failed;
}
