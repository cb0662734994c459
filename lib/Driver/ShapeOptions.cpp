// From shape options to variants. --size finds the image input and its layout, then every open dimension must follow
// from --dim, from a symbol that the image bound, or from the batch rule; what does not is an error with the --shape to
// write.
#include "mrcc/Driver/ShapeOptions.h"
#include "ShapeText.h"
#include "llvm/ADT/StringExtras.h"

using namespace mrcc;
using llvm::Error;
using llvm::Expected;
using llvm::Twine;

using Symbols = std::map<std::string, int64_t>;

std::string mrcc::listNames(const std::vector<std::string> &names) {
  std::string out;
  for (size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "'" : i + 1 == names.size() ? " and '" : ", '") + names[i] + "'";
  return out.empty() ? "none" : out;
}

namespace {

/// Axes of the image input.
struct Image {
  size_t input = 0, channels = 1, height = 2, width = 3;
};

class Resolver {
public:
  Resolver(const ModelInfo &model, const std::set<std::string> &bound) {
    for (const ModelTensor &t : model.inputs)
      if (!bound.count(t.name)) {
        inputs.push_back(t);
        names.push_back(t.name);
      }
  }
  Expected<ShapeList> run(const ShapeOptions &options);

private:
  Error sizesAndDims(const ShapeOptions &options);
  Error written(const WrittenShape &shape);
  Expected<Image> findImage(int64_t height, int64_t width) const;
  Error product(llvm::ArrayRef<std::pair<std::string, std::vector<int64_t>>> dims, size_t next, Symbols &symbols,
                llvm::ArrayRef<std::pair<int64_t, int64_t>> sizes, const std::optional<Image> &image);
  Error one(Symbols symbols, const Image *image, std::pair<int64_t, int64_t> size);
  void add(VariantShapes shapes);
  std::string suggestion(const Symbols &symbols, const Image *image, std::pair<int64_t, int64_t> size) const;
  std::string modelShapes() const;
  bool isOpen(const ModelTensor &t) const { return !t.ranked || llvm::is_contained(t.dims, -1); }

  std::vector<ModelTensor> inputs;
  std::vector<std::string> names;
  ShapeList list;
  std::map<VariantShapes, unsigned> count;
};

} // namespace

/// "x: Nx3x?x?" of every input.
std::string Resolver::modelShapes() const {
  std::string out;
  for (const ModelTensor &t : inputs) {
    out += (out.empty() ? "'" : ", '") + t.name + "': ";
    if (!t.ranked)
      out += "any rank";
    else if (t.dims.empty())
      out += "scalar";
    for (size_t i = 0; i < t.dims.size(); ++i)
      out += (i ? "x" : "") + (t.dims[i] >= 0 ? std::to_string(t.dims[i]) : t.symbols[i].empty() ? "?" : t.symbols[i]);
  }
  return out;
}

/// The --shape value with all that is known; a dimension that nothing says is its symbol or "?".
std::string Resolver::suggestion(const Symbols &symbols, const Image *image, std::pair<int64_t, int64_t> size) const {
  std::string out;
  bool placeholder = false;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const ModelTensor &t = inputs[k];
    std::string name = variantKey({t.name}, {{{}}});
    out += (k ? ";" : "") + name.substr(0, name.rfind('=') + 1);
    if (t.ranked && t.dims.empty())
      out += "scalar";
    if (!t.ranked) {
      out += "?";
      placeholder = true;
    }
    for (size_t i = 0; i < t.dims.size(); ++i) {
      out += i ? "x" : "";
      auto bound = symbols.find(t.symbols[i]);
      if (image && image->input == k && (i == image->height || i == image->width))
        out += std::to_string(i == image->height ? size.first : size.second);
      else if (t.dims[i] >= 0)
        out += std::to_string(t.dims[i]);
      else if (!t.symbols[i].empty() && bound != symbols.end())
        out += std::to_string(bound->second);
      else if (i == 0)
        out += "1"; // the batch, nearly always
      else {
        out += t.symbols[i].empty() ? "?" : t.symbols[i];
        placeholder = true;
      }
    }
  }
  // In a shell's single quotes, so that names in double quotes survive.
  return "--shape '" + out + "'" + (placeholder ? " with numbers in place of the open dimensions" : "");
}

