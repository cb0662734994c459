#include "Case.h"
#include "mrcc/Driver/TensorFile.h"
#include "mrcc/IR/Expr.h"
#include "mrcc/IR/Mrc.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace mrcc;
using namespace mrcc::test;
namespace fs = llvm::sys::fs;

static llvm::Error readSettings(const std::string &path, Case &c) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::Error::success();
  auto json = llvm::json::parse((*file)->getBuffer());
  if (!json)
    return json.takeError();
  const llvm::json::Object *object = json->getAsObject();
  if (!object)
    return llvm::createStringError(path + ": not an object");
  c.rtol = object->getNumber("rtol").value_or(c.rtol);
  c.atol = object->getNumber("atol").value_or(c.atol);
  if (const llvm::json::Array *names = object->getArray("bind"))
    for (const llvm::json::Value &name : *names)
      if (auto text = name.getAsString())
        c.bind.insert(text->str());
  return llvm::Error::success();
}

static llvm::Error readTensors(const std::string &prefix, std::vector<TensorData> &out) {
  for (size_t i = 0;; ++i) {
    std::string path = prefix + std::to_string(i) + ".pb";
    if (!fs::exists(path))
      return llvm::Error::success();
    auto tensor = readTensorProto(path);
    if (!tensor)
      return tensor.takeError();
    out.push_back(std::move(*tensor));
  }
}

llvm::Expected<Case> mrcc::test::loadCase(const std::string &folder) {
  Case c;
  c.folder = llvm::StringRef(folder).rtrim('/').str();
  c.name = llvm::sys::path::filename(c.folder).str();
  if (llvm::Error error = readSettings(c.folder + "/case.json", c))
    return error;
  for (size_t i = 0;; ++i) {
    std::string data = c.folder + "/test_data_set_" + std::to_string(i) + "/";
    if (!fs::exists(data))
      break;
    DataSet &set = c.sets.emplace_back();
    if (llvm::Error error = readTensors(data + "input_", set.inputs))
      return error;
    if (llvm::Error error = readTensors(data + "output_", set.outputs))
      return error;
  }
  if (c.sets.empty())
    return llvm::createStringError(c.folder + " has no data");
  return c;
}

bool mrcc::test::isShapeLike(const TensorData &data, const std::string &name) {
  static const std::set<std::string> words{"scales",          "roi", "start", "limit", "delta", "lower_edge_hertz",
                                           "upper_edge_hertz"};
  bool integers = data.type == DType::i64 || data.type == DType::i32;
  return words.count(name) || (integers && data.dims.size() <= 1);
}

/// What is compared with a tolerance.
static bool isReal(DType type) { return isFloat(type) || type == DType::f8e8m0; }

std::string mrcc::test::difference(const TensorData &want, const TensorData &got, double rtol, double atol) {
  if (got.type != want.type)
    return "its type is " + toString(got.type).str() + ", expected " + toString(want.type).str();
  if (got.dims != want.dims)
    return "its dims are wrong";
  if (!isReal(want.type) && want.bytes == got.bytes)
    return "";
  size_t count = 1;
  for (int64_t d : want.dims)
    count *= size_t(d);
  std::vector<double> a = toDoubles(want.type, want.bytes, count), b = toDoubles(got.type, got.bytes, count);
  double worst = 0;
  size_t where = 0, wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
      continue;
    double tolerance = isReal(want.type) ? atol + rtol * std::fabs(a[i]) : 0;
    double d = std::fabs(a[i] - b[i]);
    if (d <= tolerance && std::isfinite(a[i]))
      continue;
    ++wrong;
    if (!(d <= worst)) {
      worst = d;
      where = i;
    }
  }
  if (!wrong &&
      !isReal(want.type)) // large integers that round to one double; the spare bits of a packed type are no element
    return bitWidth(want.type) == 64 ? "64-bit integers differ" : "";
  if (!wrong)
    return "";
  return std::to_string(wrong) + " of " + std::to_string(count) + " elements are wrong, element " +
         std::to_string(where) + " is " + std::to_string(b[where]) + ", expected " + std::to_string(a[where]);
}
