/* parallel/threads.h - one parallel region per operation, divided into pieces by shape, never by
 * the number of threads, so that results do not depend on it.
 *
 *     KVSI_PARALLEL_PIECES(c->threads, i, pieces) {
 *         ... piece i, on any thread ...
 *     }
 */
#ifndef KVSI_PARALLEL_THREADS_H
#define KVSI_PARALLEL_THREADS_H

#include <stddef.h>

#define KVSI_PRAGMA(text) _Pragma(#text)

#ifdef _OPENMP
/* A region of one piece stays on the calling thread: waking the others would cost more. */
#define KVSI_PARALLEL_PIECES(threads, i, pieces)                                                   \
    KVSI_PRAGMA(omp parallel for num_threads(threads) schedule(dynamic, 1) if ((pieces) > 1))      \
    for (size_t i = 0; i < (pieces); i++)
#else
#define KVSI_PARALLEL_PIECES(threads, i, pieces) for (size_t i = 0; i < (pieces); i++)
#endif

enum { KVSI_THREADS_MAX = 1024 }; /* largest number that a caller may ask for */

int kvsi_threads_available(void); /* cores this process may use */
size_t kvsi_thread_index(void);   /* inside a region: 0 .. threads-1 */

#endif
