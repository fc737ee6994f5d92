/* kernels/amx.h - whether this process may use AMX's tiles with bfloat16. */
#ifndef KVSI_KERNELS_AMX_H
#define KVSI_KERNELS_AMX_H

/* Asks the kernel for permission, once per process, and tries one product.  Returns NULL, or why
 * AMX cannot be used. */
const char *kvsi_amx_missing(void);

#endif
