/* mrcc's runtime: loads a bundle that `mrcc compile` wrote, picks the variant compiled for a call's exact shapes,
 * runs it.
 *
 *   mrcc_model    a loaded bundle. Immutable; any number of threads may use one at the same time.
 *   mrcc_context  what one call at a time needs: working memory. One per concurrent call; cheap.
 *   mrcc_error    what went wrong, with a code, a message and the place. Made only on failure.
 *
 * Rules for all functions
 *   Errors    Functions that can fail return a code, MRCC_OK (0) on success. With `error` not NULL a failure stores an
 *             object there that the caller frees with mrcc_error_free; on success it is left alone. A failed call has
 *             read and written no tensor and leaves model and context usable. No exception leaves this library.
 *   Files     A bundle's files are mapped: while a model is open they must not be cut or changed in place (the system
 *             then ends the process with SIGBUS). Replacing them, as `mrcc compile` and `add` do, is fine.
 *   Threads   Functions of a model may be called from any thread at any time until it is freed. A context is used by
 *             one thread at a time (a second one gets MRCC_BUSY); contexts may be created, used and freed while others
 *             run.
 *   Memory    Strings and arrays that a model hands out live as long as the model. Everything that a function receives
 *             is borrowed for the call, unless it says otherwise.
 *   Callbacks The caller's functions (log, allocator, parallel, step hook) must return: they must not throw, nor leave
 *             by longjmp.
 *   Structs   `struct_size` is sizeof of the struct as the caller was compiled; set it through the MRCC_..._INIT
 *             macros. Later versions append fields only; what a caller does not know has the documented default.
 *   Units     Sizes are bytes, dims and strides elements, times nanoseconds.
 *   Trust     A bundle is native code: load only what you would load as a shared library. Damage is detected and
 *             refused.
 */
#ifndef MRCC_RUNTIME_H
#define MRCC_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MRCC_API __attribute__((visibility("default")))
#else
#define MRCC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mrcc_model mrcc_model;
typedef struct mrcc_context mrcc_context;
typedef struct mrcc_error mrcc_error;

typedef enum mrcc_code {
  MRCC_OK = 0,
  MRCC_INVALID_ARGUMENT = 1,  /* a handle or pointer that must not be NULL is, or a struct_size or option is unknown */
  MRCC_NOT_A_BUNDLE = 2,      /* the path holds nothing, or something else */
  MRCC_DAMAGED = 3,           /* cut, changed, mixed with another build, or out of bounds; the message names the file */
  MRCC_WRONG_VERSION = 4,     /* written in another format version; both are named */
  MRCC_UNSUPPORTED_CPU = 5,   /* no target of the bundle runs here; the missing features are named */
  MRCC_NO_VARIANT = 6,        /* these shapes were not compiled; the compiled and the nearest ones are named */
  MRCC_UNKNOWN_TENSOR = 7,    /* the model has no input or output of this name, or it is given twice */
  MRCC_MISSING_TENSOR = 8,    /* an input or output is not given */
  MRCC_WRONG_TYPE = 9,        /* no variant takes this element type there */
  MRCC_WRONG_RANK = 10,       /* no variant takes so many dimensions there */
  MRCC_NULL_DATA = 11,        /* a tensor that is not empty has no memory */
  MRCC_BUFFER_TOO_SMALL = 12, /* a tensor's memory, or a lent workspace, is smaller than needed */
  MRCC_UNSUPPORTED_STRIDES = 13, /* a tensor is not dense and row-major */
  MRCC_OUT_OF_MEMORY = 14,       /* an allocation failed; the context stays usable */
  MRCC_SYSTEM = 15,              /* a system call failed; the message holds the system's reason */
  MRCC_BUSY = 16,                /* another thread is using this context */
  MRCC_UNSUPPORTED_PROGRAM = 17, /* the variant needs a device or step that this runtime does not have */
  MRCC_MISALIGNED = 18           /* memory is not aligned as its elements, or a lent workspace as 64 bytes, need */
} mrcc_code;

