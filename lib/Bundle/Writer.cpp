// Writing a bundle to disk. New data files appear beside the old ones, the index replaces the old one by rename (the
// commit point), then what nothing refers to goes. Whoever is killed in between leaves the old bundle or the new one,
// and files that the next writer removes.
#include "Layout.h"
#include "mrcc/Bundle/Hash.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mrcc;
using llvm::StringRef;
using llvm::Twine;

static llvm::Error systemError(const Twine &what) {
  const int code = errno;
  return bundleError(what + ": " + std::strerror(code), /*system=*/true);
}

// ---- Lock ----

llvm::Expected<BundleLock> BundleLock::acquire(StringRef path) {
  const std::string name = path.str();
  const bool made = mkdir(name.c_str(), 0777) == 0;
  if (!made && errno != EEXIST)
    return systemError(name + ": cannot make the folder");
  int folder = open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    if (errno == ENOTDIR)
      return bundleError(name + ": exists and is not a folder", true);
    return systemError(name + ": cannot open the folder");
  }
  BundleLock lock(folder, made);
  while (flock(folder, LOCK_EX) != 0)
    if (errno != EINTR) {
      if (errno == ENOLCK || errno == EOPNOTSUPP || errno == EINVAL)
        break; // a file system without locks: the rename still keeps every state whole
      return systemError(name + ": cannot lock");
    }
  return lock;
}

BundleLock::~BundleLock() {
  if (folder >= 0)
    close(folder); // gives the lock back, too
}

// ---- Files ----

namespace {

/// The names in a folder, or nothing if it cannot be read.
std::vector<std::string> listFolder(int parent, const char *name) {
  std::vector<std::string> names;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return names;
  DIR *folder = fdopendir(fd);
  if (!folder) {
    close(fd);
    return names;
  }
  while (dirent *entry = readdir(folder))
    if (StringRef(entry->d_name) != "." && StringRef(entry->d_name) != "..")
      names.push_back(entry->d_name);
  closedir(folder);
  return names;
}

/// Names that only we make, so that nothing of the user's is ever removed.
bool isOurs(StringRef name) {
  const StringRef base = name.ends_with(".new") ? name.drop_back(4) : name;
  return base == "index" || base == "manifest.json" || (base.starts_with("constants-") && base.ends_with(".bin")) ||
         (base.starts_with("code-") && base.ends_with(".bin")) || base == "variants" ||
         (base.starts_with("variants/") && base.ends_with(".mrcv"));
}

/// See foreignContent.
std::string foreignIn(int folder) {
  if (faccessat(folder, "index", F_OK, 0) == 0)
    return "";
  for (std::string &name : listFolder(folder, "."))
    if (!isOurs(name))
      return std::move(name);
  return "";
}

class Writer {
public:
  Writer(int folder, StringRef path) : folder(folder), path(path.str()) {}

  llvm::Error write(const BundleLayout &layout) {
    if (const std::string name = foreignIn(folder); !name.empty())
      return bundleError(path + ": exists and is not a bundle (it holds " + name + ")", true);
    const bool madeVariants = mkdirat(folder, "variants", 0777) == 0;
    if (!madeVariants && errno != EEXIST)
      return systemError(path + "/variants: cannot make the folder");
    llvm::Error result = writeAll(layout);
    if (result) {
      for (const std::string &name : made) // the old index, if there is one, does not know them
        unlinkat(folder, name.c_str(), 0);
      if (madeVariants)
        unlinkat(folder, "variants", AT_REMOVEDIR);
    }
    return result;
  }

private:
  llvm::Error writeAll(const BundleLayout &layout) {
    llvm::StringSet<> keep;
    for (const DataFile &file : layout.files) {
      keep.insert(file.name);
      if (isThere(file))
        continue;
      if (llvm::Error e = writeFile(file.name, [&](auto sink) { return file.stream(sink); }))
        return e;
      made.push_back(file.name);
      if (llvm::Error e = rename(file.name))
        return e;
    }
    if (llvm::Error e = syncFolder("variants"))
      return e;
    if (llvm::Error e = syncFolder("."))
      return e;
    if (llvm::Error e =
            writeFile("manifest.json", [&](auto sink) { return sink(layout.manifest.data(), layout.manifest.size()); }))
      return e;
    if (llvm::Error e = writeFile("index", [&](auto sink) { return sink(layout.index.data(), layout.index.size()); }))
      return e;
    // Readers find this manifest under its .new name until it is renamed, too.
    if (llvm::Error e = syncFolder("."))
      return e;
    if (llvm::Error e = rename("index"))
      return e;
    made.clear(); // committed
    if (llvm::Error e = syncFolder("."))
      return e;
    if (llvm::Error e = rename("manifest.json"))
      return e;
    removeRest(keep);
    return syncFolder(".");
  }

