#include "formats/hf_python.h"

#include "base/files.h"
#include "base/memory.h"

const char kvsi_hf_python_name[] = "modeling_kvshift.py";

static const char text[] = {
#include "formats/modeling_kvshift.inc"
    '\0'};

static const char AUTO_MAP[] = "auto_map";

int kvsi_hf_python_refer(json_t *config, kvsi_body body)
{
    const int gpt2 = body == KVSI_BODY_GPT2;

    if (!json_object_get(config, "kvshift"))
        return 0;
    return json_object_set_new(
        config, AUTO_MAP,
        json_pack("{s:s, s:s, s:s}", "AutoConfig",
                  gpt2 ? "modeling_kvshift.KVShiftGPT2Config" : "modeling_kvshift.KVShiftConfig",
                  "AutoModel",
                  gpt2 ? "modeling_kvshift.KVShiftGPT2Model" : "modeling_kvshift.KVShiftModel",
                  "AutoModelForCausalLM",
                  gpt2 ? "modeling_kvshift.KVShiftGPT2ForCausalLM"
                       : "modeling_kvshift.KVShiftForCausalLM"));
}

kvs_status kvsi_hf_python_write(const char *dir, const json_t *config, kvs_err *err)
{
    char *path;
    kvs_status st;

    if (!json_object_get(config, AUTO_MAP))
        return KVS_OK;
    path = kvsi_path_join(dir, kvsi_hf_python_name);
    if (!path)
        return kvsi_no_memory(err, "'%s'", dir);
    st = kvsi_file_write_text(path, text, err);
    kvsi_free(path);
    return st;
}
