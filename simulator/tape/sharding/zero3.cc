#include "simulator/tape/sharding/zero3.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "simulator/tape/operations/copy.h"
#include "simulator/tape/operations/pointwise.h"
#include "simulator/tape/operations/work.h"
#include "simulator/tape/optimizers/adamw_work.h"

namespace headroom::tape {
namespace {

const std::uint16_t kPart = operation_name("zero3::partition"),
                    kFlat = operation_name("zero3::flat_partitions"),
                    kMaster = operation_name("zero3::fp32_partition"),
                    kBucket = operation_name("zero3::reduce_bucket"),
                    kParts = operation_name("zero3::gradient_partitions"),
                    kPadding = operation_name("zero3::padding"),
                    kJoin = operation_name("zero3::reduce_scatter"),
                    kWide = operation_name("zero3::fp32_gradient"), kState = operation_name("adamw_state"),
                    kStep = operation_name("aten::_fused_adamw_"),
                    kHostStep = operation_name("cpu_adam::step"),
                    kFlag = operation_name("fused_adam::overflow_buffer"),
                    kOverflow = operation_name("zero3::has_overflow"),
                    kReturned = operation_name("zero3::offloaded_gradient"),
                    kBarrier = operation_name("c10d::barrier");

/// Elements of a gradient whose norm is taken at once.
constexpr std::int64_t kNormPiece = 250'000'000;

}  // namespace

Zero3::Zero3(Model& model, Engine& engine, const ZeroOptions& options)
    : tape_(model.tape()),
      model_(model),
      engine_(engine),
      options_(options),
      reduce_stream_(options.overlap_communication ? options.reduce_stream : 0),
      coordinator_(model, options) {
  if (options.sharded_as_built) {
    zero_to_device(model, false);
    partition_parameters();
    load_parameters();
  }
  if (!options.sharded_as_built || !options.trained) initialize();
}

void Zero3::initialize() {
  const ComponentScope component(tape_, Component::temporaries);
  if (options_.trained && !options_.offload_optimizer) overflow_buffer_ = tape_.empty({1}, DType::int32, kFlag);
  if (!options_.sharded_as_built) {
    zero_to_device(model_);
    partition_parameters();
  }
  if (options_.trained) {
    group_parameters(model_);
    build_optimizer();
  }
  model_.hooks = &coordinator_;
}

void Zero3::partition(ZeroCoordinator::Parameter& p) {
  const ModuleScope module(tape_, p.tensor->storage->label.module);
  if (p.tensor->storage->block == kNoBlock) tape_.regrow_storage(p.tensor, p.tensor->storage->bytes);
  p.on_host = options_.offload_parameters && !p.persistent;
  p.partition = p.on_host ? tape_.empty_host({p.part}, options_.dtype,
                                             options_.pin_memory ? HostKind::pinned : HostKind::pageable)
                          : tape_.empty({p.part}, options_.dtype, kPart);
  coordinator_.release(p);
}

void Zero3::partition_parameters() {
  const ComponentScope component(tape_, Component::weights);
  for (ZeroCoordinator::Parameter& p : coordinator_.parameters()) partition(p);
}

/// Transformers' loader gathers each module's parameters, fills them and spreads them again. A tied head was made and
/// spread like any other parameter and goes when the model is whole.
void Zero3::load_parameters() {
  const ComponentScope component(tape_, Component::weights);
  const bool tied = model_.options().head == HeadKind::language_model && model_.decoder().tied_embeddings;
  ZeroCoordinator::Parameter head;
  if (tied) {
    head = coordinator_.parameters().front();
    head.tensor = tape_.empty(model_.head_table().shape(), options_.dtype, kPart);
    head.elements = head.tensor.elements();
    head.part = ceil_div(head.elements, options_.ranks);
    head.persistent = head.elements <= options_.persistence_threshold;
    partition(head);
  }
  for (const std::vector<std::size_t>& module : coordinator_.by_module()) {
    module.size() == 1 ? coordinator_.gather_now(module.front()) : coordinator_.gather_now(module);
    for (const std::size_t i : module) coordinator_.release(coordinator_.parameters()[i]);
  }
}

void Zero3::group_parameters(Model& model) {
  const std::vector<ZeroCoordinator::Parameter>& parameters = coordinator_.parameters();
  places_.resize(parameters.size());
  for (const std::vector<ZeroParameter>& group : zero_groups(model, options_.adapters_apart)) {
    group_parts_.push_back(0);
    begin_sub_group();
    for (const ZeroParameter& member : group) {
      const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) {
        return p.tensor.record() == member.slot->record();
      });
      trained_.push_back(static_cast<std::size_t>(found - parameters.begin()));
      if (sub_groups_.back().elements >= options_.sub_group) begin_sub_group();
      places_[trained_.back()] = {.sub_group = sub_groups_.size() - 1,
                                  .in_sub_group = sub_groups_.back().elements,
                                  .in_all = trained_parts_};
      sub_groups_.back().elements += found->part;
      group_parts_.back() += found->part;
      trained_parts_ += found->part;
    }
  }
}

