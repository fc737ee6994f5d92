/* formats/gguf_names.h - names of tensors and settings in GGUF files of architectures llama and
 * kvshift.
 *
 * Settings, prefixed by the architecture's name ("llama.context_length"):
 *
 *     context_length, embedding_length, block_count, feed_forward_length, vocab_size
 *     attention.head_count, attention.head_count_kv, attention.layer_norm_rms_epsilon
 *     rope.freq_base, rope.dimension_count
 *
 * Architecture llama is the plain Llama; in its q and k, the rows of each rotary pair are adjacent.
 * Architecture kvshift is every other model with a Llama body.  It has the same keys, but
 * "kvshift.config", the text of our config.json, takes precedence; without it the file is read as a
 * plain model.  Its rows are in our order: the rows of a pair are half a head apart.
 *
 * Tensors (N is a layer):
 *
 *     token_embd.weight   position_embd.weight   output_norm.weight   output.weight (if not tied)
 *     blk.N.{attn_norm,attn_q,attn_k,attn_v,attn_output,ffn_norm,ffn_gate,ffn_up,ffn_down}.weight
 *     blk.N.{pre_ffw_norm,post_ffw_norm}.weight, and all norms with .bias
 *     blk.N.{attn_q,attn_k,attn_v,attn_output,ffn_gate,ffn_up,ffn_down}.bias
 *     blk.N.{attn_q_norm,attn_k_norm}.weight, or blk.N.{attn_q_norm,attn_k_norm}.H.weight of head H
 *     blk.N.{attn_q_shift,attn_k_shift,attn_v_shift} */
#ifndef KVSI_FORMATS_GGUF_NAMES_H
#define KVSI_FORMATS_GGUF_NAMES_H

#include <stddef.h>

enum { KVSI_GGUF_NAME_SIZE = 128 }; /* enough for every translated name */

/* Fill `out` (KVSI_GGUF_NAME_SIZE bytes) and return 1, or return 0 if there is no such name. */
int kvsi_gguf_name_to_ours(char *out, const char *theirs);
int kvsi_gguf_name_from_ours(char *out, const char *ours);

#endif
