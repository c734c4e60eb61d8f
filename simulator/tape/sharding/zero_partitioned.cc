#include "simulator/tape/sharding/zero_partitioned.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"
#include "simulator/tape/optimizers/adamw_work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kFlat = operation_name("zero::flat_parameters"),
                    kStandIn = operation_name("zero::empty_parameter"),
                    kMaster = operation_name("zero::fp32_partition"),
                    kPartition = operation_name("zero::partition_copy"),
                    kBucket = operation_name("zero::reduce_bucket"),
                    kJoin = operation_name("zero::flatten_gradients"),
                    kOwn = operation_name("zero::partition_gradients"),
                    kWide = operation_name("zero::fp32_gradient"), kState = operation_name("adamw_state"),
                    kStep = operation_name("aten::_fused_adamw_"),
                    kHostStep = operation_name("cpu_adam::step"),
                    kFlag = operation_name("fused_adam::overflow_buffer"),
                    kFlags = operation_name("zero::norms_and_flags"),
                    kStaging = operation_name("zero::gradient_staging"),
                    kUpdated = operation_name("zero::updated_partition");

}  // namespace

ZeroPartitioned::ZeroPartitioned(Model& model, Engine& engine, const ZeroOptions& options)
    : tape_(model.tape()),
      engine_(engine),
      options_(options),
      reduce_stream_(options.overlap_communication ? options.reduce_stream : 0) {
  // Offload wants buckets.
  options_.contiguous_gradients = options.contiguous_gradients || options.offload_optimizer;
  const ComponentScope component(tape_, Component::temporaries);
  if (!options.offload_optimizer) overflow_buffer_ = tape_.empty({1}, DType::int32, kFlag);
  zero_to_device(model);
  if (options.communicator_made) options.communicator_made();
  take_over(model);
}

void ZeroPartitioned::take_over(Model& model) {
  std::int64_t largest = 0;
  for (std::vector<ZeroParameter>& parameters : zero_groups(model, options_.adapters_apart)) {
    Group& group = groups_.emplace_back();
    group.parameters = std::move(parameters);
    for (const ZeroParameter& p : group.parameters) {
      group.elements += p.elements;
      largest = std::max(largest, p.elements);
    }
    // Padded so that every rank's part is aligned for the collective.
    group.elements = ceil_div(group.elements, 2 * options_.ranks) * 2 * options_.ranks;
    group.partition = group.elements / options_.ranks;
    build_group(group);
  }
  const ComponentScope component(tape_, Component::staging);
  if (options_.offload_optimizer) {
    const HostKind kind = options_.pin_memory ? HostKind::pinned : HostKind::pageable;
    host_staging_ = tape_.empty_host({largest}, options_.dtype, kind);
    staging_ = tape_.empty({largest}, options_.dtype, kStaging);
    for (Group& group : groups_) group.host_gradient = tape_.empty_host({group.partition}, DType::fp32, kind);
  } else {
    std::vector<Tensor> gradients;
    for (const Group& group : groups_)
      gradients.push_back(tape_.empty({group.partition}, DType::fp32, kWide));
    for (Tensor& gradient : gradients) gradient.reset();
  }
  averaged_.resize(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g)
    for (std::size_t i = 0; i < groups_[g].parameters.size(); ++i)
      tape_.leaf_hooks(*groups_[g].parameters[i].slot)
          .accumulated.push_back([this, place = Place{g, i}](const Tensor&) { gradient_ready(place); });
}

/// The group's parameters go to the host one by one, are joined there and come back as one buffer; or they are joined
/// where they lie.
void ZeroPartitioned::build_group(Group& group) {
  std::vector<Shape> shapes;
  {
    const ComponentScope component(tape_, Component::weights);
    for (const ZeroParameter& p : group.parameters) {
      const Tensor& whole = *p.slot;
      const ModuleScope module(tape_, whole->storage->label.module);
      shapes.push_back(whole.shape());
      if (!options_.flattens_on_device) tape_.set_data(whole, tape_.empty({1}, options_.dtype, kStandIn));
    }
    tape_.memory().empty_cache();
    group.flat = tape_.empty({group.elements}, options_.dtype, kFlat);
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const ZeroParameter& p = group.parameters[i];
      tape_.set_data(*p.slot, tape_.alias(group.flat, shapes[i], p.start));
    }
  }
  const ComponentScope component(tape_, Component::master_weights);
  if (options_.offload_optimizer) {
    // Since 0.18.3, as late buckets, copied before it leaves.
    if (options_.late_buckets) const Tensor part = tape_.empty({group.partition}, options_.dtype, kPartition);
    group.master = tape_.empty_host({group.partition}, DType::fp32, HostKind::pinned);
    const HostKind kind = options_.pin_memory ? HostKind::pinned : HostKind::pageable;
    if (narrows_on_host()) group.host_narrow = tape_.empty_host({group.partition}, options_.dtype, kind);
    return;
  }
  const Tensor part = tape_.empty({group.partition}, options_.dtype, kPartition);
  group.master = tape_.empty({group.partition}, DType::fp32, kMaster);
}

