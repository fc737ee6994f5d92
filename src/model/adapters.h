/* model/adapters.h - which matrices have low-rank adapters.
 *
 * Adapters are for the linear matrices of layers.  They are chosen by a list of names with commas
 * between.  A name is the end of a matrix's name, in whole words between dots and without .weight:
 * "q_proj", or "layers.0.self_attn.q_proj".  In a pattern, * is any text and ? any character:
 * "layers.1?.*_proj". */
#ifndef KVSI_MODEL_ADAPTERS_H
#define KVSI_MODEL_ADAPTERS_H

#include "formats/families.h"
#include "model/parameters.h"

/* Whether the tensor is a linear matrix of a layer. */
int kvsi_is_linear(const kvsi_parameter *p);
/* Whether the list names the tensor, and the tensor is a linear matrix of a layer. */
int kvsi_is_adapted(const char *names, const kvsi_parameter *p);
/* The name of a matrix's A or B: that of the matrix with .lora_A or .lora_B before .weight. */
void kvsi_adapter_name(char out[KVSI_NAME_SIZE], const char *weight, kvsi_role role);

/* The family whose files the model without its adapters is written as, and so the names that their
 * matrices have there; NULL = our own.  A shift that was added makes a model our own. */
const kvsi_family *kvsi_adapters_family(const kvs_model_config *config);

/* Adds adapters to the configuration of a model that has none. */
kvs_status kvsi_adapters_add(kvs_model_config *config, const kvs_adapter_options *options,
                             kvs_err *err);

/* Fails if a name of the list has no matrix in the layout, or if the rank exceeds the width of one
 * that has an adapter. */
kvs_status kvsi_adapters_check(const kvsi_layout *layout, const kvsi_lora_config *lora,
                               kvs_err *err);

#endif
