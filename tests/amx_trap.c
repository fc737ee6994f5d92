#define _GNU_SOURCE /* the registers of a signal's context */
#include "amx_trap.h"

#if defined __x86_64__ && defined __linux__

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS_MAX = 16, ROW_BYTES_MAX = 64 };

typedef struct tile {
    unsigned rows, row_bytes;
    unsigned char data[ROWS_MAX][ROW_BYTES_MAX];
} tile;

/* The tiles of the thread. */
static _Thread_local tile tiles[TILES];

static atomic_ulong executed;
static struct sigaction before;

/* ---- decoding: VEX with three bytes, map 2, W 0, L 0; the ones that the kernels use ---- */

typedef struct instruction {
    unsigned opcode, pp, r, x, b, vvvv; /* r, x, b: bit 3 of the fields of modrm and sib */
    unsigned mod, reg, rm;
    size_t length;
    const unsigned char *address; /* memory operand without its index */
    int64_t stride;               /* its index */
} instruction;

/* Register `number` in the order of the encoding. */
static int64_t register_value(const ucontext_t *context, unsigned number)
{
    static const int order[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                  REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};

    return context->uc_mcontext.gregs[order[number]];
}

/* The memory operand after modrm at `at`; returns the bytes behind modrm. */
static size_t decode_address(instruction *i, const unsigned char *at, const ucontext_t *context)
{
    size_t used = 0;
    int64_t address = 0;
    int32_t wide = 0;

    if (i->rm == 4) {
        const unsigned sib = at[used++], index = (sib >> 3 & 7) + i->x, base = (sib & 7) + i->b;

        if (index != 4)
            i->stride = register_value(context, index) << (sib >> 6);
        if ((sib & 7) == 5 && i->mod == 0)
            i->mod = 2; /* no base, a displacement of 32 bits */
        else
            address = register_value(context, base);
    } else if (i->rm == 5 && i->mod == 0) {
        memcpy(&wide, at, sizeof wide); /* relative to the next instruction: opcode end + 4 */
        i->address = at + sizeof wide + wide;
        return sizeof wide;
    } else
        address = register_value(context, i->rm + i->b);
    if (i->mod == 1)
        address += (int8_t)at[used++];
    if (i->mod == 2) {
        memcpy(&wide, at + used, sizeof wide);
        address += wide;
        used += sizeof wide;
    }
    memcpy(&i->address, &address, sizeof address);
    return used;
}

static int decode(instruction *i, const unsigned char *at, const ucontext_t *context)
{
    *i = (instruction){0};
    if (at[0] != 0xc4 || (at[1] & 31) != 2 || (at[2] & 0x84) != 0)
        return 0;
    i->r = at[1] & 0x80 ? 0 : 8;
    i->x = at[1] & 0x40 ? 0 : 8;
    i->b = at[1] & 0x20 ? 0 : 8;
    i->vvvv = ~(unsigned)at[2] >> 3 & 15;
    i->pp = at[2] & 3;
    i->opcode = at[3];
    i->mod = at[4] >> 6;
    i->reg = (at[4] >> 3 & 7) + i->r;
    i->rm = at[4] & 7;
    i->length = 5;
    if (i->mod != 3)
        i->length += decode_address(i, at + 5, context);
    return 1;
}

/* ---- execution ---- */

