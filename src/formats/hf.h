/* formats/hf.h - config.json as Hugging Face writes it for the families of families.c, or that of
 * Llama or GPT-2 with one "kvshift" object for what those two do not have:
 *
 *     "kvshift": {"targets": "kv", "form": "free", "window": 1, "init": "uniform"}
 *
 * Models of a family have no such object, so that other tools read them.  All others name the
 * architecture "KVShiftForCausalLM", so that those tools refuse them instead of running them
 * wrongly.  The object has the settings of config/model.c for which Hugging Face has no key; each
 * may be left out and then has the plain model's value. */
#ifndef KVSI_FORMATS_HF_H
#define KVSI_FORMATS_HF_H

#include "formats/families.h"

/* A new reference; NULL if memory runs out. */
json_t *kvsi_hf_config_to_json(const kvs_model_config *config);
/* The same as other programs read it, for files of models: in the layout of the family that the
 * model was read from, or else of the first one that can have all of its settings; otherwise ours.
 * `family` becomes that family, NULL for ours. */
json_t *kvsi_hf_config_to_family_json(const kvs_model_config *config, const kvsi_family **family);
/* `what` names the source in messages.  The result is checked (kvs_model_config_finish). */
kvs_status kvsi_hf_config_from_json(kvs_model_config *out, const json_t *object, const char *what,
                                    kvs_err *err);

/* The setting of a key of config.json or of the object in it; NULL if the key is not a setting. */
const kvsi_setting *kvsi_hf_setting(const char *key, kvsi_body body);

kvs_status kvsi_hf_config_write(const kvs_model_config *config, const char *path, kvs_err *err);

#endif
