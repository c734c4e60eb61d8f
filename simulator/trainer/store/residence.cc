#include "simulator/trainer/store/residence.h"

#include "simulator/tape/operations/copy.h"

namespace headroom::trainer {

void move_to_host(tape::Tape& tape, const tape::Tensor& tensor, HostKind kind) {
  if (!tensor.defined() || tensor->storage->device != tape::Device::gpu) return;
  const tape::ComponentScope component(tape, tensor->storage->label.component);
  tape.set_data(tensor, tape::to_host(tensor, kind));
}

void move_to_device(tape::Tape& tape, const tape::Tensor& tensor) {
  if (!tensor.defined() || tensor->storage->device == tape::Device::gpu) return;
  const tape::ComponentScope component(tape, tensor->storage->label.component);
  tape.set_data(tensor, tape::to_device(tensor));
}

}  // namespace headroom::trainer