void Zero3::begin_sub_group() {
  SubGroup& made = sub_groups_.emplace_back();
  made.group = group_parts_.size() - 1;
  made.in_group = group_parts_.back();
}

void Zero3::barrier() {
  const ComponentScope component(tape_, Component::communication);
  const Tensor number = tape_.empty({1}, DType::fp32, kBarrier);
  Tensor reduced = tape_.empty({1}, DType::fp32, kBarrier);
  if (options_.first_of_process && !barrier_number_.defined()) barrier_number_ = std::move(reduced);
}

/// The parts go to the host and come back in one buffer.
void Zero3::defragment() {
  for (const std::size_t i : trained_) coordinator_.parameters()[i].partition.reset();
  tape_.memory().empty_cache();
  const ComponentScope component(tape_, Component::weights);
  flat_parts_ = tape_.empty({trained_parts_}, options_.dtype, kFlat);
  std::int64_t start = 0;
  for (const std::size_t i : trained_) {
    ZeroCoordinator::Parameter& p = coordinator_.parameters()[i];
    p.partition = tape_.alias(flat_parts_, Shape{p.part}, start);
    start += p.part;
  }
}

/// One pinned buffer a group takes all parts, those of persistent parameters too.
void Zero3::move_parts_to_host() {
  const ComponentScope component(tape_, Component::weights);
  for (const std::int64_t elements : group_parts_)
    host_parts_.push_back(tape_.empty_host({elements}, options_.dtype, HostKind::pinned));
  for (const std::size_t i : trained_) {
    coordinator_.parameters()[i].partition.reset();
    coordinator_.parameters()[i].on_host = true;
  }
}