ZeroPartitioned::Slice ZeroPartitioned::slice(const Group& group, const ZeroParameter& p) const {
  const std::int64_t first = options_.rank * group.partition, last = first + group.partition;
  const std::int64_t begin = std::max(first, p.start), end = std::min(last, p.start + p.elements);
  return {
      .start = begin - p.start, .place = begin - first, .elements = std::max<std::int64_t>(0, end - begin)};
}

Tensor ZeroPartitioned::slice_of(const Group& group, const ZeroParameter& p, const Tensor& gradient) const {
  const Slice part = slice(group, p);
  return tape_.alias(gradient, Shape{part.elements}, part.start);
}

// --- Backward

void ZeroPartitioned::make_buckets() {
  const ComponentScope communication(tape_, Component::communication);
  if (options_.contiguous_gradients)
    for (int i = 0; i < (options_.overlap_communication ? 2 : 1); ++i)
      buckets_.push_back(tape_.empty({options_.reduce_bucket}, options_.dtype, kBucket));
  bucket_ = 0;
  in_bucket_ = 0;
  ready_ = true;
}

void ZeroPartitioned::backward(const Tensor& loss, bool last) {
  last_ = last;
  const ComponentScope component(tape_, Component::temporaries);
  if (!options_.late_buckets) {
    for (Tensor& bucket : buckets_) bucket.reset();
    buckets_.clear();
    make_buckets();
  }
  {
    const Tensor wide = to(loss, DType::fp32);
    const Tensor scaled = zero_scaled_loss(wide, logged_loss_);
    tape::backward(engine_, scaled);
  }
  finish_backward();
}

void ZeroPartitioned::gradient_ready(Place place) {
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  if (options_.late_buckets && !ready_) make_buckets();
  // Else they add up where they are.
  if (options_.stage >= 2 || (last_ && options_.overlap_communication)) take_gradient(place);
  tape_.set_operation(operation);
}

void ZeroPartitioned::take_gradient(Place place) {
  const ZeroParameter& p = groups_[place.group].parameters[place.index];
  if (in_bucket_ + p.elements > options_.reduce_bucket) {
    reduce_bucket();
    if (buckets_.size() > 1) bucket_ = 1 - bucket_;
  }
  const Tensor& leaf = *p.slot;
  // A gradient larger than the bucket is reduced where it lies.
  if (!buckets_.empty() && p.elements <= options_.reduce_bucket) {
    if (tape_.wants_operations()) copy_in_place(buckets_[bucket_], leaf.grad());
    tape_.set_grad(leaf, tape_.alias(buckets_[bucket_], leaf.shape(), in_bucket_));
  }
  in_bucket_ += p.elements;
  waiting_.push_back(place);
}

/// The bucket's elements in order, cut where the owner changes.
std::vector<ZeroPartitioned::Run> ZeroPartitioned::bucket_runs() const {
  std::vector<Run> runs;
  for (const Place place : waiting_) {
    const Group& group = groups_[place.group];
    const ZeroParameter& p = group.parameters[place.index];
    for (std::int64_t at = p.start, end = p.start + p.elements; at < end;) {
      const std::int64_t owner = at / group.partition;
      const std::int64_t until = std::min(end, (owner + 1) * group.partition);
      if (runs.empty() || runs.back().owner != owner) runs.push_back({.owner = owner, .elements = 0});
      runs.back().elements += until - at;
      at = until;
    }
  }
  return runs;
}

/// Without buckets gradients lie where autograd made them: all are joined to be reduced, whoever owns them.
std::vector<ZeroPartitioned::Run> ZeroPartitioned::separate_runs() const {
  std::vector<Run> runs;
  for (const Place place : waiting_)
    runs.push_back({.owner = 0, .elements = groups_[place.group].parameters[place.index].elements});
  return runs;
}

/// Runs of several owners are joined in one tensor, as many as exceed the bucket's size.
void ZeroPartitioned::join_runs(const std::vector<Run>& runs, std::int64_t most) {
  const ComponentScope component(tape_, Component::communication);
  std::size_t count = 0;
  std::int64_t elements = 0;
  const auto flush = [&] {
    if (count > 1) {
      const Tensor joined = tape_.empty({elements}, options_.dtype, kJoin);
      if (tape_.wants_operations())
        Work(tape_, OperationKind::all_reduce, kJoin).out(joined).sizes({options_.ranks}).run();
    }
    count = 0;
    elements = 0;
  };
  for (const Run& run : runs) {
    ++count;
    elements += run.elements;
    if (elements > most) flush();
  }
  if (count > 0) flush();
}

