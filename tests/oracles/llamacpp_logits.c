/* Computes logits of a GGUF file with llama.cpp, for llamacpp_check.py:
 *
 *     llamacpp_logits MODEL tokens < TEXT      the text's ids, on one line
 *     llamacpp_logits MODEL logits ID...       the logits after each id, a line each
 */
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stay_quiet(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level >= GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
}

static int print_tokens(const struct llama_model *model)
{
    static char text[1 << 20];
    static llama_token ids[1 << 20];
    const size_t size = fread(text, 1, sizeof text, stdin);
    const int count = llama_tokenize(llama_model_get_vocab(model), text, (int32_t)size, ids,
                                     (int32_t)(sizeof ids / sizeof *ids), true, true);

    for (int i = 0; i < count; i++)
        printf("%d ", ids[i]);
    printf("\n");
    return count < 0;
}

static int print_logits(struct llama_model *model, int count, char **words)
{
    struct llama_context_params params = llama_context_default_params();
    const int vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    struct llama_context *context;

    params.n_ctx = 64;
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
    params.n_threads = params.n_threads_batch = 1;
    context = llama_init_from_model(model, params);
    for (int i = 0; context && i < count; i++) {
        llama_token id = (llama_token)strtol(words[i], NULL, 10);

        if (llama_decode(context, llama_batch_get_one(&id, 1)) != 0)
            return 1;
        for (int v = 0; v < vocab; v++)
            printf("%.9g ", (double)llama_get_logits_ith(context, -1)[v]);
        printf("\n");
    }
    return context == NULL;
}

int main(int argc, char **argv)
{
    struct llama_model_params params = llama_model_default_params();
    struct llama_model *model;

    if (argc < 3)
        return 2;
    llama_log_set(stay_quiet, NULL);
    llama_backend_init();
    model = llama_model_load_from_file(argv[1], params);
    if (!model)
        return 1;
    return strcmp(argv[2], "tokens") == 0 ? print_tokens(model)
                                          : print_logits(model, argc - 3, argv + 3);
}
