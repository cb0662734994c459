#include "Tensors.h"
#include MRCC_ONNX_HEADER
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include <cstring>

using namespace mrcc;
using namespace mrcc::onnx;
using llvm::Twine;
using Proto = ::onnx::TensorProto;

llvm::Error mrcc::onnx::importError(ImportError::Kind kind, const Twine &message) {
  return llvm::make_error<ImportError>(kind, message.str());
}

static llvm::Error bad(const Twine &message) { return importError(ImportError::invalid, message); }

DType mrcc::onnx::toDType(int32_t type) {
  switch (type) {
  case Proto::FLOAT:
    return DType::f32;
  case Proto::DOUBLE:
    return DType::f64;
  case Proto::FLOAT16:
    return DType::f16;
  case Proto::BFLOAT16:
    return DType::bf16;
  case Proto::INT8:
    return DType::i8;
  case Proto::INT16:
    return DType::i16;
  case Proto::INT32:
    return DType::i32;
  case Proto::INT64:
    return DType::i64;
  case Proto::UINT8:
    return DType::u8;
  case Proto::UINT16:
    return DType::u16;
  case Proto::UINT32:
    return DType::u32;
  case Proto::UINT64:
    return DType::u64;
  case Proto::BOOL:
    return DType::boolean;
  case Proto::FLOAT8E4M3FN:
    return DType::f8e4m3fn;
  case Proto::FLOAT8E4M3FNUZ:
    return DType::f8e4m3fnuz;
  case Proto::FLOAT8E5M2:
    return DType::f8e5m2;
  case Proto::FLOAT8E5M2FNUZ:
    return DType::f8e5m2fnuz;
  case Proto::INT4:
    return DType::i4;
  case Proto::UINT4:
    return DType::u4;
  case Proto::FLOAT8E8M0:
    return DType::f8e8m0;
  case Proto::FLOAT4E2M1:
    return DType::f4e2m1;
  case Proto::INT2:
    return DType::i2;
  case Proto::UINT2:
    return DType::u2;
  default:
    return DType::none;
  }
}

std::string mrcc::onnx::typeName(int32_t type) {
  if (Proto::DataType_IsValid(type))
    return llvm::StringRef(Proto::DataType_Name(Proto::DataType(type))).lower();
  return "type " + std::to_string(type);
}

//===-- external data ---------------------------------------------------------------------------------------------===//

/// A location is relative, without `..`: a model must not read what lies outside its folder.
static bool staysInside(llvm::StringRef location) {
  if (location.empty() || location.contains('\\') || location.contains('\0') || llvm::sys::path::is_absolute(location))
    return false;
  for (auto it = llvm::sys::path::begin(location), end = llvm::sys::path::end(location); it != end; ++it)
    if (*it == "..")
      return false;
  return true;
}

llvm::Expected<ExternalFiles::Mapping> ExternalFiles::open(const std::string &location, const std::string &tensor) {
  if (auto known = files.find(location); known != files.end())
    return known->second;
  if (!staysInside(location))
    return bad("tensor '" + tensor + "': external data location '" + location +
               "' is refused: it must be relative and without '..'");
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, location);
  llvm::sys::fs::file_status status;
  if (std::error_code ec = llvm::sys::fs::status(path, status))
    return bad("tensor '" + tensor + "': external data file " + path + ": " + ec.message());
  if (status.type() != llvm::sys::fs::file_type::regular_file)
    return bad("tensor '" + tensor + "': external data file " + path + " is not a regular file");
  auto file = llvm::sys::fs::openNativeFileForRead(path);
  if (!file)
    return bad("tensor '" + tensor + "': external data file " + path + ": " + llvm::toString(file.takeError()));
  Mapping mapping;
  if (status.getSize()) {
    std::error_code ec;
    using Region = llvm::sys::fs::mapped_file_region;
    auto region = std::make_shared<Region>(*file, Region::readonly, status.getSize(), 0, ec);
    if (!ec)
      mapping = {{reinterpret_cast<const uint8_t *>(region->const_data()), region->size()}, region};
    llvm::sys::fs::closeFile(*file);
    if (ec)
      return importError(ImportError::system, "cannot map " + path + ": " + ec.message());
  } else {
    llvm::sys::fs::closeFile(*file);
  }
  files.emplace(location, mapping);
  return mapping;
}

