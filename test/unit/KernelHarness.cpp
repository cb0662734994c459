#include "KernelHarness.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <elf.h>
#include <sys/mman.h>

namespace mrcc::testing {

static void check(bool good, const std::string &message) {
  if (!good) {
    fprintf(stderr, "kernel harness: %s\n", message.c_str());
    abort();
  }
}

static const char filler = 0x5a;
static const int64_t margin = 64; // elements before and after

Tensor::Tensor(DType type, std::vector<int64_t> dims, std::vector<int> order, int64_t pitch) {
  view_.space = Space::arena;
  view_.type = type;
  view_.dims = dims;
  view_.strides.resize(dims.size());
  if (order.empty())
    for (size_t i = 0; i < dims.size(); ++i)
      order.push_back(i);
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    view_.strides[order[i]] = stride;
    stride = stride * std::max<int64_t>(1, dims[order[i]]) + pitch;
  }
  view_.offset = margin * bitWidth(type) / 8;
  bytes.assign((stride + 2 * margin) * bitWidth(type) / 8, filler);
}

Tensor &Tensor::broadcast(std::vector<int> over) {
  for (int d : over)
    view_.strides[d] = 0;
  return *this;
}

Tensor &Tensor::alignToLine() {
  view_.offset += -reinterpret_cast<uintptr_t>(data()) % 64;
  return *this;
}

View Tensor::view() const { return view_; }

const char *Tensor::at(const std::vector<int64_t> &at) const {
  int64_t element = 0;
  for (size_t i = 0; i < at.size(); ++i)
    element += at[i] * view_.strides[i];
  return bytes.data() + view_.offset + element * int64_t(bitWidth(view_.type) / 8);
}

static float halfToFloat(uint16_t h) {
  _Float16 x;
  memcpy(&x, &h, 2);
  return float(x);
}

double Tensor::get(const std::vector<int64_t> &where) const {
  const char *p = at(where);
  auto read = [&](auto x) {
    memcpy(&x, p, sizeof x);
    return x;
  };
  switch (view_.type) {
  case DType::f32:
    return read(float());
  case DType::f64:
    return read(double());
  case DType::f16:
    return halfToFloat(read(uint16_t()));
  case DType::bf16: {
    uint32_t bits = uint32_t(read(uint16_t())) << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
  }
  case DType::i8:
    return read(int8_t());
  case DType::u8:
  case DType::boolean:
    return read(uint8_t());
  case DType::i16:
    return read(int16_t());
  case DType::u16:
    return read(uint16_t());
  case DType::i32:
    return read(int32_t());
  case DType::u32:
    return read(uint32_t());
  case DType::i64:
    return read(int64_t());
  default:
    check(false, "no such type");
    return 0;
  }
}

void Tensor::set(const std::vector<int64_t> &where, double value) {
  char *p = const_cast<char *>(at(where));
  auto write = [&](auto x) { memcpy(p, &x, sizeof x); };
  switch (view_.type) {
  case DType::f32:
    return write(float(value));
  case DType::f64:
    return write(value);
  case DType::f16:
    return write(_Float16(float(value)));
  case DType::bf16: {
    float x = value;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return write(uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16));
  }
  case DType::i8:
    return write(int8_t(value));
  case DType::u8:
  case DType::boolean:
    return write(uint8_t(value));
  case DType::i16:
    return write(int16_t(value));
  case DType::u16:
    return write(uint16_t(value));
  case DType::i32:
    return write(int32_t(value));
  case DType::u32:
    return write(uint32_t(value));
  case DType::i64:
    return write(int64_t(value));
  default:
    check(false, "no such type");
  }
}

void Tensor::each(const std::function<void(const std::vector<int64_t> &)> &f) const {
  std::vector<int64_t> at(dims().size(), 0);
  for (int64_t d : dims())
    if (d == 0)
      return;
  for (;;) {
    f(at);
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == dims()[d - 1])
      at[--d] = 0;
    if (d == 0)
      return;
  }
}

Tensor &Tensor::random(unsigned seed, double low, double high) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  each([&](auto &at) { set(at, uniform(engine)); });
  return *this;
}

bool Tensor::untouchedAround() const {
  std::vector<char> inside(bytes.size(), 0);
  const int64_t size = bitWidth(view_.type) / 8;
  each([&](auto &where) { memset(inside.data() + (at(where) - bytes.data()), 1, size); });
  for (size_t i = 0; i < bytes.size(); ++i)
    if (!inside[i] && bytes[i] != filler)
      return false;
  return true;
}

