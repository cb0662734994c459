// What the linker of code images refuses.
#include "../../lib/Codegen/Compiler.h"
#include "llvm/Support/MemoryBuffer.h"
#include <doctest/doctest.h>

using namespace mrcc;

/// An object of link/NAME.c.
static Object object(const std::string &name) {
  auto buffer = llvm::MemoryBuffer::getFile(MRCC_LINK_OBJECTS "/" + name + ".o");
  REQUIRE(bool(buffer));
  return {name, (*buffer)->getBuffer().str(), 1};
}

static std::string refusal(const std::string &name) {
  std::vector<uint64_t> offsets;
  auto image = linkImage({object(name)}, *Target::find("x86-64-v3"), offsets);
  return image ? "" : llvm::toString(image.takeError());
}

TEST_CASE("an image is code and read-only data, and calls nothing outside it") {
  CHECK(refusal("good") == "");
  CHECK(refusal("imports").find("undefined symbol: memset") != std::string::npos);
  CHECK(refusal("writes") == "code image has writable data");
  CHECK(refusal("thread_local").find("undefined symbol: __tls_get_addr") != std::string::npos);
}