void ZeroPartitioned::reduce_bucket() {
  tape_.memory().wait_stream(reduce_stream_, 0);
  {
    const StreamScope stream(tape_, reduce_stream_);
    if (options_.contiguous_gradients) {
      join_runs(bucket_runs(), options_.reduce_bucket);
    } else {
      drop_reduced();
      join_runs(separate_runs(), in_bucket_);
    }
    for (const Place place : waiting_) {
      Group& group = groups_[place.group];
      const ZeroParameter& p = group.parameters[place.index];
      if (!options_.contiguous_gradients) {
        // Others' gradients go when it is sure that they were reduced: with the next ones.
        if (options_.stage >= 2 && !owned(group, p)) reduced_.push_back(place);
      } else if (!owned(group, p)) {
        // Stage 1 lets the others' gradients lie in the bucket until the backward is over.
        if (options_.stage >= 2) tape_.set_grad(*p.slot, {});
      } else if (options_.offload_optimizer) {
        offload_gradient(group, p);
      } else {
        keep_gradient(group, p);
      }
    }
  }
  if (!options_.overlap_communication) drop_reduced();
  waiting_.clear();
  in_bucket_ = 0;
}

void ZeroPartitioned::drop_reduced() {
  for (const Place place : reduced_) tape_.set_grad(*groups_[place.group].parameters[place.index].slot, {});
  reduced_.clear();
}

void ZeroPartitioned::keep_gradient(Group&, const ZeroParameter& p) {
  if (!own_gradients_.defined()) {
    std::int64_t total = 0;
    for (const Group& group : groups_)
      for (const ZeroParameter& q : group.parameters)
        if (owned(group, q)) total += q.elements;
    const ComponentScope component(tape_, Component::gradients);
    own_gradients_ = tape_.empty({total}, options_.dtype, kOwn);
    own_filled_ = 0;
  }
  if (tape_.wants_operations()) copy_in_place(own_gradients_, p.slot->grad());
  tape_.set_grad(*p.slot, tape_.alias(own_gradients_, p.slot->shape(), own_filled_));
  own_filled_ += p.elements;
}

void ZeroPartitioned::offload_gradient(Group& group, const ZeroParameter& p) {
  const Tensor gradient = p.slot->grad();
  const Tensor flat = tape_.alias(gradient, Shape{p.elements});
  const Tensor part = slice_of(group, p, gradient);
  norms_.push_back(zero_norm(part));
  zero_check_overflow(flat);  // whatever the dtype
  const ComponentScope component(tape_, Component::staging);
  const Tensor wide = tape_.empty(part.shape(), DType::fp32, kWide);
  if (tape_.wants_operations())
    Work(tape_, OperationKind::device_to_host, kWide)
        .in(wide)
        .out(tape_.alias(group.host_gradient, part.shape(), slice(group, p).place))
        .run();
  tape_.set_grad(*p.slot, {});
}

void ZeroPartitioned::finish_backward() {
  if (options_.stage < 2 && !last_) return;  // buckets stay to the next one
  if (options_.stage < 2 && !options_.overlap_communication)
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t i = 0; i < groups_[g].parameters.size(); ++i)
        if ((*groups_[g].parameters[i].slot)->grad != nullptr) take_gradient({g, i});
  reduce_bucket();
  tape_.memory().wait_stream(0, reduce_stream_);
  drop_reduced();
  if (!options_.offload_optimizer)
    for (std::size_t g = 0; g < groups_.size(); ++g) average_group(g);
  for (Tensor& bucket : buckets_) bucket.reset();
  buckets_.clear();
  ready_ = false;
  own_gradients_.reset();
  for (const Group& group : groups_)
    for (const ZeroParameter& p : group.parameters) tape_.set_grad(*p.slot, {});
}

/// This rank's parts; those of later micro-batches are added to the first one's.
void ZeroPartitioned::average_group(std::size_t g) {
  std::vector<Tensor> fresh;
  for (const ZeroParameter& p : groups_[g].parameters)
    if (owned(groups_[g], p) && (*p.slot)->grad != nullptr)
      fresh.push_back(slice_of(groups_[g], p, p.slot->grad()));
  if (averaged_[g].empty()) {
    averaged_[g] = std::move(fresh);
    return;
  }
  const GradMode no_grad(tape_, false);
  for (std::size_t i = 0; i < std::min(fresh.size(), averaged_[g].size()); ++i)
    add_in_place(averaged_[g][i], fresh[i]);
}

// --- Step

void ZeroPartitioned::check_overflow() {
  const ComponentScope component(tape_, Component::temporaries);
  const Tensor count = tape_.empty({1}, DType::fp32, kFlags);
  for (const std::vector<Tensor>& gradients : averaged_)
    for (const Tensor& gradient : gradients) zero_check_overflow(gradient);
  const Tensor any = tape_.empty({1}, DType::boolean, kFlags), bytes = tape_.empty({1}, DType::uint8, kFlags);
}