void Zero3::build_optimizer() {
  const bool host = options_.offload_optimizer;
  const HostKind kind = options_.pin_memory ? HostKind::pinned : HostKind::pageable;
  if (!host) overflow_seen_ = tape_.empty({1}, DType::boolean, kOverflow);
  barrier();
  options_.offload_parameters ? move_parts_to_host() : defragment();
  std::int64_t largest = 0;
  Tensor copy;
  for (SubGroup& group : sub_groups_) {
    const ComponentScope component(tape_, Component::master_weights);
    largest = std::max(largest, group.elements);
    if (host) {
      group.master = tape_.empty_host({group.elements}, DType::fp32, HostKind::pageable);
      continue;
    }
    // Copied, then widened; since 0.18.3, as late buckets, widened, then copied, by a name that keeps what was widened
    // until the next group's is.
    copy = tape_.empty({group.elements}, options_.late_buckets ? DType::fp32 : options_.dtype, kPart);
    group.master = tape_.empty({group.elements}, DType::fp32, kMaster);
    if (!options_.late_buckets) copy.reset();
  }
  copy.reset();
  // The first broadcast comes before parameters are spread; by the segments that recorded runs reserved, what
  // communicators take lies behind the flat parts.
  for (int i = 0; i < 2 && options_.communicator_made; ++i) options_.communicator_made();
  barrier();
  {
    const ComponentScope component(tape_, Component::gradients);
    if (host)
      for (SubGroup& group : sub_groups_)
        group.host_gradient = tape_.empty_host({group.elements}, DType::fp32, kind);
    else
      const Tensor gradient = tape_.empty({largest}, DType::fp32, kWide);
  }
  barrier();
  {
    const ComponentScope component(tape_, Component::communication);
    bucket_ = tape_.empty({options_.reduce_bucket}, options_.dtype, kBucket);
  }
  {
    const ComponentScope component(tape_, Component::gradients);
    gradient_parts_ = host ? tape_.empty_host({trained_parts_}, options_.dtype, kind)
                           : tape_.empty({trained_parts_}, options_.dtype, kParts);
  }
  norms_.resize(coordinator_.parameters().size());
  // Hooks need each parameter's gradient accumulator, and so the whole parameter for a moment.
  for (const std::size_t i : trained_) {
    coordinator_.gather_now(i);
    coordinator_.release(coordinator_.parameters()[i]);
  }
  for (const std::size_t i : trained_)
    tape_.leaf_hooks(coordinator_.parameters()[i].tensor).accumulated.push_back([this, i](const Tensor&) {
      gradient_ready(i);
    });
}

// --- Backward

void Zero3::backward(const Tensor& loss, bool last) {
  last_ = last;
  const ComponentScope component(tape_, Component::temporaries);
  {
    const Tensor wide = to(loss, DType::fp32);
    const Tensor scaled = zero_scaled_loss(wide, logged_loss_);
    tape::backward(engine_, scaled);
  }
  reduce_bucket();
  tape_.memory().wait_stream(0, reduce_stream_);
}

void Zero3::gradient_ready(std::size_t parameter) {
  const std::uint16_t operation = tape_.operation();
  tape_.set_operation(0);
  const ZeroCoordinator::Parameter& p = coordinator_.parameters()[parameter];
  if (in_bucket_ > 0 && in_bucket_ + p.elements > options_.reduce_bucket) reduce_bucket();
  if (p.elements <= options_.reduce_bucket) {
    if (tape_.wants_operations()) copy_in_place(bucket_, p.tensor.grad());
    tape_.set_grad(p.tensor, tape_.alias(bucket_, p.shape, in_bucket_));
  }
  in_bucket_ += p.elements;
  waiting_.push_back(parameter);
  tape_.set_operation(operation);
}

void Zero3::reduce_bucket() {
  if (waiting_.empty()) return;
  tape_.memory().wait_stream(reduce_stream_, 0);
  const StreamScope stream(tape_, reduce_stream_);
  std::vector<ZeroCoordinator::Parameter>& parameters = coordinator_.parameters();
  std::sort(waiting_.begin(), waiting_.end());  // the same order on every rank
  std::int64_t parts = 0;
  for (const std::size_t i : waiting_) parts += parameters[i].part;
  const bool in_place = waiting_.size() == 1 && parameters[waiting_.front()].elements % options_.ranks == 0;
  {
    const ComponentScope component(tape_, Component::communication);
    Tensor joined;
    if (!in_place) {
      std::vector<Tensor> padding;  // ranks whose part of a gradient is shorter
      for (std::int64_t rank = 0; rank < options_.ranks; ++rank)
        for (const std::size_t i : waiting_) {
          const std::int64_t part = parameters[i].part, from = std::min(rank * part, parameters[i].elements);
          const std::int64_t missing = part - std::min(part, parameters[i].elements - from);
          if (missing > 0) padding.push_back(tape_.empty({missing}, options_.dtype, kPadding));
        }
      joined = tape_.empty({parts * options_.ranks}, options_.dtype, kJoin);
    }
    if (tape_.wants_operations())
      Work(tape_, OperationKind::reduce_scatter, kJoin)
          .in(bucket_)
          .out(options_.offload_optimizer ? tape_.alias(bucket_, Shape{parts}, options_.rank * parts)
                                          : gradient_parts_)
          .sizes({options_.ranks})
          .run();
    for (const std::size_t i : waiting_) {
      if (options_.offload_optimizer) offload_gradient(i);
      tape_.set_grad(parameters[i].tensor, {});
    }
  }
  waiting_.clear();
  in_bucket_ = 0;
}

