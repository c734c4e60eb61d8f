#include "validator/memory/gpu_memory.h"

#include <algorithm>
#include <utility>

#include "validator/host/numbers.h"
#include "validator/host/vector.h"
#include "validator/kernels/transfer.h"

namespace headroom::gpu {

GpuMemory::GpuMemory(SimulatedMemory& accounts, GpuDevice& device, Streams& streams, Worker& worker,
                     WorkLedger& ledger)
    : accounts_(accounts),
      device_(device),
      streams_(streams),
      worker_(worker),
      ledger_(ledger),
      pinned_(accounts.allocator().settings(), host_, device) {}

GpuMemory::~GpuMemory() {
  static_cast<void>(cudaDeviceSynchronize());
  for (Host& host : hosts_) give_back(host);
  pinned_.empty_cache();
}

Block GpuMemory::allocate(Bytes requested, Stream stream, Label label) {
  const Block block = accounts_.allocate(requested, stream, label);
  if (block == kNoBlock) {
    failed_ = failed_ || requested > 0;
    return block;
  }
  if (failed_) return block;
  const auto id = static_cast<allocator::BlockId>(block);
  void* at = reinterpret_cast<void*>(accounts_.allocator().address(id));
  const Bytes bytes = accounts_.allocator().size(id);
  if (label.component == Component::workspaces && requested > 4 * kMiB) {
    worker_.use_workspace(at, requested);
  } else if (label.component == Component::weights) {
    auto handle = streams_.get(stream);
    // Small bf16 numbers are small numbers in fp32 too.
    error_ = handle ? fill_random(at, -0.05f, 0.05f, seed_++, DType::bf16, bytes / 2, *handle)
                    : Status(fail(handle.error()));
    failed_ = !error_;
  }
  return block;
}

void GpuMemory::free(Block block) {
  if (const auto index = static_cast<std::size_t>(block); index < writers_.size()) {
    const Writer writer = std::exchange(writers_[index], {});
    if (writer.bytes > 0) ledger_.gave(writer.entry, writer.bytes);
  }
  accounts_.free(block);
}

HostBlock GpuMemory::allocate_host(Bytes requested, HostKind kind, Component component) {
  const HostBlock block = accounts_.allocate_host(requested, kind, component);
  if (block == kNoHostBlock || failed_) return block;
  const auto index = static_cast<std::size_t>(block);
  if (index >= hosts_.size()) hosts_.resize(index + 1);
  Host& host = hosts_[index];
  host = Host{};
  host.bytes = requested;
  if (kind == HostKind::pinned) {
    host.pinned = pinned_.allocate(requested);
    if (host.pinned == allocator::kOutOfHostMemory) {
      host.pinned = allocator::kNullPinnedBlock;
      host.bytes = 0;
      error_ = host_.error()
                   ? Status(fail("the host has no page-locked memory left: give the machine more, or "
                                 "offload less"))
                   : host_.error();
      failed_ = true;
      return block;
    }
    host.at = reinterpret_cast<char*>(pinned_.address(host.pinned));
  } else {
    host.at = pageable_.allocate(requested);
    if (host.at == nullptr) {
      host.bytes = 0;
      error_ = fail("the host has no memory left: give the machine more, or offload less");
      failed_ = true;
      return block;
    }
  }
  last_host_ = index;
  return block;
}

void GpuMemory::free_host(HostBlock block) {
  accounts_.free_host(block);
  const auto index = static_cast<std::size_t>(block);
  if (block == kNoHostBlock || index >= hosts_.size()) return;
  give_back(hosts_[index]);
}

void GpuMemory::give_back(Host& host) {
  if (host.pinned != allocator::kNullPinnedBlock)
    pinned_.free(host.pinned);
  else
    pageable_.free(host.at, host.bytes);
  host = Host{};
}

void GpuMemory::empty_cache() {
  // cudaFree waits for the card in any case; unmapping must not happen under running kernels.
  if (!failed_) error_ = HEADROOM_CUDA(cudaDeviceSynchronize());
  failed_ = failed_ || !error_;
  accounts_.empty_cache();
}

void GpuMemory::synchronize() {
  if (!failed_) error_ = HEADROOM_CUDA(cudaDeviceSynchronize());
  failed_ = failed_ || !error_;
  accounts_.synchronize();
}

Placed GpuMemory::place_on_host(const Operand& operand) const {
  const auto index = static_cast<std::size_t>(operand.host);
  if (index >= hosts_.size() || hosts_[index].at == nullptr) return {};
  const Host& host = hosts_[index];
  const Bytes element = std::max<Bytes>(bytes_of(operand.dtype, 1), 1);
  return {.at = host.at + operand.offset,
          .dtype = operand.dtype,
          .elements = std::clamp<std::int64_t>((host.bytes - operand.offset) / element, 0, operand.elements),
          .logical = operand.elements,
          .host = true};
}

Placed GpuMemory::place(const Operand& operand) const {
  if (operand.host != kNoHostBlock) return place_on_host(operand);
  if (operand.block == kNoBlock || operand.elements <= 0) return {};
  const auto id = static_cast<allocator::BlockId>(operand.block);
  const allocator::CachingAllocator& a = accounts_.allocator();
  const Bytes left = a.size(id) - operand.offset;
  if (!a.live(id) || left <= 0) return {};
  const Bytes element = std::max<Bytes>(bytes_of(operand.dtype, 1), 1);
  return {.at = reinterpret_cast<char*>(a.address(id)) + operand.offset,
          .dtype = operand.dtype,
          .elements = std::min<std::int64_t>(operand.elements, left / element),
          .logical = operand.elements};
}

Status GpuMemory::work(const Operation& operation) {
  placed_.operation = &operation;
  placed_.inputs.clear();
  placed_.outputs.clear();
  for (const Operand& operand : operation.inputs)
    if (const Placed at = place(operand); at.at != nullptr) placed_.inputs.push_back(at);
  for (const Operand& operand : operation.outputs)
    if (const Placed at = place(operand); at.at != nullptr) placed_.outputs.push_back(at);
  HEADROOM_ASSIGN(const Done done, worker_.run(placed_));
  count(operation, done, placed_.host_bytes());
  return {};
}

void GpuMemory::count(const Operation& operation, Done done, Bytes host_bytes) {
  const WorkLedger::Entry entry = ledger_.did(operation, done, host_bytes);
  for (const Operand& output : operation.outputs) {
    if (output.block == kNoBlock) continue;
    const auto index = static_cast<std::size_t>(output.block);
    if (index >= writers_.size()) writers_.resize(index + 1);
    if (writers_[index].bytes > 0) continue;
    writers_[index] = {entry, accounts_.allocator().size(static_cast<allocator::BlockId>(output.block))};
    ledger_.took(entry, writers_[index].bytes);
  }
}

const GpuMemory::Host* GpuMemory::made_last() const {
  return last_host_ < hosts_.size() && hosts_[last_host_].at != nullptr ? &hosts_[last_host_] : nullptr;
}

const GpuMemory::Host* GpuMemory::source(Bytes bytes) const {
  const auto holds = [&](const Host& host) { return host.at != nullptr && host.bytes >= bytes; };
  const auto pinned = std::find_if(hosts_.begin(), hosts_.end(), [&](const Host& host) {
    return host.pinned != allocator::kNullPinnedBlock && holds(host);
  });
  if (pinned != hosts_.end()) return &*pinned;
  if (last_host_ < hosts_.size() && holds(hosts_[last_host_])) return &hosts_[last_host_];
  const auto any = std::find_if(hosts_.begin(), hosts_.end(), holds);
  return any == hosts_.end() ? nullptr : &*any;
}

// The numbers are made in the type that they arrive in before they leave.
Status GpuMemory::transfer_between(const Placed& from, const Placed& to, cudaStream_t stream) {
  const std::int64_t elements = std::min(from.elements, to.elements);
  if (from.dtype == to.dtype || !from.host || !is_host_float(from.dtype) || !is_host_float(to.dtype)) {
    const auto bytes = static_cast<std::size_t>(std::min(from.bytes(), to.bytes()));
    return HEADROOM_CUDA(cudaMemcpyAsync(to.at, from.at, bytes, cudaMemcpyDefault, stream));
  }
  const Bytes bytes = bytes_of(to.dtype, elements);
  char* narrow = pageable_.allocate(bytes);
  if (narrow == nullptr) return fail("the host has no memory left: give the machine more, or offload less");
  cast_on_host(from.at, from.dtype, narrow, to.dtype, elements);
  const Status copied = HEADROOM_CUDA(
      cudaMemcpyAsync(to.at, narrow, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, stream));
  pageable_.free(narrow, bytes);  // a copy from pageable memory has read it when the call returns
  return copied;
}

// Where operations name the device's side only, what goes out goes to the host block made for it just before.
Status GpuMemory::transfer(const Operation& operation) {
  const bool out = operation.kind == OperationKind::device_to_host;
  const auto inside = out ? operation.inputs : operation.outputs;
  const auto outside = out ? operation.outputs : operation.inputs;
  if (inside.empty()) return {};
  const Placed device = place(inside[0]);
  if (device.at == nullptr) return {};
  HEADROOM_ASSIGN(const cudaStream_t stream, streams_.get(operation.stream));
  Placed host;
  if (!outside.empty()) {
    host = place(outside[0]);
  } else if (const Host* any = out ? made_last() : source(device.bytes()); any != nullptr) {
    host = {.at = any->at,
            .dtype = device.dtype,
            .elements = std::min<std::int64_t>(device.elements, any->bytes / element_size(device.dtype)),
            .logical = device.elements,
            .host = true};
  }
  if (host.at == nullptr) {
    count(operation, Done::touched, 0);
    return touch(device.at, device.bytes(), stream);
  }
  count(operation, Done::kernel, 0);
  return out ? transfer_between(device, host, stream) : transfer_between(host, device, stream);
}

void GpuMemory::run(const Operation& operation) {
  if (failed_) return;
  const bool moves =
      operation.kind == OperationKind::host_to_device || operation.kind == OperationKind::device_to_host;
  error_ = moves ? transfer(operation) : work(operation);
  if (error_ && !device_.error()) error_ = device_.error();
  if (error_ && !host_.error()) error_ = host_.error();
  failed_ = !error_;
}

}  // namespace headroom::gpu
