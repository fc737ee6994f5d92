/* Each line starts in a cell that no line has passed yet and runs both ways until it leaves the
 * square, comes to a cell of another line, or the field ends.  So lines keep their distance, and
 * every place has one near.  Short ones are left out. */
#include "report/streamlines.h"

#include <math.h>
#include <string.h>

enum { CELLS = 16, POINTS = 600 };

static const double STEP = 0.004, SHORTEST = 0.12, ARROW = 0.02;

typedef struct line {
    double x[POINTS], y[POINTS];
    size_t from, to; /* points from .. to-1 are used */
} line;

typedef struct drawing {
    const kvsi_field *field;
    uint8_t taken[CELLS][CELLS];
    kvsi_text lines, arrows;
} drawing;

static int is_inside(double x, double y)
{
    return x >= 0 && x <= 1 && y >= 0 && y <= 1;
}

static size_t cell_of(double x)
{
    const size_t cell = (size_t)(x * CELLS);

    return cell < CELLS ? cell : CELLS - 1;
}

/* Unit direction; returns 0 if there is none. */
static int direction(const kvsi_field *field, double x, double y, double *dx, double *dy)
{
    double length;

    field->at(field->user, x, y, dx, dy);
    length = hypot(*dx, *dy);
    if (!(length > 1e-12))
        return 0;
    *dx /= length;
    *dy /= length;
    return 1;
}

/* One step of the midpoint rule; `sign` -1 goes against the field.  Returns 0 at the end. */
static int go(const kvsi_field *field, double sign, double *x, double *y)
{
    double dx, dy;

    if (!direction(field, *x, *y, &dx, &dy) ||
        !direction(field, *x + sign * STEP / 2 * dx, *y + sign * STEP / 2 * dy, &dx, &dy))
        return 0;
    *x += sign * STEP * dx;
    *y += sign * STEP * dy;
    return is_inside(*x, *y);
}

/* Runs one way from the line's start; `own` marks the cells of this line. */
static void run(drawing *d, line *l, double sign, uint8_t own[CELLS][CELLS])
{
    double x = l->x[POINTS / 2], y = l->y[POINTS / 2];

    while (l->from > 0 && l->to < POINTS && go(d->field, sign, &x, &y)) {
        const size_t row = cell_of(y), column = cell_of(x);
        size_t place;

        if (d->taken[row][column])
            return;
        own[row][column] = 1;
        place = sign > 0 ? l->to++ : --l->from;
        l->x[place] = x;
        l->y[place] = y;
    }
}

static void add_line(drawing *d, const line *l)
{
    const size_t middle = (l->from + l->to) / 2;
    double dx, dy;

    for (size_t i = l->from; i < l->to; i += 3) /* every third point is enough */
        kvsi_text_format(&d->lines, "%.4f %.4f\n", l->x[i], l->y[i]);
    kvsi_text_add(&d->lines, "\n");
    if (direction(d->field, l->x[middle], l->y[middle], &dx, &dy))
        kvsi_text_format(&d->arrows, "%.4f %.4f %.4f %.4f\n", l->x[middle], l->y[middle],
                         ARROW * dx, ARROW * dy);
}

static void try_line(drawing *d, size_t row, size_t column)
{
    uint8_t own[CELLS][CELLS] = {{0}};
    line l = {.from = POINTS / 2, .to = POINTS / 2 + 1};

    if (d->taken[row][column])
        return;
    l.x[POINTS / 2] = ((double)column + 0.5) / CELLS;
    l.y[POINTS / 2] = ((double)row + 0.5) / CELLS;
    own[row][column] = 1;
    run(d, &l, 1, own);
    run(d, &l, -1, own);
    if ((double)(l.to - l.from) * STEP < SHORTEST)
        return;
    for (size_t i = 0; i < sizeof own; i++)
        (&d->taken[0][0])[i] |= (&own[0][0])[i];
    add_line(d, &l);
}

void kvsi_streamlines_add(kvsi_text *script, const char *name, const kvsi_field *field)
{
    drawing d = {.field = field};

    for (size_t stride = CELLS / 2; stride > 0; stride /= 2) /* from coarse to fine */
        for (size_t row = stride / 2; row < CELLS; row += stride)
            for (size_t column = stride / 2; column < CELLS; column += stride)
                try_line(&d, row, column);
    kvsi_text_format(script, "$%s_lines << END\n%sEND\n", name, d.lines.data ? d.lines.data : "");
    kvsi_text_format(script, "$%s_arrows << END\n%sEND\n", name,
                     d.arrows.data ? d.arrows.data : "");
    script->failed |= d.lines.failed | d.arrows.failed;
    kvsi_text_release(&d.lines);
    kvsi_text_release(&d.arrows);
}
