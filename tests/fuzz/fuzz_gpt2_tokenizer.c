/* GPT-2's encoder.json and vocab.bpe, or vocab.json and merges.txt. */
#include "fuzz.h"

#include <string.h>

static const char *const names[] = {"encoder.json", "vocab.bpe", "vocab.json", "merges.txt", NULL};

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_unpack(names, data, size);
    return fuzz_use_tokenizer(".", data, size, err);
}

void fuzz_seeds(void)
{
    static const char vocab[] =
        "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\304\240\": 3, \"\304\240a\": 4, "
        "\"<|endoftext|>\": 5}";
    static const char merges[] = "#version: 0.2\na b\n\304\240 a\r\n";

    for (size_t i = 0; i < 4; i += 2) {
        kvsi_text input = {0};

        fuzz_pack(&input, names[i], vocab, strlen(vocab));
        fuzz_pack(&input, names[i + 1], merges, strlen(merges));
        fuzz_seed(names[i], &input);
    }
}
