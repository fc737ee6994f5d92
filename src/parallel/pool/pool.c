/* A thread pool that takes the place of GNU's OpenMP runtime in the Python package.
 *
 * A Python process often has an OpenMP runtime of its own, such as PyTorch's.  A second one cannot
 * run after fork(), where its threads do not exist any more but it waits for them.  GCC turns each
 * KVSI_PARALLEL_PIECES into calls of the functions below; they are defined here with the names and
 * arguments of libgomp, hidden in the shared library, and libgomp is not linked.  A construct that
 * needs another function does not link.  Pieces are taken as from libgomp, so results are the same.
 *
 * Threads wait in teams.  A region takes a team that nobody uses, or makes one, and gives it back,
 * so several threads of the program can be in regions at once.  A region inside a region runs on
 * its thread alone.  The child of a fork starts with no teams. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

typedef unsigned long long number;

/* How often a thread looks before it sleeps: some microseconds.  Between the operations of a pass
 * no thread should fall asleep, and after it none should keep a core busy. */
enum { LOOKS = 1000, WORKERS_MAX = 1023 };

/* ---- regions --------------------------------------------------------------------------------- */

typedef void region_function(void *data);

/* One parallel region, on the stack of the thread that started it. */
typedef struct region {
    region_function *function;
    void *data;
    unsigned threads;
    bool has_loop; /* the loop is known before the region starts */
    number start, end, step, chunk;
    _Atomic number next; /* index of the first iteration that no thread has taken */
} region;

/* What a thread is doing. */
typedef struct place {
    region *region; /* NULL = in no region */
    unsigned index;
    number start, step, chunk, count; /* of the loop */
} place;

static _Thread_local place here;

/* The loop has the iterations start, start + step, ... before `end`; `up` = step is positive.
 * Unsigned arithmetic is the same for signed numbers. */
static void enter_loop(bool up, number start, number end, number step, number chunk)
{
    const number distance = up ? end - start : start - end, size = up ? step : 0 - step;
    const bool is_empty = (long long)distance <= 0 || size == 0;

    here.start = start;
    here.step = step;
    here.chunk = chunk;
    here.count = is_empty ? 0 : (distance + size - 1) / size;
}

static bool take(number *from, number *to)
{
    const number first = atomic_fetch_add(&here.region->next, here.chunk);
    const number last = first + here.chunk < here.count ? first + here.chunk : here.count;

    if (first >= here.count)
        return false;
    *from = here.start + first * here.step;
    *to = here.start + last * here.step;
    return true;
}

/* Runs the region's function as its thread number `index`. */
static void run(region *r, unsigned index)
{
    const place before = here;

    here = (place){.region = r, .index = index};
    if (r->has_loop)
        enter_loop((long long)r->step > 0, r->start, r->end, r->step, r->chunk);
    r->function(r->data);
    here = before;
}

/* ---- teams ----------------------------------------------------------------------------------- */

typedef struct team {
    struct team *next; /* in the list of teams that nobody uses */
    pthread_mutex_t mutex;
    pthread_cond_t started, finished;
    region *region;
    unsigned workers;     /* that exist; they are numbers 1 to `workers` of a region */
    unsigned asleep;      /* workers that wait for `started` */
    _Atomic number round; /* number of the region; changed with the mutex locked */
    atomic_uint busy;     /* workers that have not finished this round */
} team;

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static team *idle; /* the list */

