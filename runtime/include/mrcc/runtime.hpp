// mrcc's runtime for C++17 and later: a header over mrcc/runtime.h, whose rules (errors, threads, memory) hold here,
// too.
//
//   auto model = mrcc::Model::open("det.mrcb");
//   if (!model)
//     return complain(model.error().message());
//   auto context = mrcc::Context::create(*model);
//   float *image = ..., *map = ...;
//   mrcc::Error error = context->run({mrcc::Tensor("x", image, {1, 3, 480, 640})},
//                                    {mrcc::Tensor("y", map, {1, 1, 480, 640})});
//
// Nothing here throws; a warm run of up to 32 inputs and 32 outputs allocates nothing.
#pragma once
#include "mrcc/runtime.h"
#include <cassert>
#include <cstring>
#include <initializer_list>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

namespace mrcc {

/// What went wrong; true if something did. Owns the C interface's object.
class Error {
public:
  Error() = default;
  Error(mrcc_code code, mrcc_error *object) : code_(code), object(object) {}
  Error(Error &&other) noexcept : code_(other.code_), object(other.object) {
    other.code_ = MRCC_OK;
    other.object = nullptr;
  }
  Error &operator=(Error &&other) noexcept {
    std::swap(code_, other.code_);
    std::swap(object, other.object);
    return *this;
  }
  ~Error() { mrcc_error_free(object); }

  explicit operator bool() const { return code_ != MRCC_OK; }
  mrcc_code code() const { return code_; }
  const char *message() const { return object ? mrcc_error_message(object) : mrcc_code_name(code_); }
  const char *place() const { return mrcc_error_place(object); }

private:
  mrcc_code code_ = MRCC_OK;
  mrcc_error *object = nullptr;
};

/// A value, or why there is none.
template <typename T> class Result {
public:
  Result(T value) : value(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}
  explicit operator bool() const { return value.has_value(); }
  T &operator*() { return get(); }
  T *operator->() { return &get(); }
  const Error &error() const { return error_; }

private:
  T &get() {
    assert(value && "look at the error first");
    return *value;
  }
  std::optional<T> value;
  Error error_;
};

/// The element type of a C++ type.
template <typename T> constexpr mrcc_dtype dtypeOf() {
  static_assert(std::is_arithmetic<T>::value, "name the element type of other types");
  constexpr bool isSigned = std::is_signed<T>::value;
  if (std::is_same<T, bool>::value)
    return MRCC_BOOL;
  if (std::is_floating_point<T>::value)
    return sizeof(T) == 4 ? MRCC_F32 : sizeof(T) == 8 ? MRCC_F64 : MRCC_NONE;
  switch (sizeof(T)) {
  case 1:
    return isSigned ? MRCC_I8 : MRCC_U8;
  case 2:
    return isSigned ? MRCC_I16 : MRCC_U16;
  case 4:
    return isSigned ? MRCC_I32 : MRCC_U32;
  default:
    return isSigned ? MRCC_I64 : MRCC_U64;
  }
}

/// A tensor in the caller's memory, dense and row-major. Holds up to 8 dims itself: calls refuse one with more
/// (MRCC_INVALID_ARGUMENT); with more, or with strides, fill in an mrcc_tensor. The name is borrowed.
class Tensor {
public:
  static constexpr size_t maxRank = 8;

  template <typename T>
  Tensor(const char *name, T *data, std::initializer_list<int64_t> dims)
      : Tensor(name, data, dtypeOf<std::remove_const_t<T>>(), dims.begin(), dims.size()) {}
  /// `data` of any element type, with exactly the memory that the dims need.
  Tensor(const char *name, const void *data, mrcc_dtype dtype, const int64_t *dims, size_t rank) {
    tensor.name = name;
    tensor.data = const_cast<void *>(data);
    tensor.dtype = dtype;
    tensor.rank = uint32_t(rank);
    if (rank > maxRank)
      return; // get() has no dims then
    size_t bits = elementBits(dtype);
    for (size_t i = 0; i < rank; ++i) {
      this->dims[i] = dims[i];
      bits *= size_t(dims[i]);
    }
    tensor.bytes = (bits + 7) / 8;
  }
  /// A tensor as the model describes it.
  Tensor(const mrcc_tensor_info &info, const void *data) : Tensor(info.name, data, info.dtype, info.dims, info.rank) {}

  /// Valid as long as this tensor stays where it is.
  mrcc_tensor get() const {
    mrcc_tensor result = tensor;
    result.dims = tensor.rank <= maxRank ? dims : nullptr;
    return result;
  }

  /// Bits of one element; 0 for MRCC_NONE. Below 8 several share a byte, and a tensor ends in a whole byte.
  static constexpr size_t elementBits(mrcc_dtype dtype) {
    switch (dtype) {
    case MRCC_F64:
    case MRCC_I64:
    case MRCC_U64:
      return 64;
    case MRCC_F32:
    case MRCC_I32:
    case MRCC_U32:
      return 32;
    case MRCC_F16:
    case MRCC_BF16:
    case MRCC_I16:
    case MRCC_U16:
      return 16;
    case MRCC_I4:
    case MRCC_U4:
    case MRCC_F4E2M1:
      return 4;
    case MRCC_I2:
    case MRCC_U2:
      return 2;
    case MRCC_NONE:
      return 0;
    default:
      return 8;
    }
  }

private:
  mrcc_tensor tensor = MRCC_TENSOR_INIT;
  int64_t dims[maxRank] = {};
};

/// A loaded bundle. Any number of threads may use one at the same time.
class Model {
public:
  static Result<Model> open(const char *path, const mrcc_model_options *options = nullptr) {
    mrcc_model *model = nullptr;
    mrcc_error *error = nullptr;
    if (mrcc_code code = mrcc_model_open(path, options, &model, &error))
      return Error(code, error);
    return Model(model);
  }
  /// The memory must outlive the model.
  static Result<Model> openMemory(const void *data, size_t bytes, const mrcc_model_options *options = nullptr) {
    mrcc_model *model = nullptr;
    mrcc_error *error = nullptr;
    if (mrcc_code code = mrcc_model_open_memory(data, bytes, options, &model, &error))
      return Error(code, error);
    return Model(model);
  }
  Model(Model &&other) noexcept : model(other.model) { other.model = nullptr; }
  Model &operator=(Model &&other) noexcept {
    std::swap(model, other.model);
    return *this;
  }
  ~Model() { mrcc_model_free(model); }

