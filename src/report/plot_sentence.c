/* The attention of every head on one text, with its tokens on the axes. */
#include "base/files.h"
#include "base/memory.h"
#include "kvshift/kvshift_lab.h"
#include "report/gnuplot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* In pixels: a cell of a map, the labels at its left and below, and the space above it. */
enum { CELL = 15, LABELS = 95, TITLE = 30, HEADING = 34, GAP = 20, LEAST = 210 };

typedef struct drawing {
    kvsi_text script;
    const kvs_model *model;
    const char *const *labels;
    size_t count, drawn, heads;
    double side, width, height;
} drawing;

/* A blank is shown as a dot, a line end as an arrow; control characters and broken characters are
 * left out. */
static void add_label(kvsi_text *script, const char *label)
{
    kvsi_text shown = {0};

    for (const char *c = label; *c; c++) {
        const unsigned char byte = (unsigned char)*c;

        if (byte == ' ')
            kvsi_text_add(&shown, "·");
        else if (byte == '\n')
            kvsi_text_add(&shown, "↵");
        else if (byte >= 0x20 && byte != 0x7f)
            kvsi_text_add_bytes(&shown, c, 1);
    }
    kvsi_gnuplot_quote(script, shown.data ? shown.data : "");
    script->failed |= shown.failed;
    kvsi_text_release(&shown);
}

static void add_tics(drawing *d, const char *axis, const char *how)
{
    kvsi_text_format(&d->script, "set %stics (", axis);
    for (size_t i = 0; i < d->count; i++) {
        kvsi_text_add(&d->script, i ? ", " : "");
        add_label(&d->script, d->labels[i]);
        kvsi_text_format(&d->script, " %zu", i);
    }
    kvsi_text_format(&d->script, ") %s\n", how);
}

static void add_map(drawing *d, const char *name, const float *pattern, double left, double top,
                    const char *title, int has_rows)
{
    kvsi_text *script = &d->script;

    kvsi_text_format(script, "$%s%zu << END\n", name, d->drawn);
    for (size_t t = 0; t < d->count; t++) {
        for (size_t s = 0; s < d->count; s++)
            kvsi_text_format(script, "%.3g ", (double)pattern[t * d->count + s]);
        kvsi_text_add(script, "\n");
    }
    kvsi_text_add(script, "END\n");
    kvsi_gnuplot_place(script, left / d->width, (left + d->side) / d->width, 1 - top / d->height,
                       1 - (top + d->side) / d->height);
    add_tics(d, "x", "rotate by 90 right");
    if (has_rows)
        add_tics(d, "y", "");
    else
        kvsi_text_add(script, "unset ytics\n");
    kvsi_text_add(script, "set title ");
    kvsi_gnuplot_quote(script, title);
    kvsi_text_format(script,
                     " offset 0,-0.7\nset xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\n"
                     "plot $%s%zu matrix with image pixels notitle\nunset label\nunset colorbox\n",
                     d->count - 1, d->count - 1, name, d->drawn);
}

/* Appends the taps of a head, "α = (0.41, 0.59)": those of the current and of the previous
 * token. */
static void add_taps(char *title, size_t size, const kvs_model *model, size_t layer, size_t head,
                     unsigned target, const char *letter)
{
    const size_t used = strlen(title);
    double taps[8];

    if (kvs_model_config_number(kvs_model_get_config(model), "shift-window") != 1 ||
        kvs_model_taps(taps, NULL, model, layer, target, head, NULL) != KVS_OK)
        return;
    snprintf(title + used, size - used, ", %s = (%.2f, %.2f)", letter, taps[1], taps[0]);
}

static void add_head(void *user, const kvs_pattern *p)
{
    drawing *d = user;
    const double top = HEADING + TITLE + (double)d->drawn * (d->side + LABELS + TITLE);
    char title[96];

    if (d->drawn == d->heads)
        return;
    snprintf(title, sizeof title, "layer %zu head %zu: A", p->layer, p->head);
    add_taps(title, sizeof title, d->model, p->layer, p->kv_head, KVS_SHIFT_K, "α");
    add_map(d, "a", p->places, LABELS, top, title, 1);
    snprintf(title, sizeof title, "A_V");
    add_taps(title, sizeof title, d->model, p->layer, p->kv_head, KVS_SHIFT_V, "β");
    add_map(d, "v", p->contents, LABELS + d->side + GAP, top, title, 0);
    d->drawn++;
}

static void add_frame(drawing *d)
{
    kvsi_text *script = &d->script;

    kvsi_gnuplot_begin(script, "sentence", d->width, d->height, 11);
    kvsi_text_add(script, "set encoding utf8\n"
                          "set palette defined (-1 '#b2182b', 0 '#ffffff', 1 '#053061')\n"
                          "set cbrange [-1:1]\nset multiplot\n"
                          "set border linecolor rgb '#7f7f7f'\nset tics scale 0\n"
                          "set colorbox user horizontal\nset cbtics -1, 0.5, 1 scale 0.3\n");
    kvsi_text_format(script,
                     "set colorbox origin screen %.5f, screen %.5f size screen %.5f, screen %.5f\n",
                     1 - 190 / d->width, 1 - 18 / d->height, 170 / d->width, 10 / d->height);
    kvsi_text_format(script,
                     "set label 'attention by place (A) and by content (A_V); rows see columns' "
                     "at screen %.5f, screen %.5f\n",
                     18 / d->width, 1 - 14 / d->height);
}

kvs_status kvs_text_patterns_draw(const char *svg, const kvs_model *model, const int32_t *ids,
                                  const char *const *labels, size_t count, kvs_err *err)
{
    const size_t all = model ? kvs_lens_heads(model) : 0;
    drawing d = {.model = model,
                 .labels = labels,
                 .count = count,
                 .heads = all < KVS_DRAWN_TEXT_HEADS_MAX ? all : KVS_DRAWN_TEXT_HEADS_MAX,
                 .side = fmax(LEAST, CELL * (double)count)};
    char *drawn = NULL;
    kvs_status st;

    NEED(svg);
    NEED(model);
    NEED_ARRAY(ids, count);
    NEED_ARRAY(labels, count);
    for (size_t i = 0; i < count; i++)
        NEED(labels[i]);
    if (count < 2 || count > KVS_DRAWN_TOKENS_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "the text has %zu token%s, expected 2 to %d", count,
                         count == 1 ? "" : "s", (int)KVS_DRAWN_TOKENS_MAX);
    d.width = fmax(700, LABELS + 2 * d.side + 3 * GAP);
    d.height = HEADING + (double)d.heads * (d.side + LABELS + TITLE) + GAP;
    add_frame(&d);
    TRY_OUT(kvs_patterns(model, ids, count, add_head, &d, err));
    kvsi_text_add(&d.script, "unset multiplot\n");
    TRY_OUT(kvsi_gnuplot_draw(&drawn, &d.script, err));
    TRY_OUT(kvsi_file_write_text(svg, drawn, err));
out:
    kvsi_free(drawn);
    kvsi_text_release(&d.script);
    return st;
}