static void look_again(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* Returns the number of the next round, once it has started. */
static number wait_for_round(team *t, number seen)
{
    number now;

    for (int i = 0; i < LOOKS; i++) {
        now = atomic_load(&t->round);
        if (now != seen)
            return now;
        look_again();
    }
    pthread_mutex_lock(&t->mutex);
    t->asleep++;
    while ((now = atomic_load(&t->round)) == seen)
        pthread_cond_wait(&t->started, &t->mutex);
    t->asleep--;
    pthread_mutex_unlock(&t->mutex);
    return now;
}

/* A worker, its number, and the last round before it was started. */
typedef struct worker {
    team *team;
    unsigned index;
    number seen;
} worker;

static void *work(void *given)
{
    const worker w = *(worker *)given;
    number seen = w.seen;

    free(given);
    for (;;) {
        seen = wait_for_round(w.team, seen);
        if (w.index < w.team->region->threads)
            run(w.team->region, w.index);
        if (atomic_fetch_sub(&w.team->busy, 1) == 1) {
            pthread_mutex_lock(&w.team->mutex);
            pthread_cond_signal(&w.team->finished);
            pthread_mutex_unlock(&w.team->mutex);
        }
    }
    return NULL;
}

/* Starts workers until there are `wanted`, or as many as the system allows: fewer do all of the
 * work too.  They handle no signals, which are the program's. */
static void add_workers(team *t, unsigned wanted)
{
    sigset_t all, before;
    pthread_attr_t detached;

    if (t->workers >= wanted || pthread_attr_init(&detached) != 0)
        return;
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (t->workers < wanted) {
        worker *w = malloc(sizeof *w);
        pthread_t thread;

        if (!w)
            break;
        *w = (worker){.team = t, .index = t->workers + 1, .seen = atomic_load(&t->round)};
        if (pthread_create(&thread, &detached, work, w) != 0) {
            free(w);
            break;
        }
        t->workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
}

static void before_fork(void)
{
    pthread_mutex_lock(&list_mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&list_mutex);
}

/* The child has none of the threads.  The memory of the teams is not freed: a thread that the child
 * does not have may have locked it. */
static void in_child(void)
{
    idle = NULL;
    pthread_mutex_unlock(&list_mutex);
}

static void prepare_for_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* Returns a team that nobody uses, with at most `wanted` workers that take part; NULL = no
 * memory. */
static team *take_team(unsigned wanted)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    team *t;

    pthread_once(&once, prepare_for_forks);
    pthread_mutex_lock(&list_mutex);
    t = idle;
    if (t)
        idle = t->next;
    pthread_mutex_unlock(&list_mutex);
    if (!t) {
        t = calloc(1, sizeof *t);
        if (!t)
            return NULL;
        pthread_mutex_init(&t->mutex, NULL);
        pthread_cond_init(&t->started, NULL);
        pthread_cond_init(&t->finished, NULL);
    }
    add_workers(t, wanted);
    return t;
}

static void give_back(team *t)
{
    pthread_mutex_lock(&list_mutex);
    t->next = idle;
    idle = t;
    pthread_mutex_unlock(&list_mutex);
}

static void start_round(team *t, region *r)
{
    t->region = r;
    atomic_store(&t->busy, t->workers);
    pthread_mutex_lock(&t->mutex);
    atomic_fetch_add(&t->round, 1);
    if (t->asleep > 0)
        pthread_cond_broadcast(&t->started);
    pthread_mutex_unlock(&t->mutex);
}

static void wait_until_finished(team *t)
{
    for (int i = 0; i < LOOKS; i++) {
        if (atomic_load(&t->busy) == 0)
            return;
        look_again();
    }
    pthread_mutex_lock(&t->mutex);
    while (atomic_load(&t->busy) > 0)
        pthread_cond_wait(&t->finished, &t->mutex);
    pthread_mutex_unlock(&t->mutex);
}

static void run_region(region *r)
{
    unsigned workers = r->threads > 0 ? r->threads - 1 : 0;
    team *t = NULL;

    if (workers > WORKERS_MAX)
        workers = WORKERS_MAX;
    if (workers > 0 && !here.region)
        t = take_team(workers);
    if (t && t->workers > 0)
        start_round(t, r);
    run(r, 0);
    if (!t)
        return;
    if (t->workers > 0)
        wait_until_finished(t);
    give_back(t);
}

/* ---- the functions that GCC calls ------------------------------------------------------------ */

#define GOMP __attribute__((visibility("hidden")))

GOMP int omp_get_num_procs(void);
GOMP int omp_get_thread_num(void);
GOMP void GOMP_parallel(region_function *function, void *data, unsigned threads, unsigned flags);
GOMP void GOMP_parallel_loop_nonmonotonic_dynamic(region_function *function, void *data,
                                                  unsigned threads, long start, long end, long step,
                                                  long chunk, unsigned flags);
GOMP bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to);
GOMP bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool up, number start, number end, number step,
                                                   number chunk, number *from, number *to);
GOMP bool GOMP_loop_ull_nonmonotonic_dynamic_next(number *from, number *to);
GOMP void GOMP_loop_end_nowait(void);

int omp_get_num_procs(void)
{
    cpu_set_t cores;
    const long all = sysconf(_SC_NPROCESSORS_ONLN);

    if (sched_getaffinity(0, sizeof cores, &cores) == 0)
        return CPU_COUNT(&cores);
    return all > 0 ? (int)all : 1; /* more cores than the set can name */
}

int omp_get_thread_num(void)
{
    return (int)here.index;
}

void GOMP_parallel(region_function *function, void *data, unsigned threads, unsigned flags)
{
    region r = {.function = function, .data = data, .threads = threads};

    (void)flags;
    run_region(&r);
}

void GOMP_parallel_loop_nonmonotonic_dynamic(region_function *function, void *data,
                                             unsigned threads, long start, long end, long step,
                                             long chunk, unsigned flags)
{
    region r = {.function = function,
                .data = data,
                .threads = threads,
                .has_loop = true,
                .start = (number)start,
                .end = (number)end,
                .step = (number)step,
                .chunk = (number)chunk};

    (void)flags;
    run_region(&r);
}

bool GOMP_loop_nonmonotonic_dynamic_next(long *from, long *to)
{
    number first, last;

    if (!take(&first, &last))
        return false;
    *from = (long)first;
    *to = (long)last;
    return true;
}

/* All threads of a region pass the same loop, the only one of their region. */
bool GOMP_loop_ull_nonmonotonic_dynamic_start(bool up, number start, number end, number step,
                                              number chunk, number *from, number *to)
{
    enter_loop(up, start, end, step, chunk);
    return take(from, to);
}

bool GOMP_loop_ull_nonmonotonic_dynamic_next(number *from, number *to)
{
    return take(from, to);
}

void GOMP_loop_end_nowait(void)
{
}
