"""The library through its C interface: logits of a model in any format it reads."""
import ctypes

_STATUS, _POINTER = ctypes.c_int, ctypes.c_void_p


class _Err(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 512)]


class Library:
    def __init__(self, path):
        self._library = ctypes.CDLL(path)
        for name in ("runtime_create", "model_load", "session_create", "session_feed"):
            getattr(self._library, "kvs_" + name).restype = _STATUS
        self._runtime = _POINTER()
        self._call("runtime_create", ctypes.byref(self._runtime), None)

    def _call(self, name, *arguments):
        err = _Err()
        if getattr(self._library, "kvs_" + name)(*arguments, ctypes.byref(err)) != 0:
            raise RuntimeError(err.message.decode())

    def logits(self, model_path, ids, width):
        """Those after each of the ids, fed one by one: a list of lists of `width` numbers."""
        model, session, found = _POINTER(), _POINTER(), []
        row = (ctypes.c_float * width)()
        self._call("model_load", ctypes.byref(model), self._runtime, model_path.encode(), None)
        self._call("session_create", ctypes.byref(session), model, None)
        for number in ids:
            self._call("session_feed", session, ctypes.byref(ctypes.c_int32(number)),
                       ctypes.c_size_t(1), row)
            found.append(list(row))
        self._library.kvs_session_free(session)
        self._library.kvs_model_free(model)
        return found