/* The numbers are those of the bundle format and never change. */
typedef enum mrcc_dtype {
  MRCC_NONE = 0,
  MRCC_F32 = 1,
  MRCC_F64 = 2,
  MRCC_F16 = 3,
  MRCC_BF16 = 4,
  MRCC_I8 = 5,
  MRCC_I16 = 6,
  MRCC_I32 = 7,
  MRCC_I64 = 8,
  MRCC_U8 = 9,
  MRCC_U16 = 10,
  MRCC_U32 = 11,
  MRCC_U64 = 12,
  MRCC_BOOL = 13, /* one byte, 0 or 1 */
  MRCC_F8E4M3FN = 14,
  MRCC_F8E4M3FNUZ = 15,
  MRCC_F8E5M2 = 16,
  MRCC_F8E5M2FNUZ = 17,
  MRCC_I4 = 18,
  MRCC_U4 = 19, /* two a byte, the first in the low half */
  MRCC_F8E8M0 = 20,
  MRCC_F4E2M1 = 21, /* two a byte */
  MRCC_I2 = 22,     /* four a byte, the first in the lowest bits */
  MRCC_U2 = 23
} mrcc_dtype;

/* "mrcc 0.1.0". Any thread, never fails. */
MRCC_API const char *mrcc_version(void);
/* The format version of bundles that this runtime reads. */
MRCC_API uint32_t mrcc_format_version(void);
/* "f32", "i64", ...; "?" for an unknown number. */
MRCC_API const char *mrcc_dtype_name(mrcc_dtype dtype);
/* "unsupported CPU" and so on: one phrase a code. */
MRCC_API const char *mrcc_code_name(mrcc_code code);

/* ---- Errors ---- */

/* What an error says; NULL gives MRCC_OK and "". Valid until the error is freed. `place` is the file, tensor, target or
 * step concerned, or "". The message stands alone, in lower case, without a full stop. */
MRCC_API mrcc_code mrcc_error_code(const mrcc_error *error);
MRCC_API const char *mrcc_error_message(const mrcc_error *error);
MRCC_API const char *mrcc_error_place(const mrcc_error *error);
MRCC_API void mrcc_error_free(mrcc_error *error); /* NULL is fine */

/* ---- Threads of the process ---- */

/* One pool serves all contexts of the process. `threads` counts the calling one: 1 means no workers, 0 as many as CPUs
 * that this process may use (the default); more than 255 are 255, here and in a context. Idle workers sleep. Waits for
 * workers that must end. Contexts that exist keep the number they were made with and use fewer if the pool has fewer.
 * Results never depend on any of it. */
MRCC_API mrcc_code mrcc_set_threads(uint32_t threads, mrcc_error **error);
MRCC_API uint32_t mrcc_get_threads(void);

/* ---- Models ---- */

typedef enum mrcc_verify {
  MRCC_VERIFY_LAZY = 0,    /* index and programs at open; a variant's constants and code when it is first prepared */
  MRCC_VERIFY_FULL = 1,    /* everything at open */
  MRCC_VERIFY_METADATA = 2 /* index and programs alone: for bundles that something else has checked */
} mrcc_verify;

typedef enum mrcc_log_level { MRCC_LOG_WARNING = 1, MRCC_LOG_INFO = 2 } mrcc_log_level;

/* Receives messages, from any thread that uses the model; must not call this library. */
typedef void mrcc_log_function(void *user, mrcc_log_level level, const char *message);

typedef struct mrcc_model_options {
  size_t struct_size;
  mrcc_verify verify;
  uint32_t prepared_limit; /* variants that stay prepared, least recently used go first; 0: 10 */
  uint32_t pin_first;      /* 1: the first variant that is prepared is never let go */
  const char *target;      /* use this target alone ("cpu:x86-64-v3"); NULL: the best that this CPU runs */
  mrcc_log_function *log;  /* NULL: warnings go to stderr */
  void *log_user;
} mrcc_model_options;
#define MRCC_MODEL_OPTIONS_INIT {sizeof(mrcc_model_options), MRCC_VERIFY_LAZY, 0, 0, NULL, NULL, NULL}

/* Loads a bundle: a folder NAME.mrcb or a packed file. Maps the files, reads little; files may be replaced by a new
 * bundle afterwards. `options` may be NULL. Free with mrcc_model_free. */
MRCC_API mrcc_code mrcc_model_open(const char *path, const mrcc_model_options *options, mrcc_model **model,
                                   mrcc_error **error);
/* Loads a packed bundle from memory. The memory stays the caller's, must not change, and must outlive the model. At an
 * address that is not a multiple of 64 constants are copied; code always is. */
MRCC_API mrcc_code mrcc_model_open_memory(const void *data, size_t bytes, const mrcc_model_options *options,
                                          mrcc_model **model, mrcc_error **error);
/* Frees a model, at once or when its last context goes. NULL is fine. */
MRCC_API void mrcc_model_free(mrcc_model *model);