static int load_configuration(const unsigned char *from)
{
    if (from[0] != 1) /* the palette */
        return 0;
    for (size_t t = 0; t < TILES; t++) {
        uint16_t row_bytes;

        memcpy(&row_bytes, from + 16 + 2 * t, sizeof row_bytes);
        tiles[t] = (tile){.rows = from[48 + t], .row_bytes = row_bytes};
        if (tiles[t].rows > ROWS_MAX || row_bytes > ROW_BYTES_MAX)
            return 0;
    }
    return 1;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static float flushed(float x)
{
    const uint32_t bits = bits_of(x);

    return float_of(bits & 0x7f800000 ? bits : bits & 0x80000000);
}

/* TDPBF16PS as its manual describes it, all columns of a row together. */
__attribute__((target("avx2,fma"))) static void multiply_tiles(tile *c, const tile *a,
                                                               const tile *b)
{
    enum { COLUMNS = ROW_BYTES_MAX / 4 };

    for (size_t m = 0; m < c->rows; m++) {
        float even[COLUMNS] = {0}, odd[COLUMNS] = {0}, sum[COLUMNS];

        for (size_t k = 0; k < a->row_bytes / 4; k++) {
            uint32_t x, y[COLUMNS];

            memcpy(&x, a->data[m] + 4 * k, sizeof x);
            memcpy(y, b->data[k], sizeof y);
            for (size_t n = 0; n < COLUMNS; n++) {
                even[n] = flushed(__builtin_fmaf(flushed(float_of(x << 16)),
                                                 flushed(float_of(y[n] << 16)), even[n]));
                odd[n] = flushed(__builtin_fmaf(flushed(float_of(x & 0xffff0000)),
                                                flushed(float_of(y[n] & 0xffff0000)), odd[n]));
            }
        }
        memcpy(sum, c->data[m], sizeof sum);
        for (size_t n = 0; n < COLUMNS; n++)
            sum[n] = flushed(flushed(sum[n]) + flushed(even[n] + odd[n]));
        memcpy(c->data[m], sum, c->row_bytes);
    }
}

/* pp: 0 none, 1 0x66, 2 0xf3, 3 0xf2 */
static int execute(const instruction *i)
{
    const int memory = i->mod != 3;
    const unsigned char *at = i->address;
    tile *t = &tiles[i->reg & 7];

    if (i->opcode == 0x49 && i->pp == 0 && memory)
        return load_configuration(at);
    if (i->opcode == 0x49 && i->pp == 0) { /* tilerelease */
        memset(tiles, 0, sizeof tiles);
        return 1;
    }
    if (i->opcode == 0x5c && i->pp == 2 && !memory) {
        multiply_tiles(t, &tiles[i->rm & 7], &tiles[i->vvvv & 7]);
        return t->rows > 0;
    }
    if (t->rows == 0) /* not configured */
        return 0;
    if (i->opcode == 0x49 && i->pp == 3 && !memory) { /* tilezero */
        memset(t->data, 0, sizeof t->data);
        return 1;
    }
    if (i->opcode != 0x4b || !memory)
        return 0;
    for (unsigned r = 0; r < t->rows; r++, at += i->stride)
        if (i->pp == 3)
            memcpy(t->data[r], at, t->row_bytes); /* tileloadd */
        else if (i->pp == 2)
            memcpy((void *)(uintptr_t)at, t->data[r], t->row_bytes); /* tilestored */
    return i->pp >= 2;
}

static void on_illegal_instruction(int number, siginfo_t *info, void *state)
{
    ucontext_t *context = state;
    greg_t *next = &context->uc_mcontext.gregs[REG_RIP];
    instruction i;

    (void)info;
    if (!decode(&i, (const unsigned char *)*next, context) || !execute(&i)) {
        static const char text[] = "an illegal instruction that is not of AMX\n";

        if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
            _exit(127);
        signal(number, SIG_DFL); /* the instruction runs again and ends the process */
        return;
    }
    *next += (greg_t)i.length;
    atomic_fetch_add(&executed, 1);
}

int amx_trap_start(void)
{
    struct sigaction ours = {.sa_sigaction = on_illegal_instruction, .sa_flags = SA_SIGINFO};

    sigemptyset(&ours.sa_mask);
    return sigaction(SIGILL, &ours, &before) == 0;
}

void amx_trap_stop(void)
{
    sigaction(SIGILL, &before, NULL);
}

unsigned long amx_trap_count(void)
{
    return atomic_load(&executed);
}

#else

int amx_trap_start(void)
{
    return 0;
}

void amx_trap_stop(void)
{
}

unsigned long amx_trap_count(void)
{
    return 0;
}

#endif
