// Many kernels at once: each compiled on one of several threads, linked in the order of keys, so that the image does
// not depend on the number of threads or on the order asked for.
#include "mrcc/Codegen/Codegen.h"
#include "Compiler.h"
#include "llvm/Support/Threading.h"
#include <atomic>
#include <mutex>
#include <thread>

namespace mrcc {

unsigned numThreads(unsigned jobs) { return jobs ? jobs : llvm::hardware_concurrency().compute_thread_count(); }

llvm::Expected<CodeImage> compileKernels(std::vector<KernelDescription> kernels, const Target &target, unsigned jobs,
                                         std::function<void(size_t, size_t)> progress) {
  std::vector<std::pair<std::string, size_t>> order;
  for (size_t i = 0; i < kernels.size(); ++i)
    order.emplace_back(kernels[i].key(), i);
  llvm::sort(order);
  order.erase(std::unique(order.begin(), order.end(), [](auto &a, auto &b) { return a.first == b.first; }),
              order.end());
  CodeImage image;
  for (auto &[key, i] : order)
    image.kernels.push_back({kernels[i]});
  const size_t count = image.kernels.size();
  if (count == 0)
    return image;

  std::vector<Object> objects(count);
  std::vector<std::string> errors(count);
  std::vector<std::error_code> kinds(count);
  std::atomic<size_t> next = 0;
  size_t done = 0;
  std::mutex mutex;
  auto work = [&] {
    Compiler compiler(target);
    for (size_t i; (i = next++) < count;) {
      if (auto object = compiler.compile(image.kernels[i].kernel))
        objects[i] = std::move(*object);
      else
        llvm::handleAllErrors(object.takeError(), [&](const llvm::ErrorInfoBase &e) {
          errors[i] = e.message();
          kinds[i] = e.convertToErrorCode();
        });
      std::lock_guard lock(mutex);
      ++done;
      if (progress)
        progress(done, count);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::min<size_t>(numThreads(jobs), count); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (size_t i = 0; i < count; ++i)
    if (!errors[i].empty())
      return llvm::createStringError(kinds[i], errors[i]);

  std::vector<uint64_t> offsets;
  auto bytes = linkImage(objects, target, offsets);
  if (!bytes)
    return bytes.takeError();
  image.bytes = std::move(*bytes);
  for (size_t i = 0; i < count; ++i) {
    image.kernels[i].offset = offsets[i];
    image.kernels[i].bytes = objects[i].codeBytes;
  }
  return image;
}

} // namespace mrcc