/// The only input of rank 4, and where its channels are: in the dimension that is fixed; if both could be, in the one
/// that is at most 4, then in the smallest one.
Expected<Image> Resolver::findImage(int64_t height, int64_t width) const {
  std::vector<size_t> candidates;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (inputs[k].ranked && inputs[k].dims.size() == 4)
      candidates.push_back(k);
  auto size = std::pair(height, width);
  if (inputs.empty())
    return usageError("--size: the model has no input left, --bind makes all of them constant");
  if (candidates.empty())
    return usageError("--size: the model has no image input, one of 4 dimensions (" + modelShapes() + "); write " +
                      suggestion({}, nullptr, size));
  if (candidates.size() > 1) {
    std::vector<std::string> found;
    for (size_t k : candidates)
      found.push_back(inputs[k].name);
    return usageError("--size: which image is meant is ambiguous, the model has " + Twine(found.size()) + ": " +
                      listNames(found) + "; write " + suggestion({}, nullptr, size));
  }
  const Image first{candidates[0], 1, 2, 3}, last{candidates[0], 3, 1, 2};
  const std::vector<int64_t> &d = inputs[candidates[0]].dims;
  if (d[1] < 0 && d[3] < 0)
    return usageError("--size: which dimension of input '" + inputs[first.input].name +
                      "' holds the channels is ambiguous, the model leaves all open; write " +
                      suggestion({}, &first, size));
  if (d[1] < 0 || d[3] < 0)
    return d[1] < 0 ? last : first;
  if (bool few1 = d[1] <= 4, few3 = d[3] <= 4; few1 != few3)
    return few1 ? first : last;
  if (d[1] < d[3] && (d[2] < 0 || d[1] < d[2]))
    return first;
  if (d[3] < d[1] && (d[2] < 0 || d[3] < d[2]))
    return last;
  return usageError("--size: whether input '" + inputs[first.input].name + "' (" + modelShapes() +
                    ") has its channels first or last is ambiguous; write " + suggestion({}, &first, size) + " or " +
                    suggestion({}, &last, size));
}

void Resolver::add(VariantShapes shapes) {
  if (++count[shapes] == 1)
    list.variants.push_back(std::move(shapes));
}

Error Resolver::one(Symbols symbols, const Image *image, std::pair<int64_t, int64_t> size) {
  VariantShapes shapes;
  shapes.dims.resize(inputs.size());
  if (image) {
    const ModelTensor &t = inputs[image->input];
    auto bind = [&](size_t axis, int64_t value, const char *what) -> Error {
      if (t.symbols[axis].empty() || t.dims[axis] >= 0)
        return Error::success();
      auto [it, fresh] = symbols.try_emplace(t.symbols[axis], value);
      if (fresh || it->second == value)
        return Error::success();
      return usageError("dimension '" + t.symbols[axis] + "' of input '" + t.name + "' is given two values: " +
                        Twine(it->second) + " and, as the " + what + " of --size, " + Twine(value));
    };
    if (Error error = bind(image->height, size.first, "height"))
      return error;
    if (Error error = bind(image->width, size.second, "width"))
      return error;
    if (t.dims[0] < 0 && !t.symbols[0].empty())
      symbols.try_emplace(t.symbols[0], 1);
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    const ModelTensor &t = inputs[k];
    if (!t.ranked)
      return usageError("the model says nothing of the shape of input '" + t.name + "'; write " +
                        suggestion(symbols, image, size));
    for (size_t i = 0; i < t.dims.size(); ++i) {
      bool isImage = image && image->input == k;
      auto bound = t.symbols[i].empty() ? symbols.end() : symbols.find(t.symbols[i]);
      if (isImage && i == image->height)
        shapes.dims[k].push_back(size.first);
      else if (isImage && i == image->width)
        shapes.dims[k].push_back(size.second);
      else if (t.dims[i] < 0 && bound != symbols.end())
        shapes.dims[k].push_back(bound->second);
      else if (isImage && i == 0)
        shapes.dims[k].push_back(1); // also where the model fixes another number
      else if (t.dims[i] >= 0)
        shapes.dims[k].push_back(t.dims[i]);
      else {
        std::string which = t.symbols[i].empty() ? "" : " ('" + t.symbols[i] + "')";
        return usageError("dimension " + Twine(i) + which + " of input '" + t.name +
                          "' is open and no option gives it (" + modelShapes() + "); write " +
                          (which.empty() ? "" : "--dim " + t.symbols[i] + "=N or ") + suggestion(symbols, image, size));
      }
    }
  }
  add(std::move(shapes));
  return Error::success();
}

Error Resolver::product(llvm::ArrayRef<std::pair<std::string, std::vector<int64_t>>> dims, size_t next,
                        Symbols &symbols, llvm::ArrayRef<std::pair<int64_t, int64_t>> sizes,
                        const std::optional<Image> &image) {
  if (next < dims.size()) {
    for (int64_t value : dims[next].second) {
      symbols[dims[next].first] = value;
      if (Error error = product(dims, next + 1, symbols, sizes, image))
        return error;
    }
    symbols.erase(dims[next].first);
    return Error::success();
  }
  if (!image)
    return one(symbols, nullptr, {});
  for (auto size : sizes)
    if (Error error = one(symbols, &*image, size))
      return error;
  return Error::success();
}

