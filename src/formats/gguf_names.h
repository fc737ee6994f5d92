/* formats/gguf_names.h - what GGUF files of the architectures llama and kvshift call tensors and
 * settings.
 *
 * Settings, below the architecture's name ("llama.context_length"):
 *
 *     context_length, embedding_length, block_count, feed_forward_length, vocab_size
 *     attention.head_count, attention.head_count_kv, attention.layer_norm_rms_epsilon
 *     rope.freq_base, rope.dimension_count
 *
 * Architecture llama is the plain Llama: its q and k have each head's rotary pairs side by side.
 * Architecture kvshift is everything else with a Llama body.  It has the keys above too, but
 * "kvshift.config", the text of our config.json, is what counts; without it the file is read as a
 * plain model.  Its rows are in our order, half a head apart.
 *
 * Tensors (N is a layer):
 *
 *     token_embd.weight   position_embd.weight   output_norm.weight   output.weight (if not tied)
 *     blk.N.{attn_norm,attn_q,attn_k,attn_v,attn_output,ffn_norm,ffn_gate,ffn_up,ffn_down}.weight
 *     blk.N.{attn_q_shift,attn_k_shift,attn_v_shift} */
#ifndef KVSI_FORMATS_GGUF_NAMES_H
#define KVSI_FORMATS_GGUF_NAMES_H

#include <stddef.h>

enum { KVSI_GGUF_NAME_SIZE = 128 }; /* enough for every name that is translated, either way */

/* Each fills `out` of KVSI_GGUF_NAME_SIZE bytes and returns 1, or returns 0 for a name that the
 * other side does not have. */
int kvsi_gguf_name_to_ours(char *out, const char *theirs);
int kvsi_gguf_name_from_ours(char *out, const char *ours);

#endif
