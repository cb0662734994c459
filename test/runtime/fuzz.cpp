// Fuzzes the loader below its hashes: an input is a packed bundle without alignment; before it is opened its files are
// placed where a pack has them and all hashes are made right, so that every check behind the hashes is reached. Code
// that comes from an input is mapped, never run.
#include "Inspect.h"
#include "mrcc/Bundle/Hash.h"
#include "mrcc/runtime.h"
#include <algorithm>
#include <cstring>
#include <string>

using namespace mrcc;

/// The packed bundle that an input stands for, or the input itself where its index is too broken to tell.
static std::string assemble(std::string input) {
  IndexHeader header;
  if (input.size() < sizeof header)
    return input;
  std::memcpy(&header, input.data(), sizeof header);
  const uint64_t size = header.indexBytes;
  if (size < sizeof header || size > input.size())
    return input;
  std::string pack = input.substr(0, size), rest = input.substr(size);
  const uint64_t files = header.files.count, at = header.files.offset;
  if (at % 8 == 0 && at <= size && files <= (size - at) / sizeof(FileRecord)) {
    for (uint64_t i = 0; i < files; ++i) {
      FileRecord record;
      std::memcpy(&record, input.data() + at + i * sizeof record, sizeof record);
      if (record.bytes > (1 << 20) || pack.size() > (4 << 20))
        break;
      std::string bytes = rest.substr(0, record.bytes);
      rest.erase(0, bytes.size());
      bytes.resize(record.bytes);
      record.hash = hashBytes(bytes);
      std::memcpy(pack.data() + at + i * sizeof record, &record, sizeof record);
      const uint64_t align = record.kind == FileKind::program ? alignment : packAlignment;
      pack.resize((pack.size() + align - 1) / align * align);
      pack += bytes;
    }
    pack.resize((pack.size() + alignment - 1) / alignment * alignment);
  }
  std::memcpy(&header, pack.data(), sizeof header);
  header.hash = hashOfIndex(pack.data(), size);
  std::memcpy(pack.data(), &header, sizeof header);
  return pack + rest;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string pack = assemble({reinterpret_cast<const char *>(data), size});
  mrcc_model_options options = MRCC_MODEL_OPTIONS_INIT;
  options.verify = MRCC_VERIFY_METADATA; // hashes of blocks would refuse changed code and constants
  options.log = [](void *, mrcc_log_level, const char *) {};
  mrcc_model *model = nullptr;
  mrcc_error *error = nullptr;
  if (mrcc_model_open_memory(pack.data(), pack.size(), &options, &model, &error) != MRCC_OK &&
      !*mrcc_error_message(error))
    __builtin_trap(); // every refusal says why
  mrcc_error_free(error);
  for (uint32_t v = 0; v < mrcc_model_num_variants(model); ++v) {
    mrcc_variant_info info = MRCC_VARIANT_INFO_INIT;
    mrcc_model_variant(model, v, &info, nullptr);
    mrcc_model_prepare(model, v, nullptr);
  }
  mrcc_model_free(model);
  return 0;
}
