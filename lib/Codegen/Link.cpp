// Objects to one image, by lld in memory, and the proof that the image is only code and read-only data.
//
// lld reads the objects as one archive from a memfd and writes to a pipe: for a file it would make a temporary beside
// the output. Its common context is global to the process, hence the mutex.
#include "Compiler.h"
#include "lld/Common/Driver.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Object/ELFObjectFile.h"
#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

LLD_HAS_DRIVER(elf)

namespace mrcc {

namespace {
/// A file without a name, for lld to read as /proc/self/fd/N.
struct MemoryFile {
  int fd = memfd_create("mrcc", MFD_CLOEXEC);
  std::string path = "/proc/self/fd/" + std::to_string(fd);
  ~MemoryFile() { close(fd); }
  bool write(llvm::StringRef s) {
    while (!s.empty()) {
      ssize_t n = ::write(fd, s.data(), s.size());
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return false;
      s = s.drop_front(n);
    }
    return true;
  }
};

/// Takes what is written to a pipe.
class Sink {
public:
  Sink() {
    if (pipe2(ends, O_CLOEXEC) == 0)
      reader = std::thread([this] {
        char part[1 << 16];
        for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0 || (n < 0 && errno == EINTR);)
          bytes.append(part, std::max<ssize_t>(n, 0));
      });
  }
  ~Sink() { take(); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(ends[1]); }
  /// Everything written. Closes our writing end, so the reader sees the end of the data.
  std::string take() {
    if (reader.joinable()) {
      close(ends[1]);
      reader.join();
      close(ends[0]);
    }
    return std::move(bytes);
  }

private:
  int ends[2] = {-1, -1};
  std::thread reader;
  std::string bytes;
};
} // namespace

// Refuses an image with writable data, TLS, relocations, imports or anything that a loader would have to run.
static llvm::Error inspect(const std::string &bytes, std::map<std::string, uint64_t> &symbols) {
  auto elf = llvm::object::ELF64LEFile::create(bytes);
  if (!elf)
    return elf.takeError();
  auto segments = elf->program_headers();
  if (!segments)
    return segments.takeError();
  for (const auto &s : *segments) {
    if (s.p_type == llvm::ELF::PT_TLS || s.p_type == llvm::ELF::PT_INTERP)
      return fail("code image has TLS or an interpreter");
    if (s.p_type == llvm::ELF::PT_LOAD && (s.p_flags & llvm::ELF::PF_W))
      return fail("code image has writable data");
  }
  auto dynamic = elf->dynamicEntries();
  if (!dynamic)
    return dynamic.takeError();
  for (const auto &d : *dynamic)
    switch (d.d_tag) {
    case llvm::ELF::DT_NULL:
    case llvm::ELF::DT_SYMTAB:
    case llvm::ELF::DT_SYMENT:
    case llvm::ELF::DT_STRTAB:
    case llvm::ELF::DT_STRSZ:
    case llvm::ELF::DT_HASH:
    case llvm::ELF::DT_GNU_HASH:
    case llvm::ELF::DT_SYMBOLIC:
    case llvm::ELF::DT_FLAGS:
      break;
    default: // DT_NEEDED, DT_REL*, DT_JMPREL, DT_INIT*, ...
      return fail("code image has dynamic entry " + elf->getDynamicTagAsString(d.d_tag));
    }
  auto object = llvm::object::ELF64LEObjectFile::create(llvm::MemoryBufferRef(bytes, "image"));
  if (!object)
    return object.takeError();
  for (const auto &symbol : object->getDynamicSymbolIterators()) {
    auto name = symbol.getName();
    auto address = symbol.getAddress();
    auto flags = symbol.getFlags();
    if (!name || !address || !flags)
      return fail("code image has a broken symbol");
    if (*flags & llvm::object::SymbolRef::SF_Undefined)
      return fail("code image imports " + *name);
    symbols[name->str()] = *address;
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> linkImage(const std::vector<Object> &objects, const Target &target,
                                      std::vector<uint64_t> &offsets) {
  std::vector<llvm::NewArchiveMember> members;
  for (const Object &o : objects)
    members.emplace_back(llvm::MemoryBufferRef(o.bytes, o.name));
  auto archive = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NoSymtab, llvm::object::Archive::K_GNU,
                                            /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return archive.takeError();
  MemoryFile in;
  Sink out;
  const std::string outPath = out.path();
  if (!in.write((*archive)->getBuffer()))
    return fail("cannot write " + llvm::Twine((*archive)->getBufferSize()) + " bytes of objects to memory");
  const bool arm = llvm::StringRef(target.triple).starts_with("aarch64");
  const char *arguments[] = {"ld.lld",
                             "-shared",
                             "-Bsymbolic",
                             "--no-undefined",
                             "--no-allow-shlib-undefined",
                             "-z",
                             "text",
                             "-z",
                             "norelro",
                             "-z",
                             "rodynamic",
                             "-z",
                             "separate-code",
                             "-z",
                             arm ? "max-page-size=65536" : "max-page-size=4096",
                             "-z",
                             "nognustack",
                             "--hash-style=sysv",
                             "--build-id=none",
                             "--strip-all",
                             "--threads=1",
                             "--fatal-warnings",
                             "-o",
                             outPath.c_str(),
                             "--whole-archive",
                             in.path.c_str()};
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  {
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    lld::Result result = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
    if (result.retCode != 0 || !result.canRunAgain)
      return fail("lld: " + errors);
  }
  std::string image = out.take();
  std::map<std::string, uint64_t> symbols;
  if (llvm::Error error = inspect(image, symbols))
    return std::move(error);
  offsets.clear();
  for (const Object &o : objects) {
    auto it = symbols.find(o.name);
    if (it == symbols.end())
      return fail("code image lacks " + o.name);
    offsets.push_back(it->second);
  }
  return image;
}

} // namespace mrcc
