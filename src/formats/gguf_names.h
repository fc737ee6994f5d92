/* formats/gguf_names.h - names of tensors in GGUF files.
 *
 *     token_embd.weight   position_embd.weight   output_norm.weight   output.weight (if not tied)
 *     blk.N.{attn_norm,attn_q,attn_k,attn_v,attn_output,ffn_norm,ffn_gate,ffn_up,ffn_down}.weight
 *     blk.N.{attn_q_norm,attn_k_norm}.weight   blk.N.attn_qkv.{weight,bias}, rows of q, k and v
 *     blk.N.{attn_q,attn_k,attn_v,attn_output,ffn_gate,ffn_up,ffn_down}.bias, and norms with .bias
 *     blk.N.{post_attention_norm,post_ffw_norm}.weight of families with norms after the branches
 *
 * N is a layer.  In phi3 ffn_up has the rows of gate and up.  Our own architecture also has
 *
 *     token_embd_norm.weight   blk.N.{pre_ffw_norm,post_ffw_norm}.weight
 *     blk.N.{attn_q_norm,attn_k_norm}.H.weight of head H
 *     blk.N.{attn_q_shift,attn_k_shift,attn_v_shift} */
#ifndef KVSI_FORMATS_GGUF_NAMES_H
#define KVSI_FORMATS_GGUF_NAMES_H

#include "formats/gguf_families.h"
#include "formats/tensor.h"

#include <stddef.h>

enum { KVSI_GGUF_NAME_SIZE = 128 }; /* enough for every translated name */

/* Fill `out` (KVSI_GGUF_NAME_SIZE bytes) and return 1, or return 0 if there is no such name in the
 * family's files.  Tensors that consist of several of ours have the names of kvsi_gguf_packed. */
int kvsi_gguf_name_to_ours(char *out, const char *theirs, const kvsi_gguf_family *family);
int kvsi_gguf_name_from_ours(char *out, const char *ours, const kvsi_gguf_family *family);

/* Whether it is the gain of a norm, under our name or GGUF's. */
int kvsi_gguf_is_gain(const kvsi_file_tensor *tensor);

#endif
