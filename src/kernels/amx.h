/* kernels/amx.h - one product of AMX's tiles, to see that they work. */
#ifndef KVSI_KERNELS_AMX_H
#define KVSI_KERNELS_AMX_H

/* Executes the instructions once per process, for which the operating system must have granted
 * tiles.  Returns NULL, or why AMX cannot be used.  kvsi_cpu_lacks(KVSI_CPU_AMX) calls it. */
const char *kvsi_amx_try(void);

#endif