  /// Whether the file has this content already. Read, not believed: a damaged file must not survive its own repair.
  bool isThere(const DataFile &file) {
    int fd = openat(folder, file.name.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return false;
    struct stat status;
    bool same = fstat(fd, &status) == 0 && uint64_t(status.st_size) == file.bytes;
    std::vector<char> buffer(1 << 20);
    same = same && file.stream([&](const char *bytes, uint64_t size) {
      while (size) {
        ssize_t n = ::read(fd, buffer.data(), std::min<uint64_t>(size, buffer.size()));
        if (n <= 0 || std::memcmp(buffer.data(), bytes, n) != 0)
          return false;
        bytes += n;
        size -= n;
      }
      return true;
    });
    close(fd);
    return same;
  }

  /// Writes NAME.new and sees it to the disk.
  template <typename Content> llvm::Error writeFile(const std::string &name, Content content) {
    const std::string temporary = name + ".new", shown = path + "/" + name;
    int fd = openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
      return systemError(shown + ": cannot create");
    made.push_back(temporary);
    std::string buffer; // small pieces go together
    auto flush = [&](const char *bytes, uint64_t size) {
      while (size) {
        ssize_t n = ::write(fd, bytes, std::min<uint64_t>(size, 1 << 30));
        if (n < 0 && errno == EINTR)
          continue;
        if (n <= 0)
          return false;
        bytes += n;
        size -= n;
      }
      return true;
    };
    bool good = content([&](const char *bytes, uint64_t size) {
      constexpr uint64_t most = 1 << 20;
      if (buffer.size() + size > most) {
        if (!flush(buffer.data(), buffer.size()))
          return false;
        buffer.clear();
      }
      if (size > most)
        return flush(bytes, size);
      buffer.append(bytes, size);
      return true;
    });
    good = good && flush(buffer.data(), buffer.size()) && fsync(fd) == 0;
    llvm::Error result = good ? llvm::Error::success() : systemError(shown + ": cannot write");
    if (close(fd) != 0 && good) {
      llvm::consumeError(std::move(result));
      return systemError(shown + ": cannot write");
    }
    return result;
  }

  llvm::Error rename(const std::string &name) {
    if (renameat(folder, (name + ".new").c_str(), folder, name.c_str()) != 0)
      return systemError(path + "/" + name + ": cannot rename");
    return llvm::Error::success();
  }

  llvm::Error syncFolder(const char *name) {
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool good = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL); // some file systems cannot
    llvm::Error result = good ? llvm::Error::success() : systemError(path + ": cannot sync");
    if (fd >= 0)
      close(fd);
    return result;
  }

  void removeRest(const llvm::StringSet<> &keep) {
    for (std::string part : {".", "variants"})
      for (const std::string &entry : listFolder(folder, part.c_str())) {
        const std::string name = part == "." ? entry : part + "/" + entry;
        if (isOurs(name) && !keep.contains(name) && name != "index" && name != "manifest.json" && name != "variants")
          unlinkat(folder, name.c_str(), 0);
      }
  }

  int folder;
  std::string path;
  std::vector<std::string> made; // to be removed if this fails
};

} // namespace

llvm::Error mrcc::writeBundle(const BundleLock &lock, StringRef path, const BundleContents &contents) {
  auto layout = layOut(contents);
  if (!layout)
    return layout.takeError();
  return Writer(lock.folder, path).write(*layout);
}

llvm::Error mrcc::writeBundle(StringRef path, const BundleContents &contents) {
  auto layout = layOut(contents); // before the lock: hashing takes a while
  if (!layout)
    return layout.takeError();
  auto lock = BundleLock::acquire(path);
  if (!lock)
    return lock.takeError();
  llvm::Error result = Writer(lock->folder, path).write(*layout);
  if (result && lock->made) // leave nothing where nothing was
    rmdir(path.str().c_str());
  return result;
}

std::string mrcc::foreignContent(StringRef path) {
  int folder = open(path.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return "";
  std::string name = foreignIn(folder);
  close(folder);
  return name;
}

llvm::Expected<std::string> mrcc::packBundle(const BundleContents &contents) {
  auto layout = layOut(contents);
  if (!layout)
    return layout.takeError();
  std::string bytes = layout->index;
  for (const DataFile &file : layout->files) {
    bytes.resize(llvm::alignTo(bytes.size(), file.kind == FileKind::program ? alignment : packAlignment));
    file.stream([&](const char *data, uint64_t size) {
      bytes.append(data, size);
      return true;
    });
  }
  bytes.resize(llvm::alignTo(bytes.size(), alignment));
  return bytes + layout->manifest;
}
