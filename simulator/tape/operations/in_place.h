#pragma once

#include "simulator/tape/core/tape.h"

namespace headroom::tape {

/// `view.div_(scalar)` on a view of `base`: nothing allocated forward. From here on the base's gradient comes
/// from a node of its own (CopySlices): backward makes zeros of the base for the view, a second tensor of the
/// base's size, a copy of the view's part and that part's gradient. Returns the view with its new place in
/// the graph.
Tensor div_in_place(Tensor view, const Tensor& base);

/// `base[first:first + rows of source] = source`: nothing allocated forward. Backward the base's gradient is
/// copied whole, then the rows' part of it; the copy, with those rows zeroed, goes on to what the base was
/// before, the part to the source. Returns the base with its new place in the graph.
Tensor copy_rows_in_place(Tensor base, std::int64_t first, const Tensor& source);
/// `self /= divisor` by a tensor: with autograd self is copied first, for the divisor's gradient. Returns
/// self with its new place in the graph.
Tensor div_in_place_by(Tensor self, const Tensor& divisor);
/// `base[part].copy_(source)`: nothing allocated forward. Backward: the base's gradient
/// anew, a copy of the part for the source, and zeros of the part where the base had a place in the graph.
/// Returns the base with its new one.
Tensor copy_into_part(Tensor base, const Tensor& source);
/// `self += other` with autograd: nothing allocated.
Tensor add_in_place_of(Tensor self, const Tensor& other);
/// `self.masked_fill_(mask, number)`: nothing allocated forward; saves the mask.
Tensor masked_fill_in_place(Tensor self, const Tensor& mask);

}  // namespace headroom::tape
