/* Files for training: conversations with a chat template, prompts with responses, and texts. */
#include "fuzz.h"
#include "kvshift/kvshift_files.h"

#include <string.h>

static const char template[] = "{{ tools }}{% for m in messages %}<{{ m.role }}>{{ m.content }}#\n"
                               "{% endfor %}{{ '<assistant>' if add_generation_prompt }}";

static void draw(const kvs_data *data)
{
    int32_t ids[256], targets[256];
    uint8_t scored[256];

    fuzz_expect(kvs_data_max_length(data) <= 256, "no sequence is longer than the longest");
    for (uint64_t i = 0; i < 3; i++) {
        const size_t length = kvs_data_sequence(ids, targets, scored, data, 1, KVS_STREAM_TRAIN, i);
        size_t losses = 0;

        for (size_t row = 0; row < length; row++)
            losses += targets[row] >= 0;
        fuzz_expect(losses > 0, "every sequence has a loss");
    }
}

/* The first byte selects the loss, the second the longest sequence; the rest is the file. */
kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    kvs_records_options how;
    kvs_tokenizer *tokenizer = NULL;
    kvs_chat_template *chat = NULL;
    kvs_data *made = NULL;
    kvs_status st;

    if (size < 2 || size > 1 << 14)
        return KVS_OK;
    kvs_records_options_init(&how, sizeof how);
    how.loss_all = data[0] & 1;
    how.fraction = data[0] & 2 ? 0.5 : 0;
    how.length = (size_t)(unsigned char)data[1] + 1;
    fuzz_write("a.jsonl", data + 2, size - 2);
    st = kvs_tokenizer_load(&tokenizer, "bytes", err);
    if (st == KVS_OK)
        st = kvs_chat_template_create(&chat, template, strlen(template), err);
    how.tokenizer = tokenizer;
    how.chat_template = chat;
    if (st == KVS_OK)
        st = kvs_data_create_records(&made, NULL, "a.jsonl", &how, err);
    if (st == KVS_OK)
        draw(made);
    kvs_data_free(made);
    kvs_chat_template_free(chat);
    kvs_tokenizer_free(tokenizer);
    return st;
}

static void seed(const char *name, const char *first, const char *text)
{
    kvsi_text input = {0};

    put_bytes(&input, first, 2);
    put_bytes(&input, text, strlen(text));
    fuzz_seed(name, &input);
}

void fuzz_seeds(void)
{
    seed(
        "pairs", "0z",
        "{\"prompt\": \"a\", \"response\": \"b\"}\n\n{\"prompt\": \"\", \"response\": \"cd\"}\r\n");
    seed("messages", "2z",
         "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", "
         "\"content\": \"x\"}]}\n{\"tools\": [1], \"messages\": [{\"role\": \"assistant\", "
         "\"content\": null, \"tool_calls\": []}]}\n");
    seed("all", "1z", "{\"messages\": [{\"role\": \"user\", \"content\": \"\xc3\xa9\"}]}");
    seed("text", "0z", "\xef\xbb\xbf{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
}
