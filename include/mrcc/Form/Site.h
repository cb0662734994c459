// From a planned launch to what its kernel family binds.
#pragma once
#include "mrcc/Form/Launch.h"

namespace mrcc {

/// The launch's views, brought to the domain that its family documents (ARCHITECTURE.md): operands that broadcast get
/// the output's rank and stride 0. plan-memory must have run.
LaunchSite siteOf(LaunchOp launch);

/// The views as they stand in the IR, results first.
std::vector<View> viewsOf(LaunchOp launch);

} // namespace mrcc
