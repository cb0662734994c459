// Runs the ONNX project's tests: see --help. Cases run in chunks, each in a forked child that writes a line when a case
// begins and one when it ends; a child that dies costs the case it was at, and the rest of its chunk gets a new child.
#include "Execute.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <csignal>
#include <deque>
#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mrcc::test;
using llvm::StringRef;

static constexpr char usage[] = R"(usage: mrcc-conformance DIR [options]

DIR holds a folder a case, as test/conformance/export.py writes them. Each is compiled for the shapes of its data, loaded by
the runtime, run and compared.

  --filter RE            only the cases whose name matches
  --jobs N               processes at a time (2)
  --expect FILE          exit 1 unless every case named there (one a line) passes; with --filter those that match
  --json OUT             {"cases": [{"name", "status": passed|failed|refused|crashed, "kernels", "reason"}]}
  --through memory|file  where bundles are loaded from (memory, and every 16th case from a file)

Exit codes: 0 done, 1 an expected case did not pass, 2 usage.
)";

namespace {

struct Options {
  std::string folder, filter = ".*", expect, json, through;
  size_t jobs = 2;
};

struct Entry {
  std::string name;
  Outcome outcome;
};

constexpr size_t chunkSize = 24;
constexpr unsigned secondsOfCase = 30; // of CPU; a case that takes longer hangs

struct Child {
  pid_t pid = 0;
  int pipe = -1;
  std::deque<size_t> left; // cases, the first one is being run
  std::string text;        // read and not yet a line
};

class Runner {
public:
  Runner(const Options &options, std::vector<Entry> &cases) : options(options), cases(cases) {
    for (size_t i = 0; i < cases.size(); ++i)
      waiting.push_back(i);
  }
  void run();

private:
  void start(std::deque<size_t> chunk);
  [[noreturn]] void work(const std::deque<size_t> &chunk, int pipe);
  void receive(Child &child);
  void finish(Child &child);

