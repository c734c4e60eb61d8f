#include "validator/work_ledger.h"

#include <algorithm>

#include "simulator/tape/core/names.h"
#include "simulator/time/kernel_seconds.h"

namespace headroom::gpu {
namespace {

constexpr std::size_t kHeaviest = 10;

// In the order of OperationKind.
constexpr std::array kKindNames = {
    "matmul",
    "attention_forward",
    "attention_backward",
    "norm_forward",
    "norm_backward",
    "elementwise",
    "reduce",
    "softmax",
    "cross_entropy",
    "embedding",
    "embedding_backward",
    "gather",
    "copy",
    "dropout",
    "rotary",
    "sample",
    "optimizer",
    "host_to_device",
    "device_to_host",
    "all_gather",
    "reduce_scatter",
    "all_reduce",
    "all_to_all",
    "broadcast",
};
static_assert(kKindNames.size() == static_cast<std::size_t>(OperationKind::broadcast) + 1);

template <class Figure>
std::vector<NamedOperation> heaviest(std::vector<NamedOperation> all, Figure figure) {
  const auto most = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kHeaviest));
  std::partial_sort(all.begin(), most, all.end(), [&](const NamedOperation& a, const NamedOperation& b) {
    return a.*figure != b.*figure ? a.*figure > b.*figure : a.name < b.name;
  });
  return {all.begin(), most};
}

}  // namespace

const char* kind_name(OperationKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

KindCount WorkSummary::total() const {
  KindCount sum;
  for (const auto& [kind, count] : kinds) {
    sum.operations += count.operations;
    sum.host += count.host;
    sum.alone += count.alone;
    sum.touched += count.touched;
    sum.bytes += count.bytes;
    sum.flops += count.flops;
  }
  return sum;
}

std::vector<std::string> WorkSummary::heaviest_touched() const {
  std::vector<std::string> names;
  for (const auto* list : {&by_memory, &by_time})
    for (const NamedOperation& operation : *list)
      if (operation.touched > 0 && std::find(names.begin(), names.end(), operation.name) == names.end())
        names.push_back(operation.name);
  return names;
}

double WorkLedger::seconds(const Operation& operation) const {
  constexpr std::int64_t kGpusPerNode = 8;
  return hardware_.memory_bandwidth > 0
             ? kernel_seconds(operation, kernel_form(tape::operation_text(operation.label.operation)),
                              hardware_, kGpusPerNode)
             : static_cast<double>(operation.bytes);
}

WorkLedger::Entry WorkLedger::did(const Operation& operation, Done done, Bytes host_bytes) {
  KindCount& kind = kinds_[static_cast<std::size_t>(operation.kind)];
  ++kind.operations;
  kind.host += done == Done::host;
  kind.alone += done == Done::alone;
  kind.touched += done == Done::touched;
  kind.bytes += static_cast<double>(operation.bytes + host_bytes);
  kind.flops += operation.flops;
  const std::size_t index = 2 * std::size_t{operation.label.operation} + (done == Done::touched);
  if (index >= named_.size()) named_.resize(index + 1);
  ++named_[index].operations;
  named_[index].seconds += seconds(operation);
  return static_cast<Entry>(index);
}

void WorkLedger::took(Entry entry, Bytes bytes) {
  Named& name = named(entry);
  name.held += bytes;
  name.highest = std::max(name.highest, name.held);
}

void WorkLedger::gave(Entry entry, Bytes bytes) {
  named(entry).held -= bytes;
}

WorkSummary WorkLedger::summary() const {
  WorkSummary out;
  for (std::size_t i = 0; i < kinds_.size(); ++i)
    if (kinds_[i].operations > 0) out.kinds[kKindNames[i]] = kinds_[i];
  std::vector<NamedOperation> all;
  for (std::size_t i = 0; i < named_.size(); ++i) {
    const Named& name = named_[i];
    if (name.operations == 0) continue;
    const std::string& text = tape::operation_text(static_cast<std::uint16_t>(i / 2));
    const bool touched = i % 2 == 1;
    if (touched) out.touched[text] = name.operations;
    all.push_back({text, name.operations, touched ? name.operations : 0, name.highest, name.seconds});
  }
  out.by_memory = heaviest(all, &NamedOperation::held);
  out.by_time = heaviest(std::move(all), &NamedOperation::seconds);
  return out;
}

}  // namespace headroom::gpu
