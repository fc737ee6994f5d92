/* formats/safetensors.h - tensors in a file: 8-byte little-endian header length, a JSON header
 * {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}, then the data.
 *
 * Input is untrusted: open checks the header size, types, shapes, offsets against the file and
 * against dtype x shape, gaps and overlaps. */
#ifndef KVSI_FORMATS_SAFETENSORS_H
#define KVSI_FORMATS_SAFETENSORS_H

#include "base/files.h"
#include "formats/tensor.h"

#include <stdint.h>

typedef struct kvsi_safetensors kvsi_safetensors;

kvs_status kvsi_safetensors_open(kvsi_safetensors **out, const char *path, kvs_err *err);
void kvsi_safetensors_close(kvsi_safetensors *file);
size_t kvsi_safetensors_count(const kvsi_safetensors *file);
const kvsi_file_tensor *kvsi_safetensors_at(const kvsi_safetensors *file, size_t index);
const kvsi_file_tensor *kvsi_safetensors_find(const kvsi_safetensors *file, const char *name);

/* Writes all tensors in the given order.  The file appears only when complete. */
kvs_status kvsi_safetensors_write(const char *path, const kvsi_file_tensor *tensors, size_t count,
                                  kvs_err *err);
/* The same for tensors that do not fit in memory: `put` appends the data of tensor `index`. */
typedef kvs_status kvsi_tensor_put(const void *self, size_t index, kvsi_new_file *file,
                                   kvs_err *err);
kvs_status kvsi_safetensors_write_parts(const char *path, const kvsi_file_tensor *tensors,
                                        size_t count, kvsi_tensor_put *put, const void *self,
                                        kvs_err *err);
/* The same for tensors that are produced one at a time.  Wider types come first, so that all data
 * is aligned. */
kvs_status kvsi_safetensors_write_source(const char *path, const kvsi_tensor_source *source,
                                         kvs_err *err);
/* Writes a model's weights: dir/model.safetensors or, above `shard_bytes` of data, shards with
 * Hugging Face's names (model-00001-of-00002.safetensors, ...) and model.safetensors.index.json,
 * which maps tensors to files.  A tensor larger than a shard gets its own file. */
kvs_status kvsi_safetensors_write_shards(const char *dir, const kvsi_tensor_source *source,
                                         uint64_t shard_bytes, kvs_err *err);

#endif