  const Options &options;
  std::vector<Entry> &cases;
  std::deque<size_t> waiting;
  std::vector<Child> children;
};

void Runner::work(const std::deque<size_t> &chunk, int pipe) {
  llvm::raw_fd_ostream out(pipe, /*shouldClose=*/true);
  for (size_t i : chunk) {
    itimerval limit{{0, 0}, {secondsOfCase, 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    std::string scratch;
    if (options.through == "file" || (options.through.empty() && i % 16 == 0))
      scratch = options.folder + "/.bundle-" + std::to_string(getpid()) + ".mrcb";
    Outcome o = execute(options.folder + "/" + cases[i].name, scratch);
    llvm::json::Value line = llvm::json::Array{int64_t(o.status), int64_t(o.kernels), llvm::json::fixUTF8(o.reason)};
    out << line << "\n";
    out.flush();
  }
  out.close();
  _exit(0);
}

void Runner::start(std::deque<size_t> chunk) {
  int ends[2];
  if (pipe(ends))
    llvm::report_fatal_error("no pipe");
  llvm::outs().flush();
  pid_t pid = fork();
  if (pid < 0)
    llvm::report_fatal_error("no process");
  if (pid == 0) {
    close(ends[0]);
    work(chunk, ends[1]);
  }
  close(ends[1]);
  children.push_back({pid, ends[0], std::move(chunk), ""});
}

/// A line is the outcome of the first case that is left.
void Runner::receive(Child &child) {
  for (size_t end; (end = child.text.find('\n')) != std::string::npos; child.text.erase(0, end + 1)) {
    auto line = llvm::json::parse(StringRef(child.text).take_front(end));
    if (!line || child.left.empty())
      llvm::report_fatal_error("a child wrote something else than an outcome");
    llvm::json::Array &o = *line->getAsArray();
    cases[child.left.front()].outcome = {Status(*o[0].getAsInteger()), o[2].getAsString()->str(),
                                         uint64_t(*o[1].getAsInteger())};
    child.left.pop_front();
  }
}

void Runner::finish(Child &child) {
  close(child.pipe);
  int status = 0;
  waitpid(child.pid, &status, 0);
  if (child.left.empty())
    return;
  Outcome &o = cases[child.left.front()].outcome;
  o.status = Status::crashed;
  o.reason = !WIFSIGNALED(status)          ? "it ended the process, exit code " + std::to_string(WEXITSTATUS(status))
             : WTERMSIG(status) == SIGPROF ? "it took more than " + std::to_string(secondsOfCase) + " s of CPU"
                                           : "signal " + std::to_string(WTERMSIG(status));
  child.left.pop_front();
  waiting.insert(waiting.begin(), child.left.begin(), child.left.end());
}

void Runner::run() {
  while (!waiting.empty() || !children.empty()) {
    while (!waiting.empty() && children.size() < options.jobs) {
      size_t n = std::min(chunkSize, waiting.size());
      std::deque<size_t> chunk(waiting.begin(), waiting.begin() + long(n));
      waiting.erase(waiting.begin(), waiting.begin() + long(n));
      start(std::move(chunk));
    }
    std::vector<pollfd> fds;
    for (Child &child : children)
      fds.push_back({child.pipe, POLLIN, 0});
    if (poll(fds.data(), fds.size(), -1) < 0)
      continue;
    for (size_t i = children.size(); i-- > 0;) {
      if (!fds[i].revents)
        continue;
      char buffer[4096];
      ssize_t n = read(children[i].pipe, buffer, sizeof buffer);
      if (n > 0) {
        children[i].text.append(buffer, size_t(n));
        receive(children[i]);
      } else {
        Child done = std::move(children[i]);
        children.erase(children.begin() + long(i));
        finish(done);
      }
    }
  }
}

bool parse(int argc, char **argv, Options &o, std::string &problem) {
  for (int i = 1; i < argc; ++i) {
    StringRef a = argv[i];
    std::string *text = a == "--filter"    ? &o.filter
                        : a == "--expect"  ? &o.expect
                        : a == "--json"    ? &o.json
                        : a == "--through" ? &o.through
                                           : nullptr;
    if ((text || a == "--jobs") && i + 1 == argc)
      problem = a.str() + " needs a value";
    else if (text)
      *text = argv[++i];
    else if (a == "--jobs") {
      if (StringRef(argv[++i]).getAsInteger(10, o.jobs) || o.jobs == 0)
        problem = "--jobs takes a number, got '" + std::string(argv[i]) + "'";
    } else if (a.starts_with("-") || !o.folder.empty())
      problem = "unexpected argument '" + a.str() + "'";
    else
      o.folder = a.str();
  }
  if (problem.empty() && o.folder.empty())
    problem = "no folder is given";
  if (problem.empty() && !o.through.empty() && o.through != "memory" && o.through != "file")
    problem = "--through is memory or file, got '" + o.through + "'";
  std::string why;
  if (problem.empty() && !llvm::Regex(o.filter).isValid(why))
    problem = "--filter: " + why;
  return problem.empty();
}

/// Names of FILE that do not pass.
std::vector<std::string> missing(StringRef text, const llvm::Regex &filter, const std::vector<Entry> &cases) {
  std::set<std::string> passed;
  for (const Entry &e : cases)
    if (e.outcome.status == Status::passed)
      passed.insert(e.name);
  std::vector<std::string> out;
  llvm::SmallVector<StringRef> lines;
  text.split(lines, '\n');
  for (StringRef line : lines) {
    StringRef name = line.split('#').first.trim();
    if (!name.empty() && filter.match(name) && !passed.count(name.str()))
      out.push_back(name.str());
  }
  return out;
}

int fail(const std::string &problem) {
  llvm::errs() << "mrcc-conformance: " << problem << "\n";
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  std::string problem;
  if (argc == 2 && StringRef(argv[1]) == "--help") {
    llvm::outs() << usage;
    return 0;
  }
  if (!parse(argc, argv, options, problem))
    return fail(problem + "; see --help");
  std::unique_ptr<llvm::MemoryBuffer> expected;
  if (!options.expect.empty()) {
    auto file = llvm::MemoryBuffer::getFile(options.expect);
    if (!file)
      return fail(options.expect + ": " + file.getError().message());
    expected = std::move(*file);
  }
  llvm::Regex filter(options.filter);
  std::vector<Entry> cases;
  std::error_code ec;
  for (llvm::sys::fs::directory_iterator i(options.folder, ec), end; !ec && i != end; i.increment(ec)) {
    std::string name = llvm::sys::path::filename(i->path()).str();
    if (filter.match(name) && llvm::sys::fs::exists(i->path() + "/model.onnx"))
      cases.push_back({name, {}});
  }
  if (ec)
    return fail(options.folder + ": " + ec.message());
  if (cases.empty())
    return fail(options.folder + " has no case of that name");
  llvm::sort(cases, [](const Entry &a, const Entry &b) { return a.name < b.name; });

  auto start = std::chrono::steady_clock::now();
  Runner(options, cases).run();
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;

  size_t counts[4] = {}, generated = 0;
  llvm::json::Array list;
  for (const Entry &e : cases) {
    const Outcome &o = e.outcome;
    ++counts[size_t(o.status)];
    generated += o.status == Status::passed && o.kernels;
    if (o.status != Status::passed)
      llvm::outs() << e.name << ": " << statusName(o.status) << ": " << o.reason << "\n";
    list.push_back(llvm::json::Object{
        {"name", e.name}, {"status", statusName(o.status)}, {"kernels", int64_t(o.kernels)}, {"reason", o.reason}});
  }
  rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  llvm::outs() << cases.size() << " cases: " << counts[0] << " passed (" << generated << " of them ran a kernel), "
               << counts[1] << " failed, " << counts[2] << " refused, " << counts[3] << " crashed; "
               << int(took.count()) << " s, " << used.ru_utime.tv_sec + used.ru_stime.tv_sec << " s of CPU\n";
  if (!options.json.empty()) {
    llvm::raw_fd_ostream os(options.json, ec);
    if (ec)
      return fail(options.json + ": " + ec.message());
    os << llvm::json::Value(llvm::json::Object{{"cases", std::move(list)}}) << "\n";
  }
  if (!expected)
    return 0;
  std::vector<std::string> lost = missing(expected->getBuffer(), filter, cases);
  for (const std::string &name : lost)
    llvm::outs() << "expected to pass: " << name << "\n";
  return lost.empty() ? 0 : 1;
}
