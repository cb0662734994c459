// Convolution as the kernels see it, and how conv and conv_transpose become that.
#pragma once
#include "Tile.h"

namespace mrcc {

/// One spatial dimension of a convolution. Output position o = phase + step * j; tap number t of the phase reads input
/// j * inputStep + start[phase] + t * inputDilation with weight firstTap[phase] + t * tapStep. A plain convolution has
/// one phase; a transposed one has as many as its stride, each a convolution with some of the taps.
struct ConvDim {
  int64_t kernel = 1, phases = 1;
  int64_t inputStep = 1, inputDilation = 1, tapStep = 1;
  std::vector<int64_t> firstTap, taps, start; // of each phase
};

struct ConvProblem {
  View out, in, weights;    // [N, spatial..., C] twice; packed "conv"
  std::vector<View> extras; // of out's rank
  std::vector<ConvDim> dims;
  int64_t group = 1;
  size_t spatial() const { return dims.size(); }
  int64_t taps() const {
    int64_t n = 1;
    for (const ConvDim &dim : dims)
      n *= dim.kernel;
    return n;
  }
};

llvm::Expected<ConvProblem> makeConvProblem(const LaunchSite &site, bool transposed);

/// A launch of family "conv" with the problem's body, types and flops; the rest is its algorithm's.
BoundLaunch startConv(const ConvProblem &problem, const LaunchSite &site);

/// The direct kernel ("conv", algorithm 0).
BoundLaunch bindDirect(const ConvProblem &problem, const LaunchSite &site, const Target &target);
void emitDirect(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb);

/// The kernel for few input channels.
bool fitsFew(const ConvProblem &problem);
BoundLaunch bindFew(const ConvProblem &problem, const LaunchSite &site, const Target &target);
void emitFew(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb);

/// The kernel for one output channel whose outputs read one input position each.
bool fitsOne(const ConvProblem &problem);
BoundLaunch bindOne(const ConvProblem &problem, const LaunchSite &site, const Target &target);
void emitOne(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb);

/// Winograd F(4x4, 3x3), where the rule of fitsWinograd says that it is faster.
bool fitsWinograd(const ConvProblem &problem, const LaunchSite &site);
BoundLaunch bindWinograd(const ConvProblem &problem, const LaunchSite &site, const Target &target);
void emitWinograd(const KernelDescription &kernel, const Expr &body, KernelBuilder &kb);

/// Input channels of one chunk of packed weights: the largest divisor up to 80.
int64_t chunkOf(int64_t channels);

} // namespace mrcc