Error Resolver::sizesAndDims(const ShapeOptions &options) {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  for (const std::string &text : options.sizes) {
    auto some = scanSizes(text);
    if (!some)
      return some.takeError();
    sizes.insert(sizes.end(), some->begin(), some->end());
  }
  std::vector<std::string> known;
  for (const ModelTensor &t : inputs)
    for (size_t i = 0; i < t.dims.size(); ++i)
      if (t.dims[i] < 0 && !t.symbols[i].empty() && !llvm::is_contained(known, t.symbols[i]))
        known.push_back(t.symbols[i]);
  std::vector<std::pair<std::string, std::vector<int64_t>>> dims;
  for (const std::string &text : options.dims) {
    auto some = scanDim(text);
    if (!some)
      return some.takeError();
    if (!llvm::is_contained(known, some->first))
      return usageError("--dim: the model's inputs have no dimension '" + some->first +
                        "'; those that have a name are " + listNames(known));
    auto same = llvm::find_if(dims, [&](auto &d) { return d.first == some->first; });
    if (same != dims.end())
      same->second.insert(same->second.end(), some->second.begin(), some->second.end());
    else
      dims.push_back(std::move(*some));
  }
  std::optional<Image> image;
  if (!sizes.empty()) {
    auto found = findImage(sizes[0].first, sizes[0].second);
    if (!found)
      return found.takeError();
    image = *found;
  }
  Symbols symbols;
  return product(dims, 0, symbols, sizes, image);
}

Error Resolver::written(const WrittenShape &shape) {
  VariantShapes shapes;
  shapes.dims.resize(inputs.size());
  std::vector<bool> given(inputs.size());
  std::map<std::string, std::tuple<int64_t, size_t, size_t>> symbols; // value, input, dimension
  for (auto &[name, dims] : shape.dims) {
    size_t k = llvm::find(names, name) - names.begin();
    if (k == names.size())
      return usageError(shape.where + ": the model has no input '" + name + "'; its inputs are " + listNames(names));
    const ModelTensor &t = inputs[k];
    if (t.ranked && t.dims.size() != dims.size())
      return usageError(shape.where + ": input '" + name + "' has " + Twine(t.dims.size()) + " dimensions (" +
                        modelShapes() + "), got " + Twine(dims.size()));
    given[k] = true;
    shapes.dims[k] = dims;
    for (size_t i = 0; t.ranked && i < dims.size(); ++i) {
      if (t.dims[i] >= 0 || t.symbols[i].empty())
        continue;
      auto [it, fresh] = symbols.try_emplace(t.symbols[i], dims[i], k, i);
      auto [value, otherInput, otherDim] = it->second;
      if (!fresh && value != dims[i])
        return usageError(shape.where + ": dimension '" + t.symbols[i] + "' is given two values: " + Twine(value) +
                          " (dimension " + Twine(otherDim) + " of input '" + names[otherInput] + "') and " +
                          Twine(dims[i]) + " (dimension " + Twine(i) + " of input '" + name + "')");
    }
  }
  std::vector<std::string> missing;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (!given[k])
      missing.push_back(names[k]);
  if (!missing.empty())
    return usageError(shape.where + ": no shape for " + listNames(missing) + "; the model's inputs are " +
                      modelShapes());
  add(std::move(shapes));
  return Error::success();
}

Expected<ShapeList> Resolver::run(const ShapeOptions &options) {
  bool any = !options.shapes.empty() || !options.shapesFile.empty();
  if (!options.sizes.empty() || !options.dims.empty()) {
    if (Error error = sizesAndDims(options))
      return std::move(error);
  } else if (!any) {
    if (llvm::any_of(inputs, [&](const ModelTensor &t) { return isOpen(t); }))
      return usageError("no resolutions are named and the model leaves dimensions open (" + modelShapes() +
                        "): use --size, --dim, --shapes-file or " + suggestion({}, nullptr, {}));
    if (Error error = one({}, nullptr, {}))
      return std::move(error);
  }
  for (const std::string &text : options.shapes) {
    std::string where = "--shape '" + text + "'";
    auto dims = scanShape(text, where, false);
    if (!dims)
      return dims.takeError();
    if (Error error = written({std::move(*dims), where}))
      return std::move(error);
  }
  if (!options.shapesFile.empty()) {
    auto shapes = readShapesFile(options.shapesFile);
    if (!shapes)
      return shapes.takeError();
    if (shapes->empty())
      return usageError("--shapes-file " + options.shapesFile + ": it names no shape");
    for (const WrittenShape &shape : *shapes)
      if (Error error = written(shape))
        return std::move(error);
  }
  for (const VariantShapes &shapes : list.variants)
    if (unsigned n = count[shapes]; n > 1)
      list.notes.push_back("shape " + variantKey(names, shapes) + " is given " + std::to_string(n) +
                           " times; one is compiled");
  return std::move(list);
}

Expected<ShapeList> mrcc::resolveShapes(const ModelInfo &model, const std::set<std::string> &bound,
                                        const ShapeOptions &options) {
  for (const std::string &name : bound)
    if (llvm::none_of(model.inputs, [&](const ModelTensor &t) { return t.name == name; })) {
      std::vector<std::string> names;
      for (const ModelTensor &t : model.inputs)
        names.push_back(t.name);
      return usageError("--bind: the model has no input '" + name + "'; its inputs are " + listNames(names));
    }
  return Resolver(model, bound).run(options);
}
