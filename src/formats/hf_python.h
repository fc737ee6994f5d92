/* formats/hf_python.h - the Python file with which transformers runs our own models,
 * python/modeling_kvshift.py.  A folder with such a model contains it, and its config.json names
 * the classes ("auto_map"). */
#ifndef KVSI_FORMATS_HF_PYTHON_H
#define KVSI_FORMATS_HF_PYTHON_H

#include "base/json.h"
#include "config/config.h"

extern const char kvsi_hf_python_name[];

/* Adds "auto_map" if the configuration is that of a model of ours; returns 0, or -1 if memory runs
 * out. */
int kvsi_hf_python_refer(json_t *config, kvsi_body body);
/* Writes the file into a folder if `config` refers to it. */
kvs_status kvsi_hf_python_write(const char *dir, const json_t *config, kvs_err *err);

#endif
