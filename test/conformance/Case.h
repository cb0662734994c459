// A test case of the ONNX project on disk, as export.py writes it, and how its results are compared.
#pragma once
#include "mrcc/Import/Import.h"
#include <set>

namespace mrcc::test {

struct DataSet {
  std::vector<TensorData> inputs, outputs;
};

struct Case {
  std::string name, folder;
  std::set<std::string> bind;      // inputs that hold a shape, axes and the like
  double rtol = 1e-3, atol = 1e-5; // the case's own where case.json has them
  std::vector<DataSet> sets;
};

/// Reads FOLDER/test_data_set_*/{input,output}_*.pb and case.json, if there is one; the model stays unread.
llvm::Expected<Case> loadCase(const std::string &folder);

/// What an input of these elements and this name probably holds, where no list says so: a shape, axes, pads, a scale.
bool isShapeLike(const TensorData &data, const std::string &name);

/// "" where they agree: types, dims, integers and booleans exactly, NaN like NaN, the rest within |a - b| <= atol +
/// rtol |a|.
std::string difference(const TensorData &want, const TensorData &got, double rtol, double atol);

} // namespace mrcc::test
