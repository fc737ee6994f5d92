/* formats/hf_positions.h - rotary positions and sliding windows in config.json, which version 4 and
 * version 5 of transformers write differently. */
#ifndef KVSI_FORMATS_HF_POSITIONS_H
#define KVSI_FORMATS_HF_POSITIONS_H

#include "formats/families.h"

/* Whether the object has the key with a value other than null. */
int kvsi_hf_is_given(const json_t *object, const char *key);

/* Reads the keys of positions and windows; the other settings have been read. */
kvs_status kvsi_hf_positions_read(kvs_model_config *config, const json_t *object,
                                  const kvsi_family *family, const char *what, kvs_err *err);
/* Adds the keys; returns nonzero if memory runs out.  The base is written by hf.c. */
int kvsi_hf_positions_write(json_t *object, const kvs_model_config *config,
                            const kvsi_family *family);

#endif
