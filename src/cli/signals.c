#include "cli/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/select.h>

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

static void note_interrupt(int number)
{
    interrupted = number;
}

void kvsi_catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = note_interrupt};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

int kvsi_wait_for_input(int fd)
{
    sigset_t blocked, before;
    fd_set input;
    int ready;

    /* SIGINT is delivered inside pselect only, so none falls between the test and the wait. */
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGINT);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    do {
        FD_ZERO(&input);
        FD_SET(fd, &input);
        ready = interrupted ? 0 : pselect(fd + 1, &input, NULL, NULL, NULL, &before);
    } while (ready < 0 && errno == EINTR && !interrupted);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ready != 0;
}

int kvsi_take_interrupt(void)
{
    const int noted = interrupted != 0;

    interrupted = 0;
    return noted;
}
