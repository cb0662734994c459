// Views of a launch in the form that kernel families take.
#include "mrcc/Form/Site.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mrcc;

std::vector<View> mrcc::viewsOf(LaunchOp launch) {
  std::vector<View> views;
  for (auto [attr, value] :
       llvm::zip_equal(*launch.getViews(), llvm::concat<Value>(launch->getResults(), launch->getOperands()))) {
    auto v = cast<ViewAttr>(attr);
    View view;
    view.space = llvm::StringSwitch<Space>(v.getSpace())
                     .Case("input", Space::input)
                     .Case("output", Space::output)
                     .Case("constant", Space::constant)
                     .Case("arena", Space::arena)
                     .Default(Space::absent);
    view.type = toDType(cast<RankedTensorType>(value.getType()).getElementType());
    view.index = v.getIndex();
    view.offset = v.getOffset();
    view.dims.assign(v.getDims().begin(), v.getDims().end());
    view.strides.assign(v.getStrides().begin(), v.getStrides().end());
    views.push_back(std::move(view));
  }
  return views;
}

/// NumPy broadcasting of a view to `dims`: leading dimensions are added, dimensions of 1 repeat.
static View broadcastView(View v, ArrayRef<int64_t> dims) {
  size_t lead = dims.size() - v.dims.size();
  std::vector<int64_t> strides(dims.size(), 0);
  for (size_t i = lead; i < dims.size(); ++i)
    strides[i] = v.dims[i - lead] == 1 ? 0 : v.strides[i - lead];
  v.strides = std::move(strides);
  v.dims.assign(dims.begin(), dims.end());
  return v;
}

/// Operands that the body of a loop reads by load_at (or asks for extents) keep their own dims.
static std::vector<bool> keepsDims(const LaunchSite &site) {
  std::vector<bool> keeps(site.numInputs(), false);
  for (const ExprNode &n : site.body.nodes) {
    if (n.op == ExprNode::Op::load_at)
      keeps[n.imm] = true;
    if (n.op == ExprNode::Op::extent)
      keeps[n.imm / 16] = true;
  }
  return keeps;
}

LaunchSite mrcc::siteOf(LaunchOp launch) {
  LaunchSite site;
  site.family = launch.getFamily().str();
  site.body = getBody(launch);
  site.outputs = launch->getNumResults();
  site.views = viewsOf(launch);
  for (NamedAttribute a : launch.getConfig()) {
    if (auto list = dyn_cast<DenseI64ArrayAttr>(a.getValue()))
      site.config[a.getName().str()].assign(list.asArrayRef().begin(), list.asArrayRef().end());
    else if (auto word = dyn_cast<StringAttr>(a.getValue()))
      site.words[a.getName().str()] = word.str();
  }
  if (auto it = site.config.find("immediates"); it != site.config.end()) {
    site.immediates = it->second;
    site.config.erase(it);
  }
  std::vector<int64_t> out = site.output().dims;
  if (site.family == "loop") {
    const std::vector<int64_t> extents = site.config["extents"];
    std::vector<bool> keeps = keepsDims(site);
    for (unsigned i = 0; i < site.views.size(); ++i) {
      View &v = site.views[i];
      if (i < site.outputs && v.dims.size() < extents.size()) // window dims of a reduction follow the output's
        while (v.dims.size() < extents.size()) {
          v.dims.push_back(1);
          v.strides.push_back(0);
        }
      if (i < site.outputs || !keeps[i - site.outputs])
        v = broadcastView(v, extents);
    }
    return site;
  }
  unsigned firstExtra = site.family == "softmax"                                     ? 1
                        : site.family == "layer_norm" || site.family == "group_norm" ? 1
                        : site.family == "attention"                                 ? 4
                                                                                     : 2;
  for (unsigned i = firstExtra; i < site.numInputs(); ++i)
    site.views[site.outputs + i] = broadcastView(site.views[site.outputs + i], out);
  if (site.family == "matmul") {
    auto batch = [&](View &v) {
      std::vector<int64_t> dims(out.begin(), out.end() - 2);
      dims.insert(dims.end(), v.dims.end() - 2, v.dims.end());
      v = broadcastView(v, dims);
      // The matrix itself never broadcasts: dims of 1 keep a stride that nothing reads.
    };
    batch(site.views[site.outputs]);
    if (!site.get("packed"))
      batch(site.views[site.outputs + 1]);
  }
  if (site.family == "attention" && site.get("mask")) {
    View &mask = site.views[site.outputs + 3];
    mask = broadcastView(mask, {out[0], out[1], out[2], site.input(1).dims[2]});
  }
  return site;
}
