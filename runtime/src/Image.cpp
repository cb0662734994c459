#include "Image.h"
#include "Failure.h"
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mrcc;
using namespace mrcc::runtime;

Image::~Image() {
  if (base)
    munmap(base, size);
}

/// The segments to load: within the file, not writable, each on pages of its own, in ascending order from address 0.
static std::vector<Elf64_Phdr> readSegments(std::string_view bytes, const std::string &name, uint32_t machine,
                                            uint64_t page) {
  Elf64_Ehdr head;
  if (bytes.size() < sizeof head)
    damaged(name, "too short for a code image");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
      head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_DYN || head.e_phentsize != sizeof(Elf64_Phdr))
    damaged(name, "not a code image");
  if (head.e_machine != machine)
    damaged(name,
            "code for ELF machine " + std::to_string(head.e_machine) + ", the index says " + std::to_string(machine));
  if (head.e_phnum > 16 || head.e_phoff > bytes.size() ||
      head.e_phnum * sizeof(Elf64_Phdr) > bytes.size() - head.e_phoff)
    damaged(name, "segments lie outside the code image");
  std::vector<Elf64_Phdr> segments;
  uint64_t end = 0;
  for (int i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr p;
    std::memcpy(&p, bytes.data() + head.e_phoff + i * sizeof p, sizeof p);
    if (p.p_type != PT_LOAD)
      continue;
    constexpr uint64_t limit = uint64_t(1) << 30;
    if ((p.p_flags & PF_W) || p.p_filesz != p.p_memsz || p.p_offset > bytes.size() ||
        p.p_filesz > bytes.size() - p.p_offset || p.p_vaddr < end || p.p_vaddr > limit || p.p_filesz > limit ||
        (p.p_vaddr - p.p_offset) % page != 0)
      damaged(name, "a segment of the code image is out of bounds");
    segments.push_back(p);
    end = (p.p_vaddr + p.p_memsz + page - 1) / page * page;
  }
  if (segments.empty() || segments[0].p_vaddr != 0)
    damaged(name, "the code image has nothing to load");
  return segments;
}

Image Image::load(const StoredFile &file, const std::string &name, uint32_t machine, bool &copied) {
  const uint64_t page = sysconf(_SC_PAGESIZE);
  std::vector<Elf64_Phdr> segments = readSegments(file.bytes, name, machine, page);
  auto roundUp = [&](uint64_t n) { return (n + page - 1) / page * page; };
  const uint64_t total = roundUp(segments.back().p_vaddr + segments.back().p_memsz);

  auto refuse = [&] {
    fail(errno == ENOMEM ? MRCC_OUT_OF_MEMORY : MRCC_SYSTEM, name,
         name + ": cannot make code executable: " + std::strerror(errno));
  };
  Image image;
  void *area = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (area == MAP_FAILED)
    refuse();
  image.base = static_cast<char *>(area);
  image.size = total;

  copied = file.fd < 0 || file.offset % page != 0;
  for (const Elf64_Phdr &p : segments) {
    const int access = p.p_flags & PF_X ? PROT_READ | PROT_EXEC : PROT_READ;
    const uint64_t inset = p.p_vaddr % page;
    char *start = image.base + p.p_vaddr - inset;
    const uint64_t length = inset + p.p_filesz;
    if (p.p_filesz == 0)
      continue;
    if (!copied &&
        mmap(start, length, access, MAP_PRIVATE | MAP_FIXED, file.fd, file.offset + p.p_offset - inset) == MAP_FAILED) {
      if (errno != EPERM && errno != EACCES)
        refuse();
      copied = true; // the file system forbids execution: copy this segment and the ones after it
    }
    if (copied) {
      if (mmap(start, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        refuse();
      std::memcpy(image.base + p.p_vaddr, file.bytes.data() + p.p_offset, p.p_filesz);
      if (mprotect(start, length, access) != 0)
        refuse();
    }
    if (p.p_flags & PF_X) {
      __builtin___clear_cache(start, start + length);
      image.code.push_back({p.p_vaddr, p.p_vaddr + p.p_filesz});
    }
  }
  return image;
}

KernelFunction *Image::function(uint64_t offset, uint64_t bytes) const {
  for (const Range &range : code)
    if (offset >= range.begin && offset < range.end && bytes <= range.end - offset)
      return reinterpret_cast<KernelFunction *>(base + offset);
  return nullptr;
}
