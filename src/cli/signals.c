#include "cli/signals.h"

#include <signal.h>
#include <stddef.h>

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

int kvsi_take_interrupt(void)
{
    const int noted = interrupted != 0;

    interrupted = 0;
    return noted;
}
