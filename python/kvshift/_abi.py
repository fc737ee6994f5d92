"""Declarations of kvshift.h and kvshift_files.h for ctypes.  Made by script/bindings from include/kvshift; do not edit."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32,
                    c_int64, c_size_t, c_uint, c_uint8, c_uint64, c_void_p)

KVS_VERSION_MAJOR = 0
KVS_VERSION_MINOR = 2
KVS_VERSION_PATCH = 0
KVS_OK = 0
KVS_E_INVALID = -1
KVS_E_NOMEM = -2
KVS_E_IO = -3
KVS_E_FORMAT = -4
KVS_E_UNSUPPORTED = -5
KVS_E_LIMIT = -6
KVS_E_DIVERGED = -7
KVS_E_EXISTS = -8
KVS_E_STOPPED = -9
KVS_ENCODE_NO_SPECIAL = 1
KVS_DTYPE_KEEP = 0
KVS_DTYPE_F32 = 1
KVS_DTYPE_F16 = 2
KVS_DTYPE_BF16 = 3
KVS_DTYPE_Q8_0 = 4
KVS_DTYPE_Q4_0 = 5
KVS_SHIFT_K = 1
KVS_SHIFT_V = 2
KVS_SHIFT_Q = 4
KVS_SCORE_STEP_BY_STEP = 1
KVS_FINISH_LENGTH = 0
KVS_FINISH_EOS = 1
KVS_FINISH_STOP = 2
KVS_FINISH_FULL = 3
KVS_STREAM_TRAIN = 0
KVS_STREAM_EVAL = 1
KVS_LENGTH_BUCKETS_MAX = 4
KVS_FORMAT_AUTO = 0
KVS_FORMAT_HF = 1
KVS_FORMAT_GGUF = 2
KVS_FORMAT_GGUF_LLAMA = 3
KVS_FORMAT_LLAMA2C = 4
KVS_FORMAT_LLAMA2C_V1 = 5
KVS_EOS_AUTO = 0
KVS_EOS_NO = 1
KVS_EOS_YES = 2
KVS_SPLIT_TRAIN = 0
KVS_SPLIT_VALID = 1
KVS_SPLIT_NONE = 0
KVS_SPLIT_BY_DOCUMENT = 1
KVS_SPLIT_BY_POSITION = 2
KVS_RECORD_TEXT = 0
KVS_RECORD_PAIR = 1
KVS_RECORD_MESSAGES = 2
KVS_RESUME_NEVER = 0
KVS_RESUME_ALWAYS = 1
KVS_RESUME_AUTO = 2
KVS_PROGRESS_STOP = 1
KVS_PROGRESS_SAVE = 2


class kvs_comm(Structure):
    """A handle."""


class kvs_runtime(Structure):
    """A handle."""


class kvs_tokenizer(Structure):
    """A handle."""


class kvs_detokenizer(Structure):
    """A handle."""


class kvs_model_config(Structure):
    """A handle."""


class kvs_train_config(Structure):
    """A handle."""


class kvs_model(Structure):
    """A handle."""


class kvs_session(Structure):
    """A handle."""


class kvs_runner(Structure):
    """A handle."""


class kvs_sampler(Structure):
    """A handle."""


class kvs_data(Structure):
    """A handle."""


class kvs_trainer(Structure):
    """A handle."""


class kvs_chat_template(Structure):
    """A handle."""


class kvs_documents(Structure):
    """A handle."""


class kvs_corpus(Structure):
    """A handle."""


class kvs_err(Structure):
    _fields_ = [
        ("status", c_int),
        ("message", c_char * 512),
    ]


class kvs_build_info(Structure):
    _fields_ = [
        ("version", c_char_p),
        ("commit", c_char_p),
        ("compiler", c_char_p),
        ("openmp", c_char_p),
    ]


class kvs_runtime_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("cpu_level", c_char_p),
        ("threads", c_int),
        ("shard_parameters", c_int),
        ("comm", POINTER(kvs_comm)),
        ("exact", c_int),
        ("precision", c_char_p),
    ]


class kvs_setting(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("type", c_char_p),
        ("group", c_char_p),
        ("help", c_char_p),
        ("value", c_char_p),
        ("automatic", c_char_p),
        ("choices", POINTER(c_char_p)),
        ("low", c_double),
        ("high", c_double),
        ("open_low", c_int),
        ("open_high", c_int),
        ("changes_result", c_int),
        ("may_change", c_int),
    ]


class kvs_load_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("mapped", c_int),
    ]


class kvs_adapter_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("rank", c_size_t),
        ("alpha", c_double),
        ("on", c_char_p),
        ("seed", c_uint64),
    ]


class kvs_activation(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("values", POINTER(c_float)),
        ("rank", c_size_t),
        ("shape", c_size_t * 4),
    ]


class kvs_session_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("capacity", c_size_t),
        ("cache", c_int),
        ("runner", POINTER(kvs_runner)),
    ]


class kvs_runner_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("sequences", c_size_t),
        ("tokens", c_size_t),
    ]


class kvs_feed(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("session", POINTER(kvs_session)),
        ("ids", POINTER(c_int32)),
        ("count", c_size_t),
        ("logits", POINTER(c_float)),
        ("targets", POINTER(c_int32)),
        ("logprobs", POINTER(c_double)),
        ("own_logprobs", POINTER(c_double)),
        ("best", POINTER(c_int32)),
        ("top", c_size_t),
        ("top_ids", POINTER(c_int32)),
        ("top_logprobs", POINTER(c_double)),
    ]


class kvs_sampling(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("temperature", c_double),
        ("top_k", c_size_t),
        ("top_p", c_double),
        ("min_p", c_double),
        ("seed", c_uint64),
        ("repeat_penalty", c_double),
        ("repeat_last", c_size_t),
    ]


class kvs_generated(Structure):
    _fields_ = [
        ("index", c_size_t),
        ("id", c_int32),
        ("ends", c_int),
        ("logprob", c_double),
        ("text", c_void_p),
        ("text_size", c_size_t),
    ]


class kvs_generate_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("max_tokens", c_size_t),
        ("sampling", POINTER(kvs_sampling)),
        ("tokenizer", POINTER(kvs_tokenizer)),
        ("stops", POINTER(c_char_p)),
        ("stop_count", c_size_t),
        ("ignore_eos", c_int),
        ("logprobs", c_int),
        ("token", CFUNCTYPE(c_int, c_void_p, POINTER(kvs_generated))),
        ("user", c_void_p),
    ]


class kvs_batch(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("sequences", c_size_t),
        ("starts", POINTER(c_size_t)),
        ("ids", POINTER(c_int32)),
        ("targets", POINTER(c_int32)),
        ("mask", POINTER(c_uint8)),
        ("scored", POINTER(c_uint8)),
    ]


class kvs_data_source(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("vocab", c_size_t),
        ("max_length", c_size_t),
        ("mean_length", c_double),
        ("name", c_char_p),
        ("sequence", CFUNCTYPE(c_size_t, c_void_p, c_uint64, c_int, c_uint64, POINTER(c_int32),
            POINTER(c_int32), POINTER(c_uint8))),
        ("user", c_void_p),
    ]


class kvs_shift_mean(Structure):
    _fields_ = [
        ("sum", c_double),
        ("current", c_double),
    ]


class kvs_step_record(Structure):
    _fields_ = [
        ("step", c_uint64),
        ("loss", c_double),
        ("accuracy", c_double),
        ("lr", c_double),
        ("grad_norm", c_double),
        ("eval_loss", c_double),
        ("eval_accuracy", c_double),
        ("k_shift", kvs_shift_mean),
        ("v_shift", kvs_shift_mean),
        ("q_shift", kvs_shift_mean),
        ("tokens", c_size_t),
        ("seconds", c_double),
        ("sending", c_double),
        ("waiting", c_double),
    ]


class kvs_length_bucket(Structure):
    _fields_ = [
        ("from", c_size_t),
        ("to", c_size_t),
        ("scored", c_size_t),
        ("accuracy", c_double),
    ]


class kvs_evaluation(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("loss", c_double),
        ("accuracy", c_double),
        ("buckets", c_size_t),
        ("bucket", kvs_length_bucket * KVS_LENGTH_BUCKETS_MAX),
    ]


class kvs_tokenizer_training(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("vocab", c_size_t),
        ("special", POINTER(c_char_p)),
        ("specials", c_size_t),
        ("field", c_char_p),
        ("separator", c_char_p),
        ("threads", c_int),
        ("progress", CFUNCTYPE(c_int, c_void_p, c_size_t, c_size_t)),
        ("user", c_void_p),
    ]


class kvs_model_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("format", c_char_p),
        ("files", c_size_t),
        ("tensors", c_size_t),
        ("dtype", c_char_p),
        ("is_mixed", c_int),
        ("has_vocabulary", c_int),
        ("bytes", c_uint64),
    ]


class kvs_model_check_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("has_checksums", c_int),
        ("tensors", c_size_t),
        ("values", c_uint64),
    ]


class kvs_convert_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("config", POINTER(kvs_model_config)),
        ("seed", c_uint64),
        ("format", c_int),
        ("dtype", c_int),
        ("tokenizer", c_char_p),
        ("shard_bytes", c_uint64),
        ("overwrite", c_int),
        ("threads", c_int),
        ("progress", CFUNCTYPE(c_int, c_void_p, c_uint64, c_uint64)),
        ("notice", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("user", c_void_p),
        ("shift", POINTER(kvs_model_config)),
        ("merge", c_int),
        ("base", c_char_p),
    ]


class kvs_chat_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("add_generation_prompt", c_int),
        ("variables", c_char_p),
        ("now", c_int64),
    ]


class kvs_corpus_progress(Structure):
    _fields_ = [
        ("counting", c_int),
        ("bytes", c_uint64),
        ("size", c_uint64),
        ("documents", c_uint64),
        ("tokens", c_uint64),
    ]


class kvs_corpus_build_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("field", c_char_p),
        ("separator", c_char_p),
        ("eos", c_int),
        ("valid", c_double),
        ("seed", c_uint64),
        ("shard_tokens", c_uint64),
        ("overwrite", c_int),
        ("progress", CFUNCTYPE(c_int, c_void_p, POINTER(kvs_corpus_progress))),
        ("notice", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("user", c_void_p),
    ]


class kvs_corpus_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("vocab", c_size_t),
        ("valid", c_char_p),
        ("tokenizer", POINTER(kvs_tokenizer)),
    ]


class kvs_split_info(Structure):
    _fields_ = [
        ("tokens", c_uint64),
        ("documents", c_uint64),
        ("longest", c_uint64),
        ("shards", c_size_t),
    ]


class kvs_corpus_info(Structure):
    _fields_ = [
        ("format", c_char_p),
        ("tokenizer", c_char_p),
        ("tokenizer_hash", c_uint64),
        ("vocab", c_size_t),
        ("id_bytes", c_size_t),
        ("eos", c_int),
        ("rule", c_int),
        ("valid", c_double),
        ("seed", c_uint64),
        ("split", kvs_split_info * 2),
    ]


class kvs_records_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("tokenizer", POINTER(kvs_tokenizer)),
        ("chat_template", POINTER(kvs_chat_template)),
        ("length", c_size_t),
        ("valid", c_char_p),
        ("fraction", c_double),
        ("seed", c_uint64),
        ("loss_all", c_int),
        ("refuse_long", c_int),
        ("field", c_char_p),
        ("separator", c_char_p),
    ]


class kvs_records_split(Structure):
    _fields_ = [
        ("records", c_uint64),
        ("sequences", c_uint64),
        ("tokens", c_uint64),
        ("targets", c_uint64),
        ("bytes", c_uint64),
        ("checksum", c_uint64),
    ]


class kvs_records_info(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int),
        ("cut", c_uint64),
        ("dropped", c_uint64),
        ("inside", c_uint64),
        ("longest", c_uint64),
        ("split", kvs_records_split * 2),
    ]


class kvs_sample(Structure):
    _fields_ = [
        ("prompt", c_void_p),
        ("text", c_void_p),
        ("prompt_size", c_size_t),
        ("text_size", c_size_t),
    ]


class kvs_benchmark_score(Structure):
    _fields_ = [
        ("task", c_char_p),
        ("metric", c_char_p),
        ("value", c_double),
        ("error", c_double),
        ("documents", c_size_t),
    ]


class kvs_benchmark_scores(Structure):
    _fields_ = [
        ("scores", POINTER(kvs_benchmark_score)),
        ("count", c_size_t),
    ]


class kvs_run_file(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("text", c_char_p),
        ("append", c_int),
    ]


class kvs_train_options(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("out", c_char_p),
        ("command", c_char_p),
        ("files", POINTER(kvs_run_file)),
        ("file_count", c_size_t),
        ("tokenizer", POINTER(kvs_tokenizer)),
        ("resume", c_int),
        ("progress", CFUNCTYPE(c_int, c_void_p, POINTER(kvs_step_record))),
        ("sample", CFUNCTYPE(None, c_void_p, POINTER(kvs_model), c_uint64, POINTER(kvs_sample))),
        ("notice", CFUNCTYPE(None, c_void_p, c_char_p)),
        ("user", c_void_p),
        ("benchmark", CFUNCTYPE(c_int, c_void_p, POINTER(kvs_model), c_uint64,
            POINTER(kvs_benchmark_scores))),
    ]


class kvs_train_result(Structure):
    _fields_ = [
        ("size", c_size_t),
        ("steps", c_uint64),
        ("step_at_99", c_uint64),
        ("tokens", c_uint64),
        ("seconds", c_double),
        ("final", kvs_evaluation),
    ]


DECLARATIONS = 0xddee74e75696c8e0

STRUCTS = (kvs_err, kvs_build_info, kvs_runtime_options, kvs_setting, kvs_load_options, kvs_adapter_options,
           kvs_activation, kvs_session_options, kvs_runner_options, kvs_feed, kvs_sampling, kvs_generated,
           kvs_generate_options, kvs_batch, kvs_data_source, kvs_shift_mean, kvs_step_record,
           kvs_length_bucket, kvs_evaluation, kvs_tokenizer_training, kvs_model_info, kvs_model_check_result,
           kvs_convert_options, kvs_chat_options, kvs_corpus_progress, kvs_corpus_build_options,
           kvs_corpus_options, kvs_split_info, kvs_corpus_info, kvs_records_options, kvs_records_split,
           kvs_records_info, kvs_sample, kvs_benchmark_score, kvs_benchmark_scores, kvs_run_file,
           kvs_train_options, kvs_train_result)

FUNCTIONS = {
    "kvs_status_text": (c_char_p, [c_int]),
    "kvs_build": (POINTER(kvs_build_info), []),
    "kvs_layout_hash": (c_uint64, []),
    "kvs_runtime_options_init": (None, [POINTER(kvs_runtime_options), c_size_t]),
    "kvs_runtime_create": (c_int, [POINTER(POINTER(kvs_runtime)), POINTER(kvs_runtime_options),
        POINTER(kvs_err)]),
    "kvs_runtime_free": (None, [POINTER(kvs_runtime)]),
    "kvs_runtime_threads": (c_int, [POINTER(kvs_runtime)]),
    "kvs_runtime_cpu_level": (c_char_p, [POINTER(kvs_runtime)]),
    "kvs_cpu_level_name": (c_char_p, [c_size_t, POINTER(c_int)]),
    "kvs_cpu_level_missing": (c_char_p, [c_size_t]),
    "kvs_tokenizer_load": (c_int, [POINTER(POINTER(kvs_tokenizer)), c_char_p, POINTER(kvs_err)]),
    "kvs_tokenizer_free": (None, [POINTER(kvs_tokenizer)]),
    "kvs_tokenizer_save": (c_int, [POINTER(kvs_tokenizer), c_char_p, POINTER(kvs_err)]),
    "kvs_tokenizer_vocab": (c_size_t, [POINTER(kvs_tokenizer)]),
    "kvs_tokenizer_hash": (c_uint64, [POINTER(kvs_tokenizer)]),
    "kvs_tokenizer_bos": (c_int32, [POINTER(kvs_tokenizer)]),
    "kvs_tokenizer_eos": (c_int32, [POINTER(kvs_tokenizer)]),
    "kvs_tokenizer_find": (c_int32, [POINTER(kvs_tokenizer), c_char_p]),
    "kvs_tokenizer_encode": (c_int, [POINTER(POINTER(c_int32)), POINTER(c_size_t), POINTER(kvs_tokenizer),
        c_char_p, c_size_t, c_uint, POINTER(kvs_err)]),
    "kvs_tokenizer_decode": (c_int, [POINTER(c_void_p), POINTER(c_size_t), POINTER(kvs_tokenizer),
        POINTER(c_int32), c_size_t, POINTER(kvs_err)]),
    "kvs_tokenizer_encode_pair": (c_int, [POINTER(POINTER(c_int32)), POINTER(c_size_t), POINTER(c_size_t),
        POINTER(kvs_tokenizer), c_char_p, c_size_t, c_char_p, c_size_t, POINTER(kvs_err)]),
    "kvs_ids_free": (None, [POINTER(c_int32)]),
    "kvs_text_free": (None, [c_char_p]),
    "kvs_detokenizer_create": (c_int, [POINTER(POINTER(kvs_detokenizer)), POINTER(kvs_tokenizer),
        POINTER(c_char_p), c_size_t, POINTER(kvs_err)]),
    "kvs_detokenizer_free": (None, [POINTER(kvs_detokenizer)]),
    "kvs_detokenizer_skip": (c_int, [POINTER(kvs_detokenizer), POINTER(c_int32), c_size_t, POINTER(kvs_err)]),
    "kvs_detokenizer_add": (c_int, [POINTER(c_void_p), POINTER(c_size_t), POINTER(kvs_detokenizer),
        POINTER(c_int32), c_size_t, POINTER(kvs_err)]),
    "kvs_detokenizer_stopped": (c_int, [POINTER(kvs_detokenizer)]),
    "kvs_detokenizer_finish": (c_int, [POINTER(c_void_p), POINTER(c_size_t), POINTER(kvs_detokenizer),
        POINTER(kvs_err)]),
    "kvs_detokenizer_reset": (None, [POINTER(kvs_detokenizer)]),
    "kvs_model_setting": (POINTER(kvs_setting), [c_size_t]),
    "kvs_train_setting": (POINTER(kvs_setting), [c_size_t]),
    "kvs_preset_name": (c_char_p, [c_size_t]),
    "kvs_model_config_create": (c_int, [POINTER(POINTER(kvs_model_config)), c_char_p, POINTER(kvs_err)]),
    "kvs_model_config_load": (c_int, [POINTER(POINTER(kvs_model_config)), c_char_p, POINTER(kvs_err)]),
    "kvs_model_config_copy": (c_int, [POINTER(POINTER(kvs_model_config)), POINTER(kvs_model_config),
        POINTER(kvs_err)]),
    "kvs_model_config_free": (None, [POINTER(kvs_model_config)]),
    "kvs_model_config_set": (c_int, [POINTER(kvs_model_config), c_char_p, c_char_p, POINTER(kvs_err)]),
    "kvs_model_config_set_number": (c_int, [POINTER(kvs_model_config), c_char_p, c_double, POINTER(kvs_err)]),
    "kvs_model_config_get": (c_int, [c_char_p, c_size_t, POINTER(kvs_model_config), c_char_p,
        POINTER(kvs_err)]),
    "kvs_model_config_number": (c_double, [POINTER(kvs_model_config), c_char_p]),
    "kvs_model_config_finish": (c_int, [POINTER(kvs_model_config), POINTER(kvs_err)]),
    "kvs_train_config_create": (c_int, [POINTER(POINTER(kvs_train_config)), c_char_p, POINTER(kvs_err)]),
    "kvs_train_config_copy": (c_int, [POINTER(POINTER(kvs_train_config)), POINTER(kvs_train_config),
        POINTER(kvs_err)]),
    "kvs_train_config_free": (None, [POINTER(kvs_train_config)]),
    "kvs_train_config_set": (c_int, [POINTER(kvs_train_config), c_char_p, c_char_p, POINTER(kvs_err)]),
    "kvs_train_config_set_number": (c_int, [POINTER(kvs_train_config), c_char_p, c_double, POINTER(kvs_err)]),
    "kvs_train_config_get": (c_int, [c_char_p, c_size_t, POINTER(kvs_train_config), c_char_p,
        POINTER(kvs_err)]),
    "kvs_train_config_number": (c_double, [POINTER(kvs_train_config), c_char_p]),
    "kvs_train_config_check": (c_int, [POINTER(kvs_train_config), POINTER(kvs_err)]),
    "kvs_learning_rate": (c_double, [POINTER(kvs_train_config), c_uint64]),
    "kvs_dtype_name": (c_char_p, [c_int]),
    "kvs_dtype_parse": (c_int, [POINTER(c_int), c_char_p, POINTER(kvs_err)]),
    "kvs_model_create": (c_int, [POINTER(POINTER(kvs_model)), POINTER(kvs_runtime), POINTER(kvs_model_config),
        c_uint64, POINTER(kvs_err)]),
    "kvs_load_options_init": (None, [POINTER(kvs_load_options), c_size_t]),
    "kvs_model_load": (c_int, [POINTER(POINTER(kvs_model)), POINTER(kvs_runtime), c_char_p,
        POINTER(kvs_load_options), POINTER(kvs_err)]),
    "kvs_model_retrofit": (c_int, [POINTER(POINTER(kvs_model)), POINTER(kvs_runtime), POINTER(kvs_model),
        POINTER(kvs_model_config), POINTER(kvs_err)]),
    "kvs_adapter_options_init": (None, [POINTER(kvs_adapter_options), c_size_t]),
    "kvs_model_adapt": (c_int, [POINTER(POINTER(kvs_model)), POINTER(kvs_runtime), POINTER(kvs_model),
        POINTER(kvs_adapter_options), POINTER(kvs_err)]),
    "kvs_model_save": (c_int, [POINTER(kvs_model), c_char_p, POINTER(kvs_err)]),
    "kvs_model_free": (None, [POINTER(kvs_model)]),
    "kvs_model_get_config": (POINTER(kvs_model_config), [POINTER(kvs_model)]),
    "kvs_model_parameters": (c_uint64, [POINTER(kvs_model)]),
    "kvs_model_logit_count": (c_size_t, [POINTER(kvs_model)]),
    "kvs_model_eos": (c_size_t, [POINTER(kvs_model), POINTER(POINTER(c_int32))]),
    "kvs_model_set_eos": (c_int, [POINTER(kvs_model), POINTER(c_int32), c_size_t, POINTER(kvs_err)]),
    "kvs_model_tensor_name": (c_char_p, [POINTER(kvs_model), c_size_t, POINTER(c_size_t)]),
    "kvs_model_read_tensor": (c_int, [POINTER(c_float), c_size_t, POINTER(kvs_model), c_char_p,
        POINTER(kvs_err)]),
    "kvs_model_write_tensor": (c_int, [POINTER(kvs_model), c_char_p, POINTER(c_float), c_size_t,
        POINTER(kvs_err)]),
    "kvs_model_taps": (c_int, [POINTER(c_double), POINTER(c_double), POINTER(kvs_model), c_size_t, c_uint,
        c_size_t, POINTER(kvs_err)]),
    "kvs_activation_name": (c_char_p, [c_size_t]),
    "kvs_model_trace": (c_int, [POINTER(kvs_model), POINTER(c_int32), c_size_t, POINTER(c_char_p), c_size_t,
        CFUNCTYPE(c_int, c_void_p, POINTER(kvs_activation)), c_void_p, POINTER(kvs_err)]),
    "kvs_session_options_init": (None, [POINTER(kvs_session_options), c_size_t]),
    "kvs_session_create": (c_int, [POINTER(POINTER(kvs_session)), POINTER(kvs_model),
        POINTER(kvs_session_options), POINTER(kvs_err)]),
    "kvs_session_copy": (c_int, [POINTER(POINTER(kvs_session)), POINTER(kvs_session), c_size_t,
        POINTER(kvs_session_options), POINTER(kvs_err)]),
    "kvs_session_load": (c_int, [POINTER(POINTER(kvs_session)), POINTER(kvs_model), c_char_p,
        POINTER(kvs_session_options), POINTER(kvs_err)]),
    "kvs_session_save": (c_int, [POINTER(kvs_session), c_char_p, POINTER(kvs_err)]),
    "kvs_session_free": (None, [POINTER(kvs_session)]),
    "kvs_session_reset": (None, [POINTER(kvs_session)]),
    "kvs_session_get_model": (POINTER(kvs_model), [POINTER(kvs_session)]),
    "kvs_session_length": (c_size_t, [POINTER(kvs_session)]),
    "kvs_session_capacity": (c_size_t, [POINTER(kvs_session)]),
    "kvs_session_ids": (POINTER(c_int32), [POINTER(kvs_session)]),
    "kvs_session_bytes": (c_uint64, [POINTER(kvs_model_config), POINTER(kvs_session_options)]),
    "kvs_session_feed": (c_int, [POINTER(kvs_session), POINTER(c_int32), c_size_t, POINTER(c_float),
        POINTER(kvs_err)]),
    "kvs_session_logits": (c_int, [POINTER(c_float), POINTER(kvs_session), POINTER(kvs_err)]),
    "kvs_session_rewind": (c_int, [POINTER(kvs_session), c_size_t, POINTER(kvs_err)]),
    "kvs_session_earliest": (c_size_t, [POINTER(kvs_session)]),
    "kvs_session_set_taps": (c_int, [POINTER(kvs_session), c_size_t, c_uint, c_size_t, POINTER(c_double),
        POINTER(kvs_err)]),
    "kvs_runner_options_init": (None, [POINTER(kvs_runner_options), c_size_t]),
    "kvs_runner_create": (c_int, [POINTER(POINTER(kvs_runner)), POINTER(kvs_model),
        POINTER(kvs_runner_options), POINTER(kvs_err)]),
    "kvs_runner_free": (None, [POINTER(kvs_runner)]),
    "kvs_feed_init": (None, [POINTER(kvs_feed), c_size_t]),
    "kvs_runner_feed": (c_int, [POINTER(kvs_runner), POINTER(kvs_feed), c_size_t, POINTER(kvs_err)]),
    "kvs_score": (c_int, [POINTER(c_double), POINTER(c_int), POINTER(c_double), POINTER(kvs_session),
        POINTER(c_int32), c_size_t, c_size_t, c_uint, POINTER(kvs_err)]),
    "kvs_logits_best": (c_int32, [POINTER(c_float), c_size_t]),
    "kvs_logits_logprob": (c_double, [POINTER(c_float), c_size_t, c_int32]),
    "kvs_logits_top": (c_size_t, [POINTER(c_int32), POINTER(c_double), c_size_t, POINTER(c_float), c_size_t]),
    "kvs_sampling_init": (None, [POINTER(kvs_sampling), c_size_t]),
    "kvs_sampler_create": (c_int, [POINTER(POINTER(kvs_sampler)), c_size_t, POINTER(kvs_sampling),
        POINTER(kvs_err)]),
    "kvs_sampler_free": (None, [POINTER(kvs_sampler)]),
    "kvs_sampler_accept": (c_int, [POINTER(kvs_sampler), POINTER(c_int32), c_size_t, POINTER(kvs_err)]),
    "kvs_sampler_next": (c_int32, [POINTER(kvs_sampler), POINTER(c_float)]),
    "kvs_generate_options_init": (None, [POINTER(kvs_generate_options), c_size_t]),
    "kvs_generate": (c_int, [POINTER(c_int), POINTER(kvs_session), POINTER(c_int32), c_size_t,
        POINTER(kvs_generate_options), POINTER(kvs_err)]),
    "kvs_batch_init": (None, [POINTER(kvs_batch), c_size_t]),
    "kvs_data_create_arrays": (c_int, [POINTER(POINTER(kvs_data)), POINTER(kvs_batch), POINTER(kvs_batch),
        c_size_t, POINTER(kvs_err)]),
    "kvs_data_source_init": (None, [POINTER(kvs_data_source), c_size_t]),
    "kvs_data_create_callback": (c_int, [POINTER(POINTER(kvs_data)), POINTER(kvs_data_source),
        POINTER(kvs_err)]),
    "kvs_data_free": (None, [POINTER(kvs_data)]),
    "kvs_data_vocab": (c_size_t, [POINTER(kvs_data)]),
    "kvs_data_max_length": (c_size_t, [POINTER(kvs_data)]),
    "kvs_data_sequence": (c_size_t, [POINTER(c_int32), POINTER(c_int32), POINTER(c_uint8), POINTER(kvs_data),
        c_uint64, c_int, c_uint64]),
    "kvs_trainer_create": (c_int, [POINTER(POINTER(kvs_trainer)), POINTER(kvs_model), POINTER(kvs_data),
        POINTER(kvs_train_config), POINTER(kvs_err)]),
    "kvs_trainer_free": (None, [POINTER(kvs_trainer)]),
    "kvs_trainer_step": (c_int, [POINTER(POINTER(kvs_step_record)), POINTER(kvs_trainer), POINTER(kvs_err)]),
    "kvs_trainer_step_batch": (c_int, [POINTER(POINTER(kvs_step_record)), POINTER(kvs_trainer),
        POINTER(kvs_batch), POINTER(kvs_err)]),
    "kvs_trainer_steps": (c_uint64, [POINTER(kvs_trainer)]),
    "kvs_trainer_evaluate": (c_int, [POINTER(kvs_evaluation), POINTER(kvs_trainer), c_size_t,
        POINTER(kvs_err)]),
    "kvs_trainer_gradients": (c_int, [POINTER(c_double), POINTER(kvs_trainer), POINTER(kvs_batch),
        POINTER(kvs_err)]),
    "kvs_trainer_read_gradient": (c_int, [POINTER(c_float), c_size_t, POINTER(kvs_trainer), c_char_p,
        POINTER(kvs_err)]),
    "kvs_trainer_save": (c_int, [POINTER(kvs_trainer), c_char_p, c_size_t, POINTER(kvs_err)]),
    "kvs_trainer_load": (c_int, [POINTER(c_uint64), POINTER(kvs_trainer), c_char_p, POINTER(kvs_err)]),
    "kvs_tokenizer_training_init": (None, [POINTER(kvs_tokenizer_training), c_size_t]),
    "kvs_tokenizer_train": (c_int, [POINTER(POINTER(kvs_tokenizer)), POINTER(c_char_p), c_size_t,
        POINTER(kvs_tokenizer_training), POINTER(kvs_err)]),
    "kvs_model_describe": (c_int, [POINTER(kvs_model_info), c_char_p, POINTER(kvs_err)]),
    "kvs_model_check": (c_int, [POINTER(kvs_model_check_result), c_char_p, POINTER(kvs_err)]),
    "kvs_format_name": (c_char_p, [c_int]),
    "kvs_format_parse": (c_int, [POINTER(c_int), c_char_p, POINTER(kvs_err)]),
    "kvs_convert_options_init": (None, [POINTER(kvs_convert_options), c_size_t]),
    "kvs_convert": (c_int, [c_char_p, c_char_p, POINTER(kvs_convert_options), POINTER(kvs_err)]),
    "kvs_chat_template_name": (c_char_p, [c_size_t]),
    "kvs_chat_template_load": (c_int, [POINTER(POINTER(kvs_chat_template)), c_char_p, c_char_p,
        POINTER(kvs_tokenizer), POINTER(kvs_err)]),
    "kvs_chat_template_create": (c_int, [POINTER(POINTER(kvs_chat_template)), c_char_p, c_size_t,
        POINTER(kvs_err)]),
    "kvs_chat_template_free": (None, [POINTER(kvs_chat_template)]),
    "kvs_chat_template_stop": (c_char_p, [POINTER(kvs_chat_template)]),
    "kvs_chat_template_text": (c_char_p, [POINTER(kvs_chat_template)]),
    "kvs_chat_options_init": (None, [POINTER(kvs_chat_options), c_size_t]),
    "kvs_chat_render": (c_int, [POINTER(c_void_p), POINTER(c_size_t), POINTER(kvs_chat_template), c_char_p,
        c_size_t, POINTER(kvs_chat_options), POINTER(kvs_err)]),
    "kvs_documents_open": (c_int, [POINTER(POINTER(kvs_documents)), c_char_p, c_char_p, c_char_p,
        POINTER(kvs_err)]),
    "kvs_documents_close": (None, [POINTER(kvs_documents)]),
    "kvs_documents_next": (c_int, [POINTER(c_void_p), POINTER(c_size_t), POINTER(c_int),
        POINTER(kvs_documents), POINTER(kvs_err)]),
    "kvs_documents_checksum": (c_uint64, [POINTER(kvs_documents)]),
    "kvs_corpus_build_options_init": (None, [POINTER(kvs_corpus_build_options), c_size_t]),
    "kvs_corpus_build": (c_int, [c_char_p, POINTER(c_char_p), c_size_t, c_char_p,
        POINTER(kvs_corpus_build_options), POINTER(kvs_err)]),
    "kvs_corpus_options_init": (None, [POINTER(kvs_corpus_options), c_size_t]),
    "kvs_corpus_open": (c_int, [POINTER(POINTER(kvs_corpus)), c_char_p, POINTER(kvs_corpus_options),
        POINTER(kvs_err)]),
    "kvs_corpus_close": (None, [POINTER(kvs_corpus)]),
    "kvs_corpus_get_info": (POINTER(kvs_corpus_info), [POINTER(kvs_corpus)]),
    "kvs_corpus_load_tokenizer": (c_int, [POINTER(POINTER(kvs_tokenizer)), POINTER(kvs_corpus),
        POINTER(kvs_err)]),
    "kvs_corpus_hold_out": (c_int, [POINTER(kvs_corpus), c_double, POINTER(kvs_err)]),
    "kvs_corpus_check": (c_int, [POINTER(kvs_corpus), POINTER(kvs_err)]),
    "kvs_corpus_source": (c_char_p, [POINTER(kvs_corpus), c_size_t, POINTER(c_uint64), POINTER(c_uint64)]),
    "kvs_corpus_read": (c_size_t, [POINTER(c_int32), c_size_t, POINTER(kvs_corpus), c_int, c_uint64]),
    "kvs_corpus_document": (c_size_t, [POINTER(c_int32), c_size_t, POINTER(kvs_corpus), c_int, c_uint64]),
    "kvs_corpus_windows": (c_uint64, [POINTER(kvs_corpus), c_int, c_size_t]),
    "kvs_data_create_corpus": (c_int, [POINTER(POINTER(kvs_data)), POINTER(kvs_corpus), c_size_t,
        POINTER(kvs_err)]),
    "kvs_records_detect": (c_int, [POINTER(c_int), c_char_p, c_char_p, POINTER(kvs_err)]),
    "kvs_records_options_init": (None, [POINTER(kvs_records_options), c_size_t]),
    "kvs_data_create_records": (c_int, [POINTER(POINTER(kvs_data)), POINTER(kvs_records_info), c_char_p,
        POINTER(kvs_records_options), POINTER(kvs_err)]),
    "kvs_train_options_init": (None, [POINTER(kvs_train_options), c_size_t]),
    "kvs_train": (c_int, [POINTER(kvs_train_result), POINTER(kvs_model), POINTER(kvs_data),
        POINTER(kvs_train_config), POINTER(kvs_train_options), POINTER(kvs_err)]),
    "kvs_run_find": (c_int, [POINTER(c_void_p), c_char_p, POINTER(kvs_err)]),
}
