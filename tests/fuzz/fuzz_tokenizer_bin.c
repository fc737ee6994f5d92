/* llama2.c's tokenizer.bin. */
#include "fuzz.h"

#include <string.h>

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_write("tokenizer.bin", data, size);
    return fuzz_use_tokenizer("tokenizer.bin", data, size, err);
}

void fuzz_seeds(void)
{
    static const char *const pieces[] = {"<unk>", "\n<s>\n", "\n</s>\n", "<0x0A>", "a",
                                         "b",     " ",       "aa",       " aa",    "\xc3\xa9"};
    kvsi_text file = {0};

    put_u32(&file, 6);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        const float score = (float)-(int)i;

        put_bytes(&file, &score, sizeof score);
        put_u32(&file, (uint32_t)strlen(pieces[i]));
        put_bytes(&file, pieces[i], strlen(pieces[i]));
    }
    fuzz_seed("pieces", &file);
}