void ZeroPartitioned::step(bool overflow) {
  const GradMode no_grad(tape_, false);
  const Tensor logged = std::exchange(logged_loss_, {});  // goes with the step
  if (options_.offload_optimizer) {
    {
      // Flag and norms come from the host, to be compared with other ranks'.
      const ComponentScope component(tape_, Component::temporaries);
      if (options_.loss_scaling || options_.checks_bf16) const Tensor bytes = tape_.empty({1}, DType::uint8, kFlags);
      for (std::size_t g = 0; g < groups_.size() && !overflow; ++g)
        const Tensor norm = tape_.empty({1}, DType::fp32, kFlags);
    }
    if (!overflow) step_on_host();
    norms_.clear();
    return;
  }
  if (options_.loss_scaling || options_.checks_bf16) check_overflow();
  if (overflow) {
    std::vector<std::vector<Tensor>> fresh(groups_.size());
    std::swap(averaged_, fresh);
    if (leaked_.empty()) leaked_ = std::move(fresh);
    return;
  }
  const ComponentScope component(tape_, Component::temporaries);
  Tensor scaled_norm;
  {
    std::vector<Tensor> totals;
    for (const std::vector<Tensor>& gradients : averaged_) {
      std::vector<Tensor> norms;
      for (const Tensor& gradient : gradients) norms.push_back(zero_norm(gradient));
      totals.push_back(zero_group_norm(tape_, std::max<std::int64_t>(1, std::ssize(norms))));
    }
    const Tensor stacked = tape_.empty({std::ssize(totals)}, DType::fp32, kFlags);
    scaled_norm = tape_.empty({}, DType::fp32, kFlags);
  }
  global_norm_ = tape_.empty({}, DType::fp32, kFlags);
  for (std::size_t g = 0; g < groups_.size(); ++g) step_group(groups_[g], averaged_[g]);
  reported_norm_ = global_norm_;
}

void ZeroPartitioned::step_group(Group& group, std::vector<Tensor>& gradients) {
  Tensor wide;
  {
    const ComponentScope component(tape_, Component::gradients);
    Tensor joined;
    if (gradients.size() > 1) joined = tape_.empty({group.partition}, options_.dtype, kJoin);
    wide = tape_.empty({group.partition}, DType::fp32, kWide);
  }
  for (Tensor& gradient : gradients) gradient.reset();
  gradients.clear();
  zero_clip_factor(tape_);
  const ComponentScope component(tape_, Component::optimizer);
  make_states(group);
  if (tape_.wants_operations()) {
    adamw_work(tape_, kStep, group.master, wide, group.average, group.square_average);
    copy_in_place(group.flat, group.master);
    Work(tape_, OperationKind::all_gather, kFlat).out(group.flat).sizes({options_.ranks}).run();
  }
}

void ZeroPartitioned::make_states(Group& group) {
  if (group.average.defined()) return;
  const ComponentScope component(tape_, Component::optimizer);
  for (Tensor* moment : {&group.average, &group.square_average})
    *moment = options_.offload_optimizer
                  ? tape_.empty_host({group.partition}, DType::fp32, HostKind::pageable)
                  : tape_.empty({group.partition}, DType::fp32, kState);
}

void ZeroPartitioned::create_states() {
  for (Group& group : groups_) make_states(group);
}

void ZeroPartitioned::move_states(bool to_device) {
  if (options_.offload_optimizer || !options_.trained) return;
  for (Group& group : groups_)
    for (Tensor* state : {&group.master, &group.average, &group.square_average})
      zero_move(tape_, *state, to_device, twins_);
}

/// The update runs on the host; the updated part comes narrowed, or visits the device in fp32 before it is.
void ZeroPartitioned::step_on_host() {
  for (Group& group : groups_) {
    make_states(group);
    if (tape_.wants_operations()) {
      mul_in_place(group.host_gradient);
      adamw_work(tape_, kHostStep, group.master, group.host_gradient, group.average, group.square_average);
    }
    if (narrows_on_host()) {
      if (tape_.wants_operations())
        Work(tape_, OperationKind::host_to_device, kUpdated)
            .in(group.host_narrow)
            .out(tape_.alias(group.flat, Shape{group.partition}, options_.rank * group.partition))
            .run();
      continue;
    }
    const ComponentScope component(tape_, Component::staging);
    const Tensor updated = tape_.empty({group.partition}, DType::fp32, kUpdated);
    if (tape_.wants_operations()) {
      Work(tape_, OperationKind::host_to_device, kUpdated).in(group.master).out(updated).run();
      copy_in_place(group.flat, updated);
    }
  }
}

}  // namespace headroom::tape
