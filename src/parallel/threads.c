#include "parallel/threads.h"

#ifdef _OPENMP
#include <omp.h>
#endif

int kvsi_threads_available(void)
{
#ifdef _OPENMP
    return omp_get_num_procs();
#else
    return 1;
#endif
}

size_t kvsi_thread_index(void)
{
#ifdef _OPENMP
    return (size_t)omp_get_thread_num();
#else
    return 0;
#endif
}