static llvm::Error readExternal(const Proto &proto, uint64_t bytes, ExternalFiles &files, Tensor &out) {
  std::string location;
  uint64_t offset = 0, length = bytes;
  for (const auto &entry : proto.external_data()) {
    llvm::StringRef value = entry.value();
    if (entry.key() == "location")
      location = entry.value();
    else if ((entry.key() == "offset" && value.getAsInteger(10, offset)) ||
             (entry.key() == "length" && value.getAsInteger(10, length)))
      return bad("tensor '" + out.name + "': external data " + entry.key() + " '" + value + "' is not a number");
  }
  if (length != bytes)
    return bad("tensor '" + out.name + "': external data length is " + Twine(length) + " bytes, " + dimsText(out.dims) +
               " of " + typeName(out.onnxType) + " needs " + Twine(bytes));
  auto mapping = files.open(location, out.name);
  if (!mapping)
    return mapping.takeError();
  if (offset > mapping->bytes.size() || bytes > mapping->bytes.size() - offset)
    return bad("tensor '" + out.name + "': bytes " + Twine(offset) + " to " + Twine(offset + bytes) +
               " lie outside the external data file '" + location + "' of " + Twine(mapping->bytes.size()) + " bytes");
  out.bytes = mapping->bytes.slice(offset, bytes);
  out.keeper = mapping->keeper;
  return llvm::Error::success();
}

//===-- dense tensors ---------------------------------------------------------------------------------------------===//

static void own(Tensor &out, std::vector<uint8_t> bytes) {
  auto owned = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  out.bytes = *owned;
  out.keeper = owned;
}

