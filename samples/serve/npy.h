// Reads .npy files: little-endian, C order, the element types that NumPy has.
#pragma once
#include "mrcc/runtime.h"
#include <cstdint>
#include <string>
#include <vector>

struct Array {
  mrcc_dtype dtype = MRCC_NONE;
  std::vector<int64_t> dims;
  std::vector<uint64_t> memory; // bytes, aligned for every element type
  size_t bytes = 0;
};

/// Empty, or what is wrong.
std::string readNpy(const std::string &path, Array &array);