  mrcc_model *get() const { return model; }
  const char *name() const { return mrcc_model_name(model); }
  uint32_t numVariants() const { return mrcc_model_num_variants(model); }
  /// `number` is below numVariants().
  mrcc_variant_info variant(uint32_t number) const {
    mrcc_variant_info info = MRCC_VARIANT_INFO_INIT;
    mrcc_model_variant(model, number, &info, nullptr);
    return info;
  }
  /// For contexts of so many threads; 0: what the pool has.
  mrcc_memory_info memory(uint32_t threads = 0) const {
    mrcc_memory_info info = MRCC_MEMORY_INFO_INIT;
    mrcc_model_memory(model, threads, &info, nullptr);
    return info;
  }
  Error prepare(uint32_t number) {
    mrcc_error *error = nullptr;
    mrcc_code code = mrcc_model_prepare(model, number, &error);
    return Error(code, error);
  }

  /// The variant for exactly these inputs; the one that differs least; the smallest one that is as large everywhere.
  Result<uint32_t> find(std::initializer_list<Tensor> inputs) const { return query(mrcc_model_find, inputs); }
  Result<uint32_t> nearest(std::initializer_list<Tensor> inputs) const { return query(mrcc_model_nearest, inputs); }
  Result<uint32_t> smallestCovering(std::initializer_list<Tensor> inputs) const {
    return query(mrcc_model_smallest_covering, inputs);
  }

private:
  friend class Context;
  explicit Model(mrcc_model *model) : model(model) {}
  template <typename F> Result<uint32_t> query(F function, std::initializer_list<Tensor> inputs) const;
  mrcc_model *model = nullptr;
};

namespace detail {

/// Tensors as the C interface takes them; on the stack for up to 32. False if there is no memory for more.
class TensorArray {
public:
  explicit TensorArray(const Tensor *first, size_t count) : count(count) {
    if (count > 32)
      tensors = new (std::nothrow) mrcc_tensor[count];
    for (size_t i = 0; tensors && i < count; ++i)
      tensors[i] = first[i].get();
  }
  TensorArray(const TensorArray &) = delete;
  TensorArray &operator=(const TensorArray &) = delete;
  ~TensorArray() {
    if (tensors != few)
      delete[] tensors;
  }
  explicit operator bool() const { return tensors; }
  const mrcc_tensor *data() const { return tensors; }
  size_t size() const { return count; }

private:
  mrcc_tensor few[32];
  mrcc_tensor *tensors = few;
  size_t count;
};

} // namespace detail

template <typename F> Result<uint32_t> Model::query(F function, std::initializer_list<Tensor> inputs) const {
  detail::TensorArray in(inputs.begin(), inputs.size());
  if (!in)
    return Error(MRCC_OUT_OF_MEMORY, nullptr);
  uint32_t number = 0;
  mrcc_error *error = nullptr;
  if (mrcc_code code = function(model, in.data(), in.size(), &number, &error))
    return Error(code, error);
  return number;
}

/// What one call at a time needs; keeps its model alive.
class Context {
public:
  static Result<Context> create(Model &model, const mrcc_context_options *options = nullptr) {
    mrcc_context *context = nullptr;
    mrcc_error *error = nullptr;
    if (mrcc_code code = mrcc_context_create(model.get(), options, &context, &error))
      return Error(code, error);
    return Context(context);
  }
  Context(Context &&other) noexcept : context(other.context) { other.context = nullptr; }
  Context &operator=(Context &&other) noexcept {
    std::swap(context, other.context);
    return *this;
  }
  ~Context() { mrcc_context_free(context); }

  mrcc_context *get() const { return context; }
  Error run(std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> outputs) {
    return run(inputs.begin(), inputs.size(), outputs.begin(), outputs.size());
  }
  Error run(const Tensor *inputs, size_t numInputs, const Tensor *outputs, size_t numOutputs) {
    detail::TensorArray in(inputs, numInputs), out(outputs, numOutputs);
    if (!in || !out)
      return Error(MRCC_OUT_OF_MEMORY, nullptr);
    mrcc_error *error = nullptr;
    mrcc_code code = mrcc_context_run(context, in.data(), in.size(), out.data(), out.size(), &error);
    return Error(code, error);
  }
  Error setStepHook(mrcc_step_function *hook, void *user) {
    mrcc_error *error = nullptr;
    mrcc_code code = mrcc_context_set_step_hook(context, hook, user, &error);
    return Error(code, error);
  }
  mrcc_memory_info memory() const {
    mrcc_memory_info info = MRCC_MEMORY_INFO_INIT;
    mrcc_context_memory(context, &info, nullptr);
    return info;
  }

private:
  explicit Context(mrcc_context *context) : context(context) {}
  mrcc_context *context = nullptr;
};

} // namespace mrcc
