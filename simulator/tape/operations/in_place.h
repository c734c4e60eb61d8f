#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// `view.div_(scalar)` on a view of `base`: nothing allocated forward. From here on the base's gradient comes
/// from a node of its own (CopySlices): backward makes zeros of the base for the view, a second tensor of the
/// base's size, a copy of the view's part and that part's gradient. Returns the view with its new place in
/// the graph.
Tensor div_in_place(Tensor view, const Tensor& base);

}  // namespace headroom::tape
