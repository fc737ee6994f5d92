#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal, save_signal, interrupted;

static void note_stop(int number)
{
    stop_signal = number;
}

static void note_save(int number)
{
    save_signal = number;
}

void kvsi_catch_stop(void)
{
    struct sigaction action = {.sa_handler = note_stop, .sa_flags = SA_RESTART | (int)SA_RESETHAND};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int kvsi_stop_signal(void)
{
    return stop_signal;
}

void kvsi_catch_save(void)
{
    struct sigaction action = {.sa_handler = note_save, .sa_flags = SA_RESTART};

    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

int kvsi_take_save_signal(void)
{
    const int noted = save_signal != 0;

    save_signal = 0;
    return noted;
}

/* The kernel may run the handler in any thread, also in one of the pool, and then a wait of the main
 * thread goes on.  So the handler writes a byte to a pipe, and the wait watches its other end. */
static int wake_read = -1, wake_write = -1;

static void note_interrupt(int number)
{
    const int before = errno;

    interrupted = number;
    if (write(wake_write, "", 1) < 0)
        errno = before; /* the pipe is full of such bytes */
}

static kvs_status open_wake_pipe(kvs_err *err)
{
    int ends[2];

    if (pipe(ends) != 0)
        return kvsi_fail(err, KVS_E_IO, "cannot make a pipe: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        if (fcntl(ends[i], F_SETFD, FD_CLOEXEC) != 0 || fcntl(ends[i], F_SETFL, O_NONBLOCK) != 0)
            return kvsi_fail(err, KVS_E_IO, "cannot set up a pipe: %s", strerror(errno));
    wake_read = ends[0];
    wake_write = ends[1];
    return KVS_OK;
}

kvs_status kvsi_catch_interrupts(kvs_err *err)
{
    struct sigaction action = {.sa_handler = note_interrupt};

    TRY(open_wake_pipe(err));
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    return KVS_OK;
}

int kvsi_wait_for_input(int fd)
{
    char bytes[64];

    while (!interrupted) {
        fd_set input;
        int ready;

        FD_ZERO(&input);
        FD_SET(fd, &input);
        FD_SET(wake_read, &input);
        ready = select((fd > wake_read ? fd : wake_read) + 1, &input, NULL, NULL, NULL);
        if (ready < 0 && errno != EINTR)
            return 1; /* reading will say what is wrong */
        if (ready > 0 && !FD_ISSET(wake_read, &input))
            return 1;
        while (read(wake_read, bytes, sizeof bytes) > 0) /* also bytes of interrupts taken before */
            continue;
    }
    return 0;
}

int kvsi_take_interrupt(void)
{
    const int noted = interrupted != 0;

    interrupted = 0;
    return noted;
}
