#include <fmt/format.h>

#include <algorithm>

#include "models/base/printable.h"
#include "planner/cli/replay_snapshot.h"
#include "planner/writers/columns.h"

namespace headroom::cli {
namespace {

using replay::Moment;
using writers::Columns;
using Align = Columns::Align;

std::string gib(Bytes bytes) {
  return fmt::format("{:.3f}", static_cast<double>(bytes) / static_cast<double>(kGiB));
}

double share(Bytes part, Bytes whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// 12345678 → 12,345,678.
std::string grouped(std::int64_t number) {
  std::string text = fmt::format("{}", number);
  for (std::ptrdiff_t i = static_cast<std::ptrdiff_t>(text.size()) - 3; i > (number < 0 ? 1 : 0); i -= 3)
    text.insert(static_cast<std::size_t>(i), ",");
  return text;
}

class Text {
 public:
  Text(const Replayed& replayed, const ReplayedDevice& device, std::size_t top)
      : replayed_(replayed), device_(device), a_(device.analysis), top_(top) {}

  std::string write() {
    heading();
    moments();
    fragmentation();
    holders();
    pinned();
    phases();
    ooms();
    what_if();
    return out_;
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    std::string text = fmt::format(format, std::forward<Args>(args)...);
    const std::size_t gap = text.starts_with('\n') ? 1 : 0;  // a blank line before it
    out_ += text.substr(0, gap) + printable(std::string_view(text).substr(gap)) + "\n";
  }

  void heading() {
    line("device {}: {} events", a_.history.device, grouped(static_cast<std::int64_t>(a_.history.count)));
    for (const std::string& sentence : a_.history.missing) line("  note: {}", sentence);
    if (a_.homeless > 0) line("  note: {} allocations lie outside every known segment", grouped(a_.homeless));
  }

  std::string when(const Moment& m) const {
    if (a_.history.count == 0) return "at the dump";
    if (m.event < 0) return "before the first event";
    const double seconds = (static_cast<double>(m.time_us) - static_cast<double>(a_.start.time_us)) * 1e-6;
    std::string text = fmt::format("event {}", grouped(m.event));
    if (replayed_.kind == "snapshot") text += fmt::format(", +{:.3f} s", seconds);
    if (!m.phase.empty()) text += ", in " + printable(m.phase);
    return text;
  }

  void moments() {
    Columns table(
        {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right, Align::left});
    table.add({"GiB", "allocated", "active", "reserved", "inactive split", "blocks", "when"});
    const std::pair<const char*, const Moment*> rows[] = {{"start", &a_.start},
                                                          {"peak allocated", &a_.peak_allocated},
                                                          {"peak reserved", &a_.peak_reserved},
                                                          {"end", &a_.end}};
    for (const auto& [name, m] : rows)
      table.add({name, gib(m->allocated), gib(m->active), gib(m->reserved), gib(m->inactive_split),
                 grouped(m->blocks), when(*m)});
    out_ += "\n" + table.text("  ");
  }

  void fragmentation() {
    const replay::Fragmentation& f = a_.fragmentation;
    line(
        "\n  fragmentation at the reserved peak: {} of {} reserved are free ({:.1f} %), in {} blocks of at "
        "most {}",
        format_bytes(f.free), format_bytes(a_.peak_reserved.reserved),
        share(f.free, a_.peak_reserved.reserved), grouped(f.free_blocks), format_bytes(f.largest));
    line("    {} inactive split, {} in segments wholly free", format_bytes(f.inactive_split),
         format_bytes(f.whole_segments));
    if (f.request > 0)
      line(
          "    a request of {} grew it: {} were free for its pool and stream, in blocks each too small; {} "
          "belonged to "
          "others",
          format_bytes(f.request), format_bytes(f.too_small), format_bytes(f.elsewhere));
  }

  std::string site(std::optional<std::uint32_t> frame) const {
    if (!frame) return "(no stack recorded)";
    const std::string text = printable(frame_text(replayed_.snapshot, *frame));
    return text.size() > 100 ? text.substr(0, 97) + "..." : text;
  }

  void holders() {
    if (a_.holders.empty()) return;
    Columns table({Align::right, Align::right, Align::right, Align::left});
    table.add({"GiB", "%", "blocks", "where"});
    for (std::size_t i = 0; i < std::min(top_, a_.holders.size()); ++i) {
      const replay::Holder& h = a_.holders[i];
      std::string where = site(h.site);
      if (!h.site && h.unrecorded == h.blocks) where = "(in use before the history began)";
      table.add({gib(h.bytes), fmt::format("{:.1f}", share(h.bytes, a_.peak_allocated.allocated)),
                 grouped(h.blocks), where});
    }
    line("\n  held at the allocated peak, by the innermost frame outside installed packages");
    out_ += table.text("    ");
    if (a_.holders.size() > top_) line("    and {} more places", a_.holders.size() - top_);
  }

  void pinned() {
    if (a_.pinned.empty()) return;
    Bytes waste = 0;
    for (const replay::PinnedSegment& s : a_.pinned) waste += s.size - s.used;
    line("\n  nearly empty segments pinned by long-lived blocks, at the reserved peak: {}, with {} free",
         a_.pinned.size(), format_bytes(waste));
    Columns table({Align::right, Align::right, Align::right, Align::left});
    table.add({"segment", "in use", "blocks", "largest block lives, and was made by"});
    for (std::size_t i = 0; i < std::min(top_, a_.pinned.size()); ++i) {
      const replay::PinnedSegment& s = a_.pinned[i];
      const replay::PinningBlock& b = s.blocks.front();
      const std::string life =
          fmt::format("{} to {}", b.born < 0 ? "before the start" : "event " + grouped(b.born),
                      b.died ? "event " + grouped(*b.died) : "the end");
      table.add({format_bytes(s.size), format_bytes(s.used),
                 grouped(static_cast<std::int64_t>(s.blocks.size())),
                 life + "  " + site(replay::site_of(replayed_.snapshot, b.stack))});
    }
    out_ += table.text("    ");
  }

  void phases() {
    if (a_.phases.empty()) return;
    line("\n  phases");
    Columns table({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right});
    table.add({"GiB", "events", "peak allocated", "peak reserved", "allocated end", "reserved end"});
    const std::size_t shown = std::min(std::max<std::size_t>(top_, 20), a_.phases.size());
    for (std::size_t i = 0; i < shown; ++i) {
      const replay::PhaseUse& p = a_.phases[i];
      table.add({printable(p.name), grouped(p.last - p.first), gib(p.peak_allocated), gib(p.peak_reserved),
                 gib(p.allocated_end), gib(p.reserved_end)});
    }
    out_ += table.text("    ");
    if (a_.phases.size() > shown) line("    and {} more", a_.phases.size() - shown);
  }

  void ooms() {
    for (const replay::OomEvent& oom : a_.ooms)
      line("\n  out of memory at event {}: {} asked for, the device had {} free; {} allocated, {} reserved",
           grouped(oom.event), format_bytes(oom.size), format_bytes(oom.device_free),
           format_gib(oom.allocated), format_gib(oom.reserved));
  }

  static std::string result_of(const replay::WhatIfOutcome& o) {
    if (!o.skipped.empty()) return o.skipped;
    if (!o.out_of_memory) return "fits";
    return fmt::format("out of memory: {} at event {}{}", format_bytes(o.out_of_memory->tried),
                       grouped(static_cast<std::int64_t>(o.failed_event)),
                       o.failed_phase.empty() ? "" : ", in " + printable(o.failed_phase));
  }

  void what_if() {
    if (!device_.what_if) return;
    const replay::WhatIf& w = *device_.what_if;
    line("\n  what if{}", w.limit ? fmt::format(", with {} for this process", format_gib(*w.limit)) : "");
    for (const std::string& note : device_.notes) line("    note: {}", note);
    Columns table(
        {Align::left, Align::right, Align::right, Align::right, Align::right, Align::left, Align::left});
    table.add({"GiB", "peak allocated", "peak reserved", "retries", "driver calls", w.limit ? "result" : "",
               "PYTORCH_CUDA_ALLOC_CONF"});
    const auto add = [&](const replay::WhatIfOutcome& o) {
      if (!o.skipped.empty())
        return table.add({printable(o.setting.name), "-", "-", "-", "-", o.skipped, o.setting.conf});
      table.add({printable(o.setting.name), gib(o.peak_allocated), gib(o.peak_reserved), grouped(o.retries),
                 grouped(o.device_allocs + o.device_frees), w.limit ? result_of(o) : "",
                 printable(o.setting.conf)});
    };
    add(w.baseline);
    for (const replay::WhatIfOutcome& o : w.outcomes) add(o);
    out_ += table.text("    ");
    line("  {}", w.advice);
  }

  const Replayed& replayed_;
  const ReplayedDevice& device_;
  const replay::DeviceAnalysis& a_;
  std::size_t top_;
  std::string out_;
};

}  // namespace

std::string replay_text(const Replayed& replayed, std::size_t top) {
  std::string out = fmt::format("{} {}, settings {}\n", replayed.kind, printable(replayed.file),
                                replayed.conf.empty() ? "default" : printable(replayed.conf));
  for (const ReplayedDevice& device : replayed.devices) out += "\n" + Text(replayed, device, top).write();
  return out;
}

std::string replay_verdicts(const Replayed& replayed) {
  std::string out;
  for (const ReplayedDevice& device : replayed.devices) {
    const replay::DeviceAnalysis& a = device.analysis;
    out += fmt::format("device {}: {} GiB allocated and {} GiB reserved at most", a.history.device, gib(a.peak_allocated.allocated),
                       gib(a.peak_reserved.reserved));
    if (!a.ooms.empty()) out += fmt::format("; out of memory {} times", a.ooms.size());
    if (device.what_if && !device.what_if->advice.empty()) out += "; " + printable(device.what_if->advice);
    out += "\n";
  }
  return out;
}

}  // namespace headroom::cli