template <typename T, typename Field> static std::vector<uint8_t> narrow(const Field &field) {
  std::vector<uint8_t> bytes(size_t(field.size()) * sizeof(T));
  for (int i = 0; i < field.size(); ++i) {
    T value = T(field.Get(i));
    std::memcpy(bytes.data() + size_t(i) * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

/// Which of the typed fields holds a type, and its elements' width there, is fixed by the standard.
static std::vector<uint8_t> typedBytes(const Proto &proto, DType type) {
  switch (type) {
  case DType::f32:
    return narrow<float>(proto.float_data());
  case DType::f64:
    return narrow<double>(proto.double_data());
  case DType::i64:
    return narrow<int64_t>(proto.int64_data());
  case DType::u64:
    return narrow<uint64_t>(proto.uint64_data());
  case DType::u32:
    return narrow<uint32_t>(proto.uint64_data());
  case DType::i32:
    return narrow<int32_t>(proto.int32_data());
  case DType::f16:
  case DType::bf16:
  case DType::i16:
  case DType::u16:
    return narrow<uint16_t>(proto.int32_data());
  default:
    return narrow<uint8_t>(proto.int32_data()); // 8 bits; packed types fill the low 8 bits of an element
  }
}

llvm::Expected<Tensor> mrcc::onnx::readTensor(Proto &proto, ExternalFiles &files) {
  Tensor out;
  out.name = proto.name();
  out.onnxType = proto.data_type();
  out.type = toDType(out.onnxType);
  out.dims.assign(proto.dims().begin(), proto.dims().end());
  if (out.dims.size() > maxRank)
    return bad("tensor '" + out.name + "' has " + Twine(out.dims.size()) + " dimensions, more than " + Twine(maxRank));
  if (proto.has_segment())
    return importError(ImportError::unsupported, "tensor '" + out.name + "' is stored in segments");
  if (out.onnxType == Proto::UNDEFINED)
    return bad("tensor '" + out.name + "' has no element type");
  if (out.type == DType::none)
    return out;
  auto bytes = denseBytes(out.type, out.dims);
  if (!bytes)
    return bad("tensor '" + out.name + "' has impossible dims " + dimsText(out.dims));
  if (proto.data_location() == Proto::EXTERNAL) {
    if (llvm::Error error = readExternal(proto, *bytes, files, out))
      return error;
  } else if (proto.has_raw_data()) {
    auto raw = std::shared_ptr<std::string>(proto.release_raw_data());
    out.bytes = {reinterpret_cast<const uint8_t *>(raw->data()), raw->size()};
    out.keeper = raw;
  } else {
    own(out, typedBytes(proto, out.type));
  }
  if (out.bytes.size() != *bytes)
    return bad("tensor '" + out.name + "' holds " + Twine(out.bytes.size()) + " bytes, " + dimsText(out.dims) + " of " +
               typeName(out.onnxType) + " needs " + Twine(*bytes));
  if (out.type == DType::boolean && llvm::any_of(out.bytes, [](uint8_t b) { return b > 1; })) {
    std::vector<uint8_t> clean(out.bytes.begin(), out.bytes.end());
    for (uint8_t &b : clean)
      b = b != 0;
    own(out, std::move(clean));
  }
  return out;
}

//===-- sparse tensors --------------------------------------------------------------------------------------------===//

llvm::Expected<Tensor> mrcc::onnx::readSparse(::onnx::SparseTensorProto &proto, ExternalFiles &files) {
  auto values = readTensor(*proto.mutable_values(), files);
  if (!values)
    return values.takeError();
  auto indices = readTensor(*proto.mutable_indices(), files);
  if (!indices)
    return indices.takeError();
  Tensor out;
  out.name = values->name;
  out.onnxType = values->onnxType;
  out.type = values->type;
  out.dims.assign(proto.dims().begin(), proto.dims().end());
  if (out.type == DType::none || isPacked(out.type))
    return importError(ImportError::unsupported, "sparse tensor '" + out.name + "' of " + typeName(out.onnxType));
  size_t rank = out.dims.size(), width = bitWidth(out.type) / 8, count = values->bytes.size() / width;
  auto bytes = rank <= maxRank ? denseBytes(out.type, out.dims) : std::nullopt;
  if (!bytes)
    return bad("sparse tensor '" + out.name + "' has impossible dims " + dimsText(out.dims));
  if (*bytes > std::max<uint64_t>(64 << 20, 1000 * values->bytes.size())) // a few bytes must not ask for all memory
    return importError(ImportError::unsupported, "sparse tensor '" + out.name + "' is " + Twine(*bytes) +
                                                     " bytes when dense, for " + Twine(count) + " values");
  bool linear = indices->dims.size() == 1;
  if (indices->type != DType::i64 || (!linear && (indices->dims.size() != 2 || size_t(indices->dims[1]) != rank)) ||
      (indices->dims.empty() ? 0 : size_t(indices->dims[0])) != count)
    return bad("sparse tensor '" + out.name + "': " + dimsText(indices->dims) + " indices do not fit " + Twine(count) +
               " values of rank " + Twine(rank));
  std::vector<uint8_t> dense(*bytes);
  for (size_t i = 0; i < count; ++i) {
    uint64_t at = 0;
    for (size_t d = 0, n = linear ? 1 : rank; d < n; ++d) {
      int64_t index;
      std::memcpy(&index, indices->bytes.data() + (i * n + d) * 8, 8);
      int64_t limit = linear ? int64_t(*bytes / width) : out.dims[d];
      if (index < 0 || index >= limit)
        return bad("sparse tensor '" + out.name + "': index " + Twine(index) + " is outside 0 to " + Twine(limit - 1));
      at = linear ? uint64_t(index) : at * uint64_t(out.dims[d]) + uint64_t(index);
    }
    std::memcpy(dense.data() + at * width, values->bytes.data() + i * width, width);
  }
  own(out, std::move(dense));
  return out;
}
