#include "simulator/tape/optimizers/adamw_work.h"

#include "simulator/tape/operations/work.h"

namespace headroom::tape {

void adamw_work(Tape& tape, std::uint16_t name, const Tensor& parameter, const Tensor& gradient,
                const Tensor& average, const Tensor& square_average) {
  if (!tape.wants_operations()) return;
  Work(tape, OperationKind::optimizer, name)
      .in(parameter)
      .in(gradient)
      .in(average)
      .in(square_average)
      .out(parameter)
      .out(average)
      .out(square_average)
      .run();
}

}  // namespace headroom::tape
