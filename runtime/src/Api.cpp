// The C interface: checks handles and struct sizes, turns what is thrown into codes and error objects.
#include "Context.h"
#include "Failure.h"
#include <cstring>
#include <new>

using namespace mrcc;
using namespace mrcc::runtime;

static_assert(MRCC_F32 == int(DType::f32) && MRCC_BOOL == int(DType::boolean) && MRCC_U2 == int(lastDType));

struct mrcc_error {
  Failure failure;
};
struct mrcc_model {
  std::shared_ptr<Model> model;
};
struct mrcc_context {
  Context context;
};

namespace {

/// For when there is no memory to describe that there is no memory.
const char outOfMemory = 0;

mrcc_code report(mrcc_error **error, mrcc_code code, std::string message, std::string place) noexcept {
  if (!error)
    return code;
  mrcc_error *made = nullptr;
  try {
    made = new (std::nothrow) mrcc_error{{code, std::move(message), std::move(place)}};
  } catch (...) {
  }
  *error = made ? made : reinterpret_cast<mrcc_error *>(const_cast<char *>(&outOfMemory));
  return code;
}

bool isStatic(const mrcc_error *error) { return reinterpret_cast<const char *>(error) == &outOfMemory; }

template <typename F> mrcc_code guarded(mrcc_error **error, F function) noexcept {
  try {
    function();
    return MRCC_OK;
  } catch (Failure &failure) {
    return report(error, failure.code, std::move(failure.message), std::move(failure.place));
  } catch (const std::bad_alloc &) {
    return report(error, MRCC_OUT_OF_MEMORY, {}, {});
  } catch (const std::length_error &) {
    return report(error, MRCC_OUT_OF_MEMORY, {}, {});
  } catch (const std::exception &other) {
    try {
      return report(error, MRCC_SYSTEM, other.what(), {});
    } catch (...) {
      return report(error, MRCC_OUT_OF_MEMORY, {}, {});
    }
  }
}

void require(bool good, const char *what) {
  if (!good)
    fail(MRCC_INVALID_ARGUMENT, "", what);
}

/// A struct of the caller, which may be older or newer: fields that it does not have are as in `defaults`.
template <typename T> T readStruct(const T *given, T defaults, const char *what) {
  if (!given)
    return defaults;
  require(given->struct_size >= sizeof(size_t), what);
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(T)));
  defaults.struct_size = sizeof(T);
  return defaults;
}

template <typename T> void writeStruct(T *to, T value, const char *what) {
  require(to && to->struct_size >= sizeof(size_t), what);
  const size_t size = std::min(to->struct_size, sizeof(T));
  std::memcpy(reinterpret_cast<char *>(to) + sizeof(size_t), reinterpret_cast<char *>(&value) + sizeof(size_t),
              size - sizeof(size_t));
}

Arguments readTensors(const mrcc_tensor *tensors, size_t count) {
  require(tensors || count == 0, "tensors are NULL");
  require(count <= 65536, "too many tensors");
  Arguments arguments(tensors, count);
  for (size_t i = 0; i < count; ++i) {
    require(tensors[0].struct_size >= sizeof(mrcc_tensor) && tensors[0].struct_size % alignof(mrcc_tensor) == 0 &&
                arguments[i].struct_size == tensors[0].struct_size,
            "a tensor's struct_size is wrong");
    require(arguments[i].dims || arguments[i].rank == 0, "a tensor's dims are NULL (mrcc::Tensor holds 8 at most)");
    require(arguments[i].rank <= 64, "a tensor has more than 64 dims");
  }
  return arguments;
}

Options readOptions(const mrcc_model_options *given) {
  const mrcc_model_options o =
      readStruct(given, mrcc_model_options MRCC_MODEL_OPTIONS_INIT, "options' struct_size is wrong");
  require(o.verify >= MRCC_VERIFY_LAZY && o.verify <= MRCC_VERIFY_METADATA, "verify is none of mrcc_verify");
  return {o.verify,  o.prepared_limit ? o.prepared_limit : 10, o.pin_first != 0, o.target ? o.target : "", o.log,
          o.log_user};
}