MRCC_API const char *mrcc_model_name(const mrcc_model *model);     /* of the model file that was compiled */
MRCC_API const char *mrcc_model_producer(const mrcc_model *model); /* "mrcc 0.1.0" */

typedef struct mrcc_tensor_info {
  const char *name;
  mrcc_dtype dtype;
  uint32_t rank;
  const int64_t *dims;
  size_t bytes; /* of the dense tensor */
} mrcc_tensor_info;

typedef struct mrcc_variant_info {
  size_t struct_size;
  const char *key;    /* "x=1x3x480x640" */
  const char *target; /* "cpu:x86-64-v3" */
  uint32_t supported; /* 1: this CPU can run it */
  uint32_t num_inputs, num_outputs;
  const mrcc_tensor_info *inputs, *outputs;
  uint64_t arena_bytes;           /* intermediate tensors */
  uint64_t scratch_bytes;         /* of each thread */
  uint64_t constant_bytes;        /* of the bundle's constants, those that it reads */
  uint64_t unique_constant_bytes; /* and that no other variant reads */
  uint64_t code_bytes, unique_code_bytes;
  uint64_t prepared_bytes; /* copies of constants in another form, made when it is prepared; its tables (some kB) not
                              counted. 0 in bundles of this version: kernels read constants as they are stored */
  uint64_t flops;          /* of the operations as the model defines them */
  uint32_t steps;
} mrcc_variant_info;
#define MRCC_VARIANT_INFO_INIT {sizeof(mrcc_variant_info), NULL, NULL, 0, 0, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0}

/* Variants are numbered from 0, sorted by input dims. Never prepares anything. */
MRCC_API uint32_t mrcc_model_num_variants(const mrcc_model *model);
MRCC_API mrcc_code mrcc_model_variant(const mrcc_model *model, uint32_t variant, mrcc_variant_info *info,
                                      mrcc_error **error);

typedef struct mrcc_memory_info {
  size_t struct_size;
  uint64_t constant_bytes;  /* mapped once for all variants and contexts, shared between processes; resident as used */
  uint64_t code_bytes;      /* mapped: of the targets that this CPU runs, or of the one that was asked for */
  uint64_t arena_bytes;     /* the largest variant's */
  uint64_t scratch_bytes;   /* of each thread, the largest variant's */
  uint64_t workspace_bytes; /* what a context allocates or must be lent to run any variant on `threads` threads */
  uint32_t prepared;        /* variants that are prepared now */
} mrcc_memory_info;
#define MRCC_MEMORY_INFO_INIT {sizeof(mrcc_memory_info), 0, 0, 0, 0, 0, 0}

/* `threads` as in mrcc_context_options. Counts the variants that this CPU runs. */
MRCC_API mrcc_code mrcc_model_memory(const mrcc_model *model, uint32_t threads, mrcc_memory_info *info,
                                     mrcc_error **error);

/* ---- Tensors and dispatch ---- */

typedef struct mrcc_tensor {
  size_t struct_size;
  const char *name; /* NULL: by position, in the model's order */
  void *data;       /* aligned as the element type; inputs are not written */
  size_t bytes;     /* of memory at data; may exceed what is needed */
  mrcc_dtype dtype; /* of outputs MRCC_NONE, too: then dtype, rank, dims and strides are not looked at */
  uint32_t rank;
  const int64_t *dims;    /* rank numbers; may be NULL where rank is 0 */
  const int64_t *strides; /* elements; NULL: dense, row-major. Others are refused unless they say the same */
} mrcc_tensor;
#define MRCC_TENSOR_INIT {sizeof(mrcc_tensor), NULL, NULL, 0, MRCC_NONE, 0, NULL, NULL}

/* Which variant a call with these inputs runs: names, element types and dims are compared for equality. `data` and
 * `bytes` do not matter. Allocates nothing unless it fails. */
MRCC_API mrcc_code mrcc_model_find(const mrcc_model *model, const mrcc_tensor *inputs, size_t num_inputs,
                                   uint32_t *variant, mrcc_error **error);
/* The variant whose dims differ least, by the sum of |a - b| / max(a, b) over all dims; names, types and ranks must
 * agree. */
MRCC_API mrcc_code mrcc_model_nearest(const mrcc_model *model, const mrcc_tensor *inputs, size_t num_inputs,
                                      uint32_t *variant, mrcc_error **error);
/* The variant with the fewest input elements of those that have every dim at least as large: for callers that pad. */
MRCC_API mrcc_code mrcc_model_smallest_covering(const mrcc_model *model, const mrcc_tensor *inputs, size_t num_inputs,
                                                uint32_t *variant, mrcc_error **error);
