/* A folder of low-rank adapters in PEFT's layout, which is merged into a model that is valid. */
#include "base/files.h"
#include "base/memory.h"
#include "fuzz.h"
#include "kvshift/kvshift_files.h"
#include "model/adapter_files.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {KVSI_ADAPTER_CONFIG, KVSI_ADAPTER_WEIGHTS, NULL};

static const kvs_model_config base = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)};

/* Writes the model once. */
static void write_base(void)
{
    static int written;
    int made;
    kvs_model *model;

    if (written)
        return;
    model = fuzz_model(&base);
    fuzz_expect(kvsi_dir_make("base", &made, NULL) == KVS_OK, "there is a folder");
    fuzz_expect(kvs_model_save(model, "base", NULL) == KVS_OK, "the base is written");
    kvs_model_free(model);
    written = 1;
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    kvs_convert_options options;

    write_base();
    fuzz_unpack(names, data, size);
    kvs_convert_options_init(&options, sizeof options);
    options.merge = 1;
    options.base = "base";
    options.overwrite = 1;
    options.threads = 1;
    return kvs_convert("out", ".", &options, err);
}

static void pack_file(kvsi_text *input, const char *name)
{
    char *path = kvsi_path_join("adapter", name), *bytes = NULL;
    size_t size = 0;

    fuzz_expect(kvsi_file_read(&bytes, &size, path, 1 << 20, NULL) == KVS_OK, "a file is read");
    fuzz_pack(input, name, bytes, size);
    kvsi_free(bytes);
    kvsi_free(path);
}

static void seed(const char *name, const char *on)
{
    kvs_model_config special = base;
    kvsi_text input = {0};
    kvs_model *model;
    int made;

    special.lora.rank = 2;
    special.lora.alpha = 3;
    strncpy(special.lora.on, on, sizeof special.lora.on - 1);
    model = fuzz_model(&special);
    fuzz_expect(kvsi_dir_make("adapter", &made, NULL) == KVS_OK, "there is a folder");
    fuzz_expect(kvsi_adapter_files_write(model, "adapter", NULL) == KVS_OK, "adapters are written");
    for (size_t i = 0; names[i]; i++)
        pack_file(&input, names[i]);
    fuzz_seed(name, &input);
    kvs_model_free(model);
}

void fuzz_seeds(void)
{
    seed("one", "q_proj");
    seed("all", "*_proj");
}
