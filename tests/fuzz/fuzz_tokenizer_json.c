/* tokenizer.json, with every kind of component. */
#include "fuzz.h"

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    fuzz_write("tokenizer.json", data, size);
    return fuzz_use_tokenizer("tokenizer.json", data, size, err);
}

void fuzz_seeds(void)
{
    fuzz_seed_text(
        "byte-level",
        "{\"added_tokens\": [{\"id\": 4, \"content\": \"<s>\", \"special\": true, \"lstrip\": "
        "true, \"single_word\": false}], \"normalizer\": null, \"pre_tokenizer\": {\"type\": "
        "\"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}, \"decoder\": {\"type\": "
        "\"ByteLevel\"}, \"post_processor\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": "
        "\"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"\xc4\xa0\": 3}, \"merges\": [\"a "
        "b\"], \"ignore_merges\": true}}");
    fuzz_seed_text(
        "llama",
        "{\"added_tokens\": [{\"id\": 0, \"content\": \"<unk>\", \"special\": true}, {\"id\": 1, "
        "\"content\": \"<s>\", \"special\": true}], \"normalizer\": {\"type\": \"Sequence\", "
        "\"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"\xe2\x96\x81\"}, {\"type\": "
        "\"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}]}, "
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": "
        "{\"id\": \"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\"}}], "
        "\"special_tokens\": {\"<s>\": {\"id\": \"<s>\", \"ids\": [1]}}}, \"decoder\": {\"type\": "
        "\"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": "
        "\"\xe2\x96\x81\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": "
        "\"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}, "
        "\"model\": {\"unk_token\": \"<unk>\", \"fuse_unk\": true, \"byte_fallback\": true, "
        "\"vocab\": {\"<unk>\": 0, \"<s>\": 1, \"<0x0A>\": 2, \"\xe2\x96\x81\": 3, \"a\": 4, "
        "\"aa\": 5}, \"merges\": [[\"a\", \"a\"]]}}");
    fuzz_seed_text(
        "steps",
        "{\"added_tokens\": [{\"id\": 9, \"content\": \"AB\", \"normalized\": true, \"rstrip\": "
        "true}], \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
        "\"NFKC\"}, {\"type\": \"NFD\"}, {\"type\": \"Lowercase\"}, {\"type\": \"Strip\", "
        "\"strip_left\": true, \"strip_right\": false}, {\"type\": \"Replace\", \"pattern\": "
        "{\"Regex\": \" +\"}, \"content\": \" \"}]}, \"pre_tokenizer\": {\"type\": \"Sequence\", "
        "\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": "
        "\"\\\\p{L}+|[^\\\\s\\\\w]|\\\\s+(?!\\\\S)\"}, \"behavior\": \"MergedWithPrevious\", "
        "\"invert\": false}, {\"type\": \"Digits\", \"individual_digits\": true}, {\"type\": "
        "\"Punctuation\", \"behavior\": \"Isolated\"}, {\"type\": \"Metaspace\", \"replacement\": "
        "\"_\", \"prepend_scheme\": \"first\", \"split\": true}]}, \"decoder\": {\"type\": "
        "\"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\"}, \"model\": "
        "{\"type\": \"BPE\", \"dropout\": null, \"vocab\": {\"_\": 0, \"a\": 1, \"b\": 2, \"_a\": "
        "3, \"1\": 4}, \"merges\": [\"_ a\"]}}");
    fuzz_seed_text(
        "others",
        "{\"added_tokens\": [{\"id\": 2, \"content\": \"ab\", \"single_word\": true}], "
        "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": "
        "\"BAAAAAAAAAB4AA==\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
        "[{\"type\": \"WhitespaceSplit\"}, {\"type\": \"Whitespace\"}]}, \"model\": {\"vocab\": "
        "{\"a\": 0, \"b\": 1}, \"merges\": []}}");
}