/* Prepares a variant before its first call: checks its constants and code, builds its tables. Runs do it by themselves.
 */
MRCC_API mrcc_code mrcc_model_prepare(mrcc_model *model, uint32_t variant, mrcc_error **error);

/* ---- Contexts ---- */

/* Memory for a context's workspace. `allocate` returns memory aligned to `alignment` or NULL. Called by the thread that
 * makes or frees the context, never during a run. */
typedef struct mrcc_allocator {
  void *(*allocate)(void *user, size_t bytes, size_t alignment);
  void (*release)(void *user, void *memory, size_t bytes);
  void *user;
} mrcc_allocator;

/* Runs `task(argument, i)` for each i in [0, tasks), in any order, on any threads, at most one at a time for each i,
 * and returns when all are done. Running them one after the other is allowed. */
typedef void mrcc_parallel_function(void *user, uint32_t tasks, void (*task)(void *argument, uint32_t i),
                                    void *argument);

typedef struct mrcc_context_options {
  size_t struct_size;
  uint32_t threads;                /* that a run may use, the caller's included; 0: what the pool has now */
  const mrcc_allocator *allocator; /* copied; NULL: the system's memory, which becomes resident as it is used */
  void *workspace;        /* lent memory, aligned to 64, in place of an allocation; stays the caller's. Contexts that */
  size_t workspace_bytes; /* never run at the same time may share it, also those of several models */
  mrcc_parallel_function *parallel; /* the caller's threads in place of the pool; `threads` tasks at most */
  void *parallel_user;
} mrcc_context_options;
#define MRCC_CONTEXT_OPTIONS_INIT {sizeof(mrcc_context_options), 0, NULL, NULL, 0, NULL, NULL}

/* A context for `model`, which it keeps alive. `options` may be NULL. Lent memory may be smaller than mrcc_model_memory
 * says; runs of variants that need more then fail with MRCC_BUFFER_TOO_SMALL. */
MRCC_API mrcc_code mrcc_context_create(mrcc_model *model, const mrcc_context_options *options, mrcc_context **context,
                                       mrcc_error **error);
/* Not while it runs. NULL is fine. */
MRCC_API void mrcc_context_free(mrcc_context *context);

/* Runs the variant of these inputs. All inputs and outputs must be given; the caller's memory is read and written in
 * place, and an output must not overlap any other tensor. The first call of a variant prepares it; later ones allocate
 * nothing and take no lock. Floating-point modes of the calling thread (flush to zero, rounding) do not reach the
 * result. */
MRCC_API mrcc_code mrcc_context_run(mrcc_context *context, const mrcc_tensor *inputs, size_t num_inputs,
                                    const mrcc_tensor *outputs, size_t num_outputs, mrcc_error **error);

/* ---- Looking into a run ---- */

/* A tensor as a step sees it: element [i, j, ...] lies at data + (i * strides[0] + j * strides[1] + ...) elements. */
typedef struct mrcc_view {
  const void *data;
  mrcc_dtype dtype;
  uint32_t rank;
  const int64_t *dims, *strides;
} mrcc_view;

typedef struct mrcc_step {
  size_t struct_size;
  uint32_t index, count; /* of the step, of all steps */
  const char *location;  /* names of the model's nodes that it computes */
  const char *kernel;
  uint64_t nanoseconds;  /* wall time */
  uint64_t flops, bytes; /* of the operation; that its views hold, each element once */
  uint64_t units;        /* of work, that threads share */
  uint32_t threads;      /* that it was offered to */
  uint32_t num_outputs;  /* the first of the views */
  uint32_t num_views;
  const mrcc_view *views; /* valid during the call; data of an output is what the step has just written */
  uint64_t moved;         /* bytes that its schedule moves beyond the private caches, at least `bytes` */
} mrcc_step;

/* Called by the running thread after each step. Must not use the context. */
typedef void mrcc_step_function(void *user, const mrcc_step *step);

/* Sets or (NULL) removes the hook of a context. Not while it runs. */
MRCC_API mrcc_code mrcc_context_set_step_hook(mrcc_context *context, mrcc_step_function *hook, void *user,
                                              mrcc_error **error);

/* What a context holds: workspace_bytes and the largest arena and scratch memory; the rest as its model. */
MRCC_API mrcc_code mrcc_context_memory(const mrcc_context *context, mrcc_memory_info *info, mrcc_error **error);

#ifdef __cplusplus
}
#endif
#endif