/// This rank's part goes to the host and comes back, for its norm and, widened, for the optimizer.
void Zero3::offload_gradient(std::size_t parameter) {
  const ComponentScope component(tape_, Component::staging);
  const std::int64_t part = coordinator_.parameters()[parameter].part;
  const Place place = places_[parameter];
  const Tensor on_host = tape_.alias(gradient_parts_, Shape{part}, place.in_all);
  const Tensor returned = tape_.empty({part}, options_.dtype, kReturned);
  if (tape_.wants_operations()) {
    Work(tape_, OperationKind::device_to_host, kReturned)
        .in(tape_.alias(bucket_, Shape{part}))
        .out(on_host)
        .run();
    Work(tape_, OperationKind::host_to_device, kReturned).in(on_host).out(returned).run();
  }
  if (!last_) return;
  Tensor squares;  // of the norms of pieces
  for (std::int64_t at = 0; at < part; at += kNormPiece) {
    const Tensor norm = zero_norm(tape_.alias(returned, Shape{std::min(kNormPiece, part - at)}, at));
    Tensor square = tape_.empty({}, DType::fp64, kReturned);
    if (!squares.defined()) squares = std::move(square);
  }
  norms_[parameter] = tape_.empty({}, DType::fp64, kReturned);
  squares.reset();
  const Tensor wide = tape_.empty({part}, DType::fp32, kWide);
  if (!tape_.wants_operations()) return;
  copy_in_place(wide, returned);
  const Tensor& gradient = sub_groups_[place.sub_group].host_gradient;
  Work(tape_, OperationKind::device_to_host, kWide)
      .in(wide)
      .out(tape_.alias(gradient, Shape{part}, place.in_sub_group))
      .run();
}

// --- Step

/// isinf(gradients).any(), then isnan: sizes in their width, then flags. On the host nothing but the result
/// comes to the device.
void Zero3::check_overflow() {
  const StreamScope stream(tape_, reduce_stream_);
  const ComponentScope component(tape_, Component::temporaries);
  if (!options_.offload_optimizer) {
    Tensor size = tape_.empty({trained_parts_}, options_.dtype, kOverflow);
    Tensor flags = tape_.empty({trained_parts_}, DType::boolean, kOverflow);
    size.reset();
    Tensor any = tape_.empty({}, DType::boolean, kOverflow);
    drop(any, flags);
    flags = tape_.empty({trained_parts_}, DType::boolean, kOverflow);
    any = tape_.empty({}, DType::boolean, kOverflow);
    drop(any, flags);
  }
  const Tensor copy = tape_.empty({1}, DType::boolean, kOverflow);
  const Tensor bytes = tape_.empty({1}, DType::uint8, kOverflow);
}

void Zero3::step(bool overflow) {
  const GradMode no_grad(tape_, false);
  const Tensor logged = std::exchange(logged_loss_, {});  // goes with the step
  coordinator_.release_all();
  if (options_.loss_scaling) check_overflow();
  if (!overflow) options_.offload_optimizer ? step_on_host() : step_on_device();
  for (Tensor& norm : norms_) norm.reset();
  if (!overflow) coordinator_.gather_persistent();
}

