// Errors inside the runtime: thrown, and turned into a code and an mrcc_error where the C interface begins. Nothing
// thrown crosses that interface, and no kernel runs while something is thrown.
#pragma once
#include "mrcc/runtime.h"
#include <string>

namespace mrcc::runtime {

struct Failure {
  mrcc_code code;
  std::string message; // lower case, no full stop, stands alone
  std::string place;   // file, tensor, target or step
};

[[noreturn]] inline void fail(mrcc_code code, std::string place, std::string message) {
  throw Failure{code, std::move(message), std::move(place)};
}

/// For what a file holds: the message begins with the file's name.
[[noreturn]] inline void damaged(const std::string &file, const std::string &what) {
  fail(MRCC_DAMAGED, file, file + ": " + what);
}

} // namespace mrcc::runtime
