/* kernels/cpu_features.h - which instructions this processor and its operating system can run.
 *
 * The only place that asks: levels (kernels/levels.c) and probes of the machine need features. */
#ifndef KVSI_KERNELS_CPU_FEATURES_H
#define KVSI_KERNELS_CPU_FEATURES_H

typedef enum kvsi_cpu_feature {
    KVSI_CPU_ANY,         /* nothing beyond what the compiler assumes */
    KVSI_CPU_AVX2,        /* with FMA and F16C */
    KVSI_CPU_AVX512,      /* AVX2 and AVX-512 F, BW, DQ, VL, VNNI */
    KVSI_CPU_AVX512_BF16, /* AVX512 and VDPBF16PS */
    KVSI_CPU_AMX,         /* AVX512_BF16 and tiles with products of bf16 and of int8 */
    KVSI_CPU_FEATURES,
} kvsi_cpu_feature;

/* NULL if the feature can be used, otherwise why not ("no AMX").  Tiles must be granted by the
 * operating system: asking for KVSI_CPU_AMX requests them for all threads of the process.  Every
 * call executes CPUID, which is slow on a virtual machine; keep the answer. */
const char *kvsi_cpu_lacks(kvsi_cpu_feature feature);

/* The maker and the kind of processor; "" and 0 if it is not x86. */
typedef struct kvsi_cpu_kind {
    char vendor[13];        /* "GenuineIntel", "AuthenticAMD" */
    unsigned family, model; /* extended fields are added */
} kvsi_cpu_kind;

kvsi_cpu_kind kvsi_cpu_identify(void);

#endif