/// Norms were taken on the device and are summed there: per sub-group over all ranks.
void Zero3::sum_norms() {
  const ComponentScope component(tape_, Component::temporaries);
  std::size_t next = 0;
  for (const SubGroup& group : sub_groups_) {
    Tensor total;
    for (std::int64_t elements = 0; elements < group.elements; ++next) {
      const Tensor square = tape_.empty({}, DType::fp64, kOverflow);
      if (!total.defined()) total = tape_.empty({}, DType::fp64, kOverflow);
      elements += coordinator_.parameters()[trained_[next]].part;
    }
    const Tensor sum = tape_.empty({1}, DType::fp32, kOverflow);
    total.reset();
    const Tensor norm = zero_finite_norm(tape_.empty({}, DType::fp32, kOverflow));
  }
}

void Zero3::make_states(SubGroup& group) {
  if (group.average.defined()) return;
  const ComponentScope component(tape_, Component::optimizer);
  for (Tensor* moment : {&group.average, &group.square_average})
    *moment = options_.offload_optimizer ? tape_.empty_host({group.elements}, DType::fp32, HostKind::pageable)
                                         : tape_.empty({group.elements}, DType::fp32, kState);
}

void Zero3::create_states() {
  for (SubGroup& group : sub_groups_) make_states(group);
}

void Zero3::move_states(bool to_device) {
  if (options_.offload_optimizer || !options_.trained) return;
  for (SubGroup& group : sub_groups_) zero_move(tape_, group.master, to_device, twins_);
  zero_move(tape_, gradient_parts_, to_device, twins_);
  if (!to_device) {
    bucket_.reset();
  } else if (!bucket_.defined()) {
    const ComponentScope component(tape_, Component::communication);
    bucket_ = tape_.empty({options_.reduce_bucket}, options_.dtype, kBucket);
  }
  for (SubGroup& group : sub_groups_)
    for (Tensor* moment : {&group.average, &group.square_average}) zero_move(tape_, *moment, to_device, twins_);
}

void Zero3::step_on_host() {
  sum_norms();
  create_states();
  if (!tape_.wants_operations()) return;
  std::int64_t before = 0;
  for (const SubGroup& group : sub_groups_) {
    mul_in_place(group.host_gradient);
    adamw_work(tape_, kHostStep, group.master, group.host_gradient, group.average, group.square_average);
    if (options_.offload_parameters)
      copy_in_place(tape_.alias(host_parts_[group.group], Shape{group.elements}, group.in_group),
                    group.master);
    else
      Work(tape_, OperationKind::host_to_device, kPart)
          .in(group.master)
          .out(tape_.alias(flat_parts_, Shape{group.elements}, before))
          .run();
    before += group.elements;
  }
}

void Zero3::step_on_device() {
  const ComponentScope component(tape_, Component::temporaries);
  std::vector<Tensor> totals;
  std::size_t next = 0;
  for (const SubGroup& group : sub_groups_) {
    std::vector<Tensor> norms;
    for (std::int64_t elements = 0; elements < group.elements; ++next) {
      const std::int64_t part = coordinator_.parameters()[trained_[next]].part;
      norms.push_back(zero_norm(tape_.alias(gradient_parts_, Shape{part})));
      elements += part;
    }
    { const Tensor wide = tape_.empty({}, DType::fp64, kOverflow); }
    totals.push_back(zero_group_norm(tape_, std::ssize(norms)));
  }
  Tensor scaled_norm;
  {
    const Tensor stacked = tape_.empty({std::ssize(totals)}, DType::fp32, kOverflow);
    scaled_norm = tape_.empty({}, DType::fp32, kOverflow);
  }
  global_norm_ = tape_.empty({}, DType::fp32, kOverflow);
  for (SubGroup& group : sub_groups_) {
    Tensor wide;
    {
      const ComponentScope gradients(tape_, Component::gradients);
      const Tensor joined = tape_.empty({group.elements}, options_.dtype, kJoin);
      wide = tape_.empty({group.elements}, DType::fp32, kWide);
    }
    zero_clip_factor(tape_);
    const ComponentScope states(tape_, Component::optimizer);
    make_states(group);
    adamw_work(tape_, kStep, group.master, wide, group.average, group.square_average);
  }
  reported_norm_ = global_norm_;
}

}  // namespace headroom::tape
