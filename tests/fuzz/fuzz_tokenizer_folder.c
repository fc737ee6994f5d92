/* A tokenizer folder: its own file and Hugging Face's configuration files, all hostile. */
#include "fuzz.h"

#include <string.h>

static const char *const names[] = {"tokenizer.model",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "added_tokens.json",
                                    "special_tokens_map.json",
                                    "config.json",
                                    NULL};

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_unpack(names, data, size);
    return fuzz_use_tokenizer(".", data, size, err);
}

/* A SentencePiece model: a piece is {1: text, 2: score, 3: kind}, all shorter than 128 bytes. */
static void put_piece(kvsi_text *out, const char *text, char kind)
{
    const unsigned char size = (unsigned char)strlen(text);
    const unsigned char head[4] = {0x0a, (unsigned char)(size + 4), 0x0a, size};
    const char type[2] = {0x18, kind};

    put_bytes(out, head, sizeof head);
    put_bytes(out, text, size);
    put_bytes(out, type, sizeof type);
}

static void pack_model(kvsi_text *input)
{
    static const char *const pieces[] = {"<unk>", "<s>", "</s>", "\xe2\x96\x81", "a", "b", "ab"};
    static const char kinds[] = {2, 3, 3, 1, 1, 1, 4};
    kvsi_text file = {0};

    for (size_t i = 0; i < sizeof kinds; i++)
        put_piece(&file, pieces[i], kinds[i]);
    put_bytes(&file, "\x12\2\x18\2", 4); /* BPE */
    fuzz_pack(input, "tokenizer.model", file.data, file.length);
    kvsi_text_release(&file);
}

static void pack(kvsi_text *input, const char *name, const char *text)
{
    fuzz_pack(input, name, text, strlen(text));
}

void fuzz_seeds(void)
{
    kvsi_text input = {0};

    pack_model(&input);
    pack(&input, "tokenizer_config.json",
         "{\"add_bos_token\": false, \"add_eos_token\": true, \"added_tokens_decoder\": {\"7\": "
         "{\"content\": \"<x>\", \"special\": true, \"lstrip\": true, \"rstrip\": true}, \"6\": "
         "{\"content\": \"ab\"}}, \"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"<x>\"}, "
         "\"pad_token\": \"<p>\", \"model_max_length\": 1000000000000000019884624838656}");
    pack(&input, "config.json", "{\"vocab_size\": 9}");
    fuzz_seed("decoder", &input);
    pack_model(&input);
    pack(&input, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}");
    pack(&input, "special_tokens_map.json",
         "{\"eos_token\": \"<e>\", \"additional_special_tokens\": [\"<y>\", {\"content\": "
         "\"a\"}]}");
    pack(&input, "added_tokens.json", "{\"<e>\": 8, \"<x>\": 7}");
    fuzz_seed("older", &input);
    pack(&input, "tokenizer.json",
         "{\"added_tokens\": [{\"id\": 1, \"content\": \"<e>\", \"special\": true}], \"model\": "
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}");
    pack(&input, "tokenizer_config.json", "{\"eos_token\": \"<e>\", \"bos_token\": \"a\"}");
    fuzz_seed("json", &input);
}