Mapped::Mapped(const CodeImage &image) {
  Elf64_Ehdr head;
  check(image.bytes.size() > sizeof head, "short image");
  memcpy(&head, image.bytes.data(), sizeof head);
  std::vector<Elf64_Phdr> segments;
  for (int i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr p;
    memcpy(&p, image.bytes.data() + head.e_phoff + i * sizeof p, sizeof p);
    if (p.p_type == PT_LOAD)
      segments.push_back(p), size = std::max<size_t>(size, p.p_vaddr + p.p_memsz);
  }
  size = (size + 4095) / 4096 * 4096;
  base = static_cast<char *>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  check(base != MAP_FAILED, "no memory for code");
  for (auto &p : segments)
    memcpy(base + p.p_vaddr, image.bytes.data() + p.p_offset, p.p_filesz);
  check(mprotect(base, size, PROT_READ | PROT_EXEC) == 0, "cannot execute");
  for (auto &kernel : image.kernels)
    offsets.push_back(kernel.offset);
}

Mapped::~Mapped() { munmap(base, size); }

KernelFunction *Mapped::function(size_t kernel) const {
  return reinterpret_cast<KernelFunction *>(base + offsets[kernel]);
}

Compiled::Compiled(LaunchSite site, const Target &target) {
  const KernelFamily *family = KernelFamily::find(site.family);
  check(family, "no family " + site.family);
  auto result = family->bind(site, target);
  if (!result)
    check(false, llvm::toString(result.takeError()));
  bound = *result;
  static std::map<std::string, std::pair<std::shared_ptr<Mapped>, uint64_t>> cache;
  auto &entry = cache[target.name + bound.kernel.key()];
  if (!entry.first) {
    auto made = compileKernels({bound.kernel}, target, 1);
    if (!made)
      check(false, llvm::toString(made.takeError()));
    entry = {std::make_shared<Mapped>(*made), made->kernels[0].bytes};
  }
  image = entry.first;
  codeBytes = entry.second;
  function = image->function(0);
}

void Compiled::call(const std::vector<Tensor *> &tensors, int64_t parts) const {
  std::vector<char *> views;
  for (Tensor *t : tensors)
    views.push_back(t ? t->data() : nullptr);
  // Scratch full of NaN, with a margin that must stay.
  const size_t bytes = (bound.scratchBytes + 63) / 64 * 64 + 256;
  auto *scratch = static_cast<char *>(aligned_alloc(64, bytes));
  for (int64_t part = 0; part < parts; ++part) {
    int64_t begin = bound.units * part / parts, end = bound.units * (part + 1) / parts;
    memset(scratch, 0xff, bytes);
    if (begin < end)
      function(views.data(), bound.params.data(), begin, end, scratch);
    for (size_t i = bound.scratchBytes; i < bytes; ++i)
      check(scratch[i] == char(0xff), "a kernel wrote beyond its scratch: " + bound.kernel.key());
  }
  free(scratch);
}

LaunchSite makeSite(std::string family, const std::vector<Tensor *> &tensors,
                    std::map<std::string, std::vector<int64_t>> config, const std::string &body, unsigned outputs) {
  LaunchSite site;
  site.family = std::move(family);
  site.config = std::move(config);
  site.outputs = outputs;
  for (Tensor *t : tensors)
    site.views.push_back(t ? t->view() : View());
  if (!body.empty()) {
    auto parsed = Expr::parse(body);
    if (!parsed)
      check(false, llvm::toString(parsed.takeError()) + " in " + body);
    site.body = *parsed;
  }
  return site;
}

bool runsHere(const Target &target) {
#if defined(__x86_64__)
  if (target.triple.compare(0, 6, "x86_64") != 0)
    return false;
  __builtin_cpu_init();
  return (!target.has("avx2") || (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))) &&
         (!target.has("avx512f") || (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                                     __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")));
#else
  return false;
#endif
}

double relativeError(const Tensor &a, const Tensor &b) {
  double difference = 0, size = 0;
  b.each([&](auto &at) {
    double x = a.get(at), y = b.get(at);
    if (std::isnan(x) != std::isnan(y))
      difference = INFINITY;
    else if (!std::isnan(y))
      difference = std::max(difference, std::fabs(x - y)), size = std::max(size, std::fabs(y));
  });
  return size > 0 ? difference / size : difference;
}

} // namespace mrcc::testing
