/* kernels/cpu/level.h - one source, several processors.
 *
 * Every file of this folder is compiled once per CPU level, with KVSI_LEVEL set to its name (as
 * a C identifier; KVSI_LEVEL_NAME is the string that users see) and compiler flags for its
 * instruction set.  LEVEL(f) is the name of f at that level. */
#ifndef KVSI_KERNELS_CPU_LEVEL_H
#define KVSI_KERNELS_CPU_LEVEL_H

#define KVSI_GLUE(level, name) kvsi_##level##_##name
#define KVSI_GLUE_EXPANDED(level, name) KVSI_GLUE(level, name)
#define LEVEL(name) KVSI_GLUE_EXPANDED(KVSI_LEVEL, name)

#endif
