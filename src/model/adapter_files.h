/* model/adapter_files.h - the low-rank adapters of a model in PEFT's layout:
 *
 *     adapter_config.json         rank, alpha, and the names of the matrices
 *     adapter_model.safetensors   A and B of each matrix, and the parameters of the shift
 *
 * Names of tensors are ours with a prefix.  PEFT loads the shift too, into a model that has one. */
#ifndef KVSI_MODEL_ADAPTER_FILES_H
#define KVSI_MODEL_ADAPTER_FILES_H

#include "model/model.h"

#define KVSI_ADAPTER_CONFIG "adapter_config.json"
#define KVSI_ADAPTER_WEIGHTS "adapter_model.safetensors"
#define KVSI_ADAPTER_PREFIX "base_model.model."

/* Writes both files into a folder, for a model with adapters. */
kvs_status kvsi_adapter_files_write(const kvs_model *model, const char *dir, kvs_err *err);

#endif
