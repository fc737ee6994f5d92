/* Attention patterns of all heads as small maps: by position (A) and by content (A_V). */
#include "base/files.h"
#include "base/memory.h"
#include "kvshift/kvshift_lab.h"
#include "report/gnuplot.h"

#include <stdio.h>

/* Sizes in pixels: a pair of maps with titles, one map, and the space above all. */
enum { PAIR_WIDTH = 270, PAIR_HEIGHT = 150, SIDE = 115, MARGIN = 34, COLUMNS = 4, HALF_MAX = 20 };

typedef struct drawing {
    kvsi_text script;
    size_t drawn, heads; /* so far, and in total */
    double width, height;
} drawing;

static void add_map(drawing *d, const char *name, const float *pattern, size_t tokens, double left,
                    double top, const char *title)
{
    kvsi_text *script = &d->script;

    kvsi_text_format(script, "$%s%zu << END\n", name, d->drawn);
    for (size_t t = 0; t < tokens; t++) {
        for (size_t s = 0; s < tokens; s++)
            kvsi_text_format(script, "%.3g ", (double)pattern[t * tokens + s]);
        kvsi_text_add(script, "\n");
    }
    kvsi_text_add(script, "END\n");
    kvsi_gnuplot_place(script, left / d->width, (left + SIDE) / d->width, 1 - top / d->height,
                       1 - (top + SIDE) / d->height);
    kvsi_text_format(script,
                     "set title '%s' offset 0,-0.7\n"
                     "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\n"
                     "plot $%s%zu matrix with image notitle\nunset label\nunset colorbox\n",
                     title, tokens - 1, tokens - 1, name, d->drawn);
}

static void add_head(void *user, const kvs_pattern *p)
{
    drawing *d = user;
    const size_t row = d->drawn / COLUMNS, column = d->drawn % COLUMNS;
    const double left = (double)(column * PAIR_WIDTH + 18);
    const double top = (double)(row * PAIR_HEIGHT + 2 * MARGIN);
    char title[64];

    if (d->drawn == d->heads)
        return;
    snprintf(title, sizeof title, "layer %zu head %zu: A", p->layer, p->head);
    add_map(d, "a", p->places, p->tokens, left, top, title);
    add_map(d, "v", p->contents, p->tokens, left + SIDE + 10, top, "A_V");
    d->drawn++;
}

static void add_frame(drawing *d, const kvs_lens_options *o, size_t all)
{
    kvsi_text *script = &d->script;

    kvsi_gnuplot_begin(script, "heads", d->width, d->height, 11);
    kvsi_text_add(script, "set palette defined (-1 '#b2182b', 0 '#ffffff', 1 '#053061')\n"
                          "set cbrange [-1:1]\nset multiplot\n"
                          "set border linecolor rgb '#7f7f7f'\nunset tics\n"
                          "set colorbox user horizontal\nset cbtics -1, 0.5, 1 scale 0.3\n");
    kvsi_text_format(script,
                     "set colorbox origin screen %.5f, screen %.5f size screen %.5f, screen %.5f\n",
                     1 - 190 / d->width, 1 - 18 / d->height, 170 / d->width, 10 / d->height);
    kvsi_text_format(script,
                     "set label 'attention by place (A) and by content fetched (A_V): %zu random "
                     "tokens twice; rows see columns' at screen %.5f, screen %.5f\n",
                     o->length, 18 / d->width, 1 - 14 / d->height);
    if (d->heads < all)
        kvsi_text_format(script,
                         "set label 'the first %zu of %zu heads' at screen %.5f, screen %.5f\n",
                         d->heads, all, 18 / d->width, 1 - 28 / d->height);
}

kvs_status kvs_patterns_draw(const char *svg, const kvs_model *model,
                             const kvs_lens_options *options, kvs_err *err)
{
    const size_t all = kvs_lens_heads(model);
    drawing d = {.heads = all < KVS_DRAWN_HEADS_MAX ? all : KVS_DRAWN_HEADS_MAX};
    const size_t rows = (d.heads + COLUMNS - 1) / COLUMNS;
    kvs_lens_options o;
    int32_t *ids = NULL;
    char *drawn = NULL;
    kvs_status st = KVS_OK;

    NEED(svg);
    NEED(model);
    NEED(options);
    o = *options;
    o.length = o.length < HALF_MAX ? o.length : HALF_MAX; /* more would not be legible */
    ids = kvsi_alloc(2 * o.length, sizeof *ids);
    if (!ids) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for %zu tokens", 2 * o.length);
        goto out;
    }
    d.width = (double)((d.heads < COLUMNS ? d.heads : COLUMNS) * PAIR_WIDTH);
    d.width = d.width < 700 ? 700 : d.width; /* for the heading */
    d.height = (double)(rows * PAIR_HEIGHT + 2 * MARGIN);
    kvs_lens_sequence(ids, &o, model, 0);
    add_frame(&d, &o, all);
    TRY_OUT(kvs_patterns(model, ids, 2 * o.length, add_head, &d, err));
    kvsi_text_add(&d.script, "unset multiplot\n");
    TRY_OUT(kvsi_gnuplot_draw(&drawn, &d.script, err));
    TRY_OUT(kvsi_file_write_text(svg, drawn, err));
out:
    kvsi_free(drawn);
    kvsi_free(ids);
    kvsi_text_release(&d.script);
    return st;
}