mrcc_code open(mrcc_model **model, mrcc_error **error, const mrcc_model_options *options, auto storage) {
  return guarded(error, [&] {
    require(model, "model is NULL");
    Options read = readOptions(options);
    *model = new mrcc_model{std::make_shared<Model>(storage(), std::move(read))};
  });
}

template <typename F>
mrcc_code query(const mrcc_model *model, const mrcc_tensor *inputs, size_t count, uint32_t *variant, mrcc_error **error,
                F function) {
  return guarded(error, [&] {
    require(model && variant, "model or variant is NULL");
    *variant = (model->model.get()->*function)(readTensors(inputs, count));
  });
}

} // namespace

extern "C" {

const char *mrcc_version(void) { return "mrcc " MRCC_VERSION; }
uint32_t mrcc_format_version(void) { return formatVersion; }

const char *mrcc_dtype_name(mrcc_dtype dtype) {
  static const char *const names[] = {
      "none", "f32",  "f64",      "f16",        "bf16",   "i8",         "i16", "i32", "i64",    "u8",     "u16", "u32",
      "u64",  "bool", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "i4",  "u4",  "f8e8m0", "f4e2m1", "i2",  "u2"};
  return unsigned(dtype) < std::size(names) ? names[dtype] : "?";
}

const char *mrcc_code_name(mrcc_code code) {
  static const char *const names[] = {"ok",
                                      "invalid argument",
                                      "not a bundle",
                                      "damaged bundle",
                                      "wrong format version",
                                      "unsupported CPU",
                                      "no such variant",
                                      "unknown tensor",
                                      "missing tensor",
                                      "wrong element type",
                                      "wrong rank",
                                      "no data",
                                      "buffer too small",
                                      "unsupported strides",
                                      "out of memory",
                                      "system error",
                                      "context is busy",
                                      "unsupported program",
                                      "misaligned memory"};
  return unsigned(code) < std::size(names) ? names[code] : "?";
}

mrcc_code mrcc_error_code(const mrcc_error *error) {
  return !error ? MRCC_OK : isStatic(error) ? MRCC_OUT_OF_MEMORY : error->failure.code;
}
const char *mrcc_error_message(const mrcc_error *error) {
  if (!error)
    return "";
  const bool silent = isStatic(error) || error->failure.message.empty();
  return silent ? mrcc_code_name(mrcc_error_code(error)) : error->failure.message.c_str();
}
const char *mrcc_error_place(const mrcc_error *error) {
  return !error || isStatic(error) ? "" : error->failure.place.c_str();
}
void mrcc_error_free(mrcc_error *error) {
  if (!isStatic(error))
    delete error;
}

mrcc_code mrcc_set_threads(uint32_t threads, mrcc_error **error) {
  return guarded(error, [&] { Pool::shared().resize(threads); });
}
uint32_t mrcc_get_threads(void) { return Pool::shared().size(); }

mrcc_code mrcc_model_open(const char *path, const mrcc_model_options *options, mrcc_model **model, mrcc_error **error) {
  return open(model, error, options, [&] {
    require(path, "path is NULL");
    return Storage::openPath(path);
  });
}

mrcc_code mrcc_model_open_memory(const void *data, size_t bytes, const mrcc_model_options *options, mrcc_model **model,
                                 mrcc_error **error) {
  return open(model, error, options, [&] {
    require(data, "data is NULL");
    return Storage::openMemory({static_cast<const char *>(data), bytes});
  });
}

void mrcc_model_free(mrcc_model *model) { delete model; }

const char *mrcc_model_name(const mrcc_model *model) {
  return model ? model->model->index().text(model->model->index().header().model).data() : "";
}
const char *mrcc_model_producer(const mrcc_model *model) { return model ? model->model->producer() : ""; }

uint32_t mrcc_model_num_variants(const mrcc_model *model) {
  return model ? uint32_t(model->model->index().variants().size()) : 0;
}

mrcc_code mrcc_model_variant(const mrcc_model *model, uint32_t variant, mrcc_variant_info *info, mrcc_error **error) {
  return guarded(error, [&] {
    require(model && variant < mrcc_model_num_variants(model), "model is NULL or has no such variant");
    mrcc_variant_info value = MRCC_VARIANT_INFO_INIT;
    model->model->describe(variant, value);
    writeStruct(info, value, "info is NULL or its struct_size is wrong");
  });
}

mrcc_code mrcc_model_memory(const mrcc_model *model, uint32_t threads, mrcc_memory_info *info, mrcc_error **error) {
  return guarded(error, [&] {
    require(model, "model is NULL");
    mrcc_memory_info value = MRCC_MEMORY_INFO_INIT;
    model->model->memory(std::min(threads ? threads : Pool::shared().size(), Team::maxThreads), value);
    writeStruct(info, value, "info is NULL or its struct_size is wrong");
  });
}

mrcc_code mrcc_model_find(const mrcc_model *model, const mrcc_tensor *inputs, size_t num_inputs, uint32_t *variant,
                          mrcc_error **error) {
  return query(model, inputs, num_inputs, variant, error, &Model::find);
}
mrcc_code mrcc_model_nearest(const mrcc_model *model, const mrcc_tensor *inputs, size_t num_inputs, uint32_t *variant,
                             mrcc_error **error) {
  return query(model, inputs, num_inputs, variant, error, &Model::nearest);
}
mrcc_code mrcc_model_smallest_covering(const mrcc_model *model, const mrcc_tensor *inputs, size_t num_inputs,
                                       uint32_t *variant, mrcc_error **error) {
  return query(model, inputs, num_inputs, variant, error, &Model::smallestCovering);
}

mrcc_code mrcc_model_prepare(mrcc_model *model, uint32_t variant, mrcc_error **error) {
  return guarded(error, [&] {
    require(model && variant < mrcc_model_num_variants(model), "model is NULL or has no such variant");
    model->model->acquire(variant);
    model->model->release(variant);
  });
}

mrcc_code mrcc_context_create(mrcc_model *model, const mrcc_context_options *options, mrcc_context **context,
                              mrcc_error **error) {
  return guarded(error, [&] {
    require(model && context, "model or context is NULL");
    const mrcc_context_options o =
        readStruct(options, mrcc_context_options MRCC_CONTEXT_OPTIONS_INIT, "options' struct_size is wrong");
    require(!o.allocator || (o.allocator->allocate && o.allocator->release), "the allocator lacks a function");
    *context = new mrcc_context{{model->model, o}};
  });
}
void mrcc_context_free(mrcc_context *context) { delete context; }

mrcc_code mrcc_context_run(mrcc_context *context, const mrcc_tensor *inputs, size_t num_inputs,
                           const mrcc_tensor *outputs, size_t num_outputs, mrcc_error **error) {
  return guarded(error, [&] {
    require(context, "context is NULL");
    context->context.run(readTensors(inputs, num_inputs), readTensors(outputs, num_outputs));
  });
}

mrcc_code mrcc_context_set_step_hook(mrcc_context *context, mrcc_step_function *hook, void *user, mrcc_error **error) {
  return guarded(error, [&] {
    require(context, "context is NULL");
    context->context.setHook(hook, user);
  });
}

mrcc_code mrcc_context_memory(const mrcc_context *context, mrcc_memory_info *info, mrcc_error **error) {
  return guarded(error, [&] {
    require(context, "context is NULL");
    mrcc_memory_info value = MRCC_MEMORY_INFO_INIT;
    context->context.memory(value);
    writeStruct(info, value, "info is NULL or its struct_size is wrong");
  });
}

} // extern "C"
