#include <nlohmann/json.hpp>

#include "planner/cli/replay_snapshot.h"

namespace headroom::cli {
namespace {

using nlohmann::ordered_json;

ordered_json json_of(const replay::Moment& m) {
  ordered_json j{{"event", m.event}, {"time_us", m.time_us}};
  if (!m.phase.empty()) j["phase"] = m.phase;
  j["allocated"] = m.allocated;
  j["active"] = m.active;
  j["reserved"] = m.reserved;
  j["inactive_split"] = m.inactive_split;
  j["blocks"] = m.blocks;
  return j;
}

ordered_json json_of_stack(const replay::Snapshot& snapshot, replay::StackId stack) {
  ordered_json frames = ordered_json::array();
  for (const std::uint32_t id : snapshot.stacks.stack(stack)) {
    const replay::Frame& frame = snapshot.stacks.frame(id);
    frames.push_back({{"name", snapshot.strings[frame.name]},
                      {"file", snapshot.strings[frame.file]},
                      {"line", frame.line}});
  }
  return frames;
}

ordered_json json_of(const replay::WhatIfOutcome& o) {
  ordered_json j{{"name", o.setting.name},
                 {"conf", o.setting.conf},
                 {"empty_at_phase_ends", o.setting.empty_at_phase_ends}};
  if (!o.skipped.empty()) {
    j["skipped"] = o.skipped;
    return j;
  }
  j["peak_allocated"] = o.peak_allocated;
  j["peak_reserved"] = o.peak_reserved;
  j["reserved_end"] = o.reserved_end;
  j["retries"] = o.retries;
  j["device_allocs"] = o.device_allocs;
  j["device_frees"] = o.device_frees;
  j["fits"] = !o.out_of_memory;
  if (o.out_of_memory) {
    j["out_of_memory"] = {{"event", o.failed_event},
                          {"phase", o.failed_phase},
                          {"requested", o.out_of_memory->requested},
                          {"tried", o.out_of_memory->tried},
                          {"allocated", o.out_of_memory->allocated},
                          {"reserved", o.out_of_memory->reserved},
                          {"device_free", o.out_of_memory->device_free}};
  }
  return j;
}

ordered_json json_of(const replay::WhatIf& w) {
  ordered_json j{
      {"limit_bytes", nullptr}, {"as_recorded", json_of(w.baseline)}, {"settings", ordered_json::array()}};
  if (w.limit) j["limit_bytes"] = *w.limit;
  for (const replay::WhatIfOutcome& o : w.outcomes) j["settings"].push_back(json_of(o));
  j["advice"] = w.advice;
  j["export"] = w.export_conf;
  j["empty_at_phase_ends"] = w.export_emptying;
  return j;
}

ordered_json json_of_holders(const replay::Snapshot& snapshot, const replay::DeviceAnalysis& a) {
  ordered_json list = ordered_json::array();
  for (const replay::Holder& h : a.holders) {
    ordered_json j{
        {"bytes", h.bytes}, {"blocks", h.blocks}, {"unrecorded_blocks", h.unrecorded}, {"where", nullptr}};
    if (h.site) j["where"] = replay::frame_text(snapshot, *h.site);
    j["stack_of_largest"] = json_of_stack(snapshot, h.stack);
    list.push_back(std::move(j));
  }
  return list;
}

ordered_json json_of_pinned(const replay::Snapshot& snapshot, const replay::DeviceAnalysis& a) {
  ordered_json list = ordered_json::array();
  for (const replay::PinnedSegment& s : a.pinned) {
    ordered_json j{
        {"address", s.address}, {"bytes", s.size}, {"in_use", s.used}, {"blocks", ordered_json::array()}};
    for (const replay::PinningBlock& b : s.blocks) {
      ordered_json block{{"bytes", b.size}, {"born", b.born}, {"died", nullptr}};
      if (b.died) block["died"] = *b.died;
      block["stack"] = json_of_stack(snapshot, b.stack);
      j["blocks"].push_back(std::move(block));
    }
    list.push_back(std::move(j));
  }
  return list;
}

ordered_json json_of(const replay::Snapshot& snapshot, const ReplayedDevice& device) {
  const replay::DeviceAnalysis& a = device.analysis;
  ordered_json actions = ordered_json::object();
  for (std::size_t i = 0; i < replay::kTraceActions; ++i)
    if (a.actions[i] > 0)
      actions[std::string(replay::name(static_cast<replay::TraceAction>(i)))] = a.actions[i];
  const replay::Fragmentation& f = a.fragmentation;
  ordered_json j{{"device", a.history.device},
                 {"events", a.history.count},
                 {"actions", std::move(actions)},
                 {"missing", a.history.missing},
                 {"start", json_of(a.start)},
                 {"peak_allocated", json_of(a.peak_allocated)},
                 {"peak_reserved", json_of(a.peak_reserved)},
                 {"peak_active", a.peak_active},
                 {"end", json_of(a.end)},
                 {"fragmentation",
                  {{"free", f.free},
                   {"inactive_split", f.inactive_split},
                   {"whole_segments", f.whole_segments},
                   {"free_blocks", f.free_blocks},
                   {"largest_free_block", f.largest},
                   {"request", f.request},
                   {"free_but_too_small", f.too_small},
                   {"free_for_others", f.elsewhere}}},
                 {"holders", json_of_holders(snapshot, a)},
                 {"pinned_segments", json_of_pinned(snapshot, a)},
                 {"phases", ordered_json::array()},
                 {"out_of_memory", ordered_json::array()}};
  for (const replay::PhaseUse& p : a.phases)
    j["phases"].push_back({{"phase", p.name},
                           {"first_event", p.first},
                           {"events", p.last - p.first},
                           {"peak_allocated", p.peak_allocated},
                           {"peak_reserved", p.peak_reserved},
                           {"allocated_end", p.allocated_end},
                           {"reserved_end", p.reserved_end}});
  for (const replay::OomEvent& o : a.ooms)
    j["out_of_memory"].push_back({{"event", o.event},
                                  {"bytes", o.size},
                                  {"device_free", o.device_free},
                                  {"allocated", o.allocated},
                                  {"reserved", o.reserved},
                                  {"stack", json_of_stack(snapshot, o.stack)}});
  if (device.what_if) {
    j["what_if"] = json_of(*device.what_if);
    j["what_if"]["notes"] = device.notes;
  }
  return j;
}

}  // namespace

std::string replay_json(const Replayed& replayed) {
  ordered_json j{{"schema", "headroom.replay/1"},
                 {"file", replayed.file},
                 {"kind", replayed.kind},
                 {"settings", replayed.conf},
                 {"devices", ordered_json::array()}};
  for (const ReplayedDevice& device : replayed.devices)
    j["devices"].push_back(json_of(replayed.snapshot, device));
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace headroom::cli
