/* Keeps the best values so far in a heap whose root is the worst of them: almost every value takes
 * one comparison.  Sorting a whole vocabulary would take longer than computing its logits. */
#include "kernels/top.h"

static int is_worse(const real *values, int32_t x, int32_t y)
{
    return values[x] != values[y] ? values[x] < values[y] : x > y;
}

static void swap(int32_t *x, int32_t *y)
{
    const int32_t id = *x;

    *x = *y;
    *y = id;
}

/* Moves the id at index `at` of the heap down until none of its children is worse. */
static void sift(int32_t *heap, size_t count, size_t at, const real *values)
{
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_worse(values, heap[child + 1], heap[child]))
            child++;
        if (!is_worse(values, heap[child], heap[at]))
            return;
        swap(&heap[child], &heap[at]);
    }
}

void kvsi_top_ids(int32_t *ids, size_t top, const real *values, size_t count)
{
    if (top == 0)
        return;
    for (size_t i = 0; i < top; i++)
        ids[i] = (int32_t)i;
    for (size_t i = top / 2; i > 0; i--)
        sift(ids, top, i - 1, values);
    for (size_t i = top; i < count; i++)
        if (values[i] > values[ids[0]]) {
            ids[0] = (int32_t)i;
            sift(ids, top, 0, values);
        }
    for (size_t end = top; end > 1; end--) { /* move the worst of ids[0..end-1] to its end */
        swap(&ids[0], &ids[end - 1]);
        sift(ids, end - 1, 0, values);
    }
}
