/* The vocabulary in a GGUF file. */
#include "fuzz.h"

#include <string.h>

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_write("file", data, size);
    return fuzz_use_tokenizer("file", data, size, err);
}

/* GGUF value types. */
enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, TEXT = 8, ARRAY = 9 };

static void put_text(kvsi_text *file, const char *text)
{
    put_u64(file, strlen(text));
    put_bytes(file, text, strlen(text));
}

static void put_key(kvsi_text *file, const char *key, uint32_t type)
{
    put_text(file, key);
    put_u32(file, type);
    patch(file, 16, (unsigned char)file->data[16] + 1U, 8); /* one more key */
}

static void put_array(kvsi_text *file, const char *key, uint32_t type, uint64_t count)
{
    put_key(file, key, ARRAY);
    put_u32(file, type);
    put_u64(file, count);
}

static void put_texts(kvsi_text *file, const char *key, const char *const *texts, size_t count)
{
    put_array(file, key, TEXT, count);
    for (size_t i = 0; i < count; i++)
        put_text(file, texts[i]);
}

static void begin(kvsi_text *file, const char *model)
{
    put_bytes(file, "GGUF", 4);
    put_u32(file, 3);
    put_u64(file, 0);
    put_u64(file, 0);
    put_key(file, "tokenizer.ggml.model", TEXT);
    put_text(file, model);
}

/* The ids of BOS and EOS, and the flags that add them. */
static void end(kvsi_text *file, uint32_t bos)
{
    put_key(file, "tokenizer.ggml.bos_token_id", U32);
    put_u32(file, bos);
    put_key(file, "tokenizer.ggml.eos_token_id", U32);
    put_u32(file, 2);
    put_key(file, "tokenizer.ggml.add_bos_token", BOOL);
    put_bytes(file, "\1", 1);
}

static void seed_scored(void)
{
    static const char *const tokens[] = {"<unk>", "<s>", "</s>",         "<0x0A>",
                                         "a",     "aa",  "\342\226\201", "\342\226\201a"};
    static const uint32_t kinds[] = {2, 3, 3, 6, 1, 1, 1, 4};
    enum { COUNT = sizeof kinds / sizeof *kinds };
    kvsi_text file = {0};

    begin(&file, "llama");
    put_texts(&file, "tokenizer.ggml.tokens", tokens, COUNT);
    put_array(&file, "tokenizer.ggml.scores", F32, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        put_bytes(&file, &(float){(float)-(int)i}, 4);
    put_array(&file, "tokenizer.ggml.token_type", I32, COUNT);
    for (size_t i = 0; i < COUNT; i++)
        put_u32(&file, kinds[i]);
    end(&file, 1);
    fuzz_seed("scored", &file);
}

static void seed_byte_level(const char *pre)
{
    static const char *const tokens[] = {"a", "b", "<|endoftext|>", "ab", "\304\240", "\304\240ab"};
    static const char *const merges[] = {"a b", "\304\240 ab"};
    static const uint32_t kinds[] = {1, 1, 3, 1, 1, 4};
    kvsi_text file = {0};

    begin(&file, "gpt2");
    put_key(&file, "tokenizer.ggml.pre", TEXT);
    put_text(&file, pre);
    put_texts(&file, "tokenizer.ggml.tokens", tokens, 6);
    put_texts(&file, "tokenizer.ggml.merges", merges, 2);
    put_array(&file, "tokenizer.ggml.token_type", I32, 6);
    for (size_t i = 0; i < 6; i++)
        put_u32(&file, kinds[i]);
    end(&file, 2);
    fuzz_seed(pre, &file);
}

void fuzz_seeds(void)
{
    seed_scored();
    seed_byte_level("gpt-2");
    seed_byte_level("llama-bpe");
}
