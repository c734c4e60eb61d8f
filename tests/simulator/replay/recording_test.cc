#include "simulator/replay/recording.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>
#include <optional>
#include <random>

#include "simulator/allocator/address_space.h"
#include "simulator/replay/text_file.h"
#include "simulator/replay/verify.h"
#include "tests/support/data.h"

namespace headroom::replay {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kPlain = "allocator/recorded.jsonl.gz";
constexpr const char* kAddressed = "allocator/recorded-with-addresses.jsonl.gz";
// Recorded after the driver model was finished, from other seeds of the same kinds of streams.
constexpr const char* kLater = "allocator/recorded-again.jsonl.gz";
// Recorded after kernels had run (validator/pytorch/allocator_streams.py --after): the driver's own memory
// then lies between, in a way that differs from process to process.
constexpr const char* kAfterKernel = "allocator/recorded-after-kernel.jsonl.gz";

const std::vector<Recording>& recordings(const char* file) {
  static std::map<std::string, std::vector<Recording>> read;
  std::vector<Recording>& entry = read[file];
  if (entry.empty()) entry = read_recordings(test::data(file).string()).value();
  return entry;
}

const Recording& named(const char* file, std::string_view name) {
  for (const Recording& recording : recordings(file))
    if (recording.name == name) return recording;
  throw std::runtime_error("no such recording");
}

std::vector<std::string> differences(const char* file, Comparison comparison) {
  std::vector<std::string> out;
  for (const CaseResult& r : compare(recordings(file), comparison))
    if (!r.matched) out.push_back(r.name + ": " + r.difference);
  return out;
}

TEST(Recordings, EveryCaseVerifies) {
  EXPECT_EQ(recordings(kPlain).size() + recordings(kAddressed).size(), 125);
  EXPECT_THAT(differences(kPlain, Comparison::verify), IsEmpty());
  EXPECT_THAT(differences(kAddressed, Comparison::verify), IsEmpty());
  EXPECT_THAT(differences(kLater, Comparison::verify), IsEmpty());
  EXPECT_EQ(recordings(kAfterKernel).size(), 27);
  EXPECT_THAT(differences(kAfterKernel, Comparison::verify), IsEmpty());
}

// Without looking at any recorded placement.
TEST(Recordings, EveryCaseIsPredicted) {
  EXPECT_THAT(differences(kPlain, Comparison::predict), IsEmpty());
  EXPECT_THAT(differences(kAddressed, Comparison::predict), IsEmpty());
  EXPECT_THAT(differences(kLater, Comparison::predict), IsEmpty());
}

// The driver model alone: the recorded segments, placed and removed in their order.
TEST(Recordings, EverySegmentLiesWhereTheDriverModelSays) {
  std::size_t placed = 0;
  for (const char* file : {kAddressed, kLater}) {
    for (const Recording& recording : recordings(file)) {
      allocator::AddressSpace space;
      space.remove(space.place(2 * kMiB).value(), 2 * kMiB);  // the recorder's first tensor
      std::optional<Bytes> shift;
      for (const RecordedSegmentEvent& event : recording.segment_events) {
        if (event.action == RecordedSegmentEvent::Action::segment_alloc) {
          const allocator::Address address = space.place(event.bytes).value();
          if (!shift) shift = address - event.address.value();
          ASSERT_EQ(address, *event.address + *shift) << recording.name;
          ++placed;
        } else if (event.action == RecordedSegmentEvent::Action::segment_free) {
          space.remove(*event.address + *shift, event.bytes);
        }
      }
    }
  }
  EXPECT_GT(placed, 3000u);
}

/// One field of a recording changed; both comparisons must notice.
struct Falsification {
  const char* name;
  void (*apply)(Recording&);
};

void PrintTo(const Falsification& one, std::ostream* out) {
  *out << one.name;
}

class Falsified : public testing::TestWithParam<Falsification> {};

TEST_P(Falsified, IsNoticed) {
  for (const auto& [file, name] :
       {std::pair{kPlain, "max_split_128_gc06 mixed/0"}, std::pair{kPlain, "default oom/1"},
        std::pair{kAddressed, "gc08 streams/3"}, std::pair{kPlain, "expandable_gc streams/1"},
        std::pair{kAddressed, "expandable oom/3"}}) {
    Recording recording = named(file, name);
    GetParam().apply(recording);
    for (const Comparison comparison : {Comparison::verify, Comparison::predict}) {
      const CaseResult result = compare(recording, comparison);
      EXPECT_FALSE(result.matched) << name;
      EXPECT_NE(result.difference, "") << name;
    }
  }
}

std::size_t middle_allocation(const Recording& r) {
  std::size_t i = r.events.size() / 2;
  while (r.events[i].kind != RecordedEvent::Kind::allocate || r.rows[i].segment < 0) ++i;
  return i;
}

void repeat_first_free(Recording& r) {
  std::ptrdiff_t i = 0;
  while (r.events[static_cast<std::size_t>(i)].kind != RecordedEvent::Kind::free) ++i;
  const RecordedEvent event = r.events[static_cast<std::size_t>(i)];
  const RecordedRow row = r.rows[static_cast<std::size_t>(i)];
  r.events.insert(r.events.begin() + i + 1, event);
  r.rows.insert(r.rows.begin() + i + 1, row);
}

std::int64_t& final_value(Recording& r, std::string_view key) {
  for (auto& [name, value] : r.final)
    if (name == key) return value;
  return r.final.emplace_back(std::string(key), 0).second;
}

INSTANTIATE_TEST_SUITE_P(
    Recordings, Falsified,
    testing::Values(
        Falsification{"allocated", [](Recording& r) { r.rows[r.rows.size() / 2].allocated += 512; }},
        Falsification{"reserved", [](Recording& r) { r.rows.back().reserved -= 1; }},
        Falsification{"active", [](Recording& r) { r.rows[7].active += 1; }},
        Falsification{"inactive_split",
                      [](Recording& r) { r.rows[r.rows.size() / 2].inactive_split += 512; }},
        Falsification{"segment", [](Recording& r) { r.rows[middle_allocation(r)].segment += 1; }},
        Falsification{"offset", [](Recording& r) { r.rows[middle_allocation(r)].offset += 512; }},
        Falsification{"no_out_of_memory", [](Recording& r) { r.rows[middle_allocation(r)].segment = -1; }},
        Falsification{"bytes", [](Recording& r) { r.events[middle_allocation(r)].bytes += 1024; }},
        Falsification{"negative_bytes", [](Recording& r) { r.events[middle_allocation(r)].bytes = -5; }},
        Falsification{"stream", [](Recording& r) { r.events[middle_allocation(r)].stream += 3; }},
        Falsification{"freed_twice", repeat_first_free},
        Falsification{"never_allocated",
                      [](Recording& r) { r.events[0] = {.kind = RecordedEvent::Kind::free, .id = 77}; }},
        Falsification{"allocated_twice", [](Recording& r) { r.events[1] = r.events[0]; }},
        Falsification{"settings", [](Recording& r) { r.settings = "roundup_power2_divisions:16"; }},
        Falsification{"unknown_settings", [](Recording& r) { r.settings = "max_split:1"; }},
        Falsification{"limit", [](Recording& r) { r.fraction = 0.001; }},
        Falsification{"segment_event_bytes", [](Recording& r) { r.segment_events.back().bytes += 512; }},
        Falsification{"segment_event_action",
                      [](Recording& r) { r.segment_events[0].action = RecordedSegmentEvent::Action::oom; }},
        Falsification{"segment_event_stream", [](Recording& r) { r.segment_events[1].other_stream ^= true; }},
        Falsification{"segment_event_missing", [](Recording& r) { r.segment_events.pop_back(); }},
        Falsification{"segment_event_added",
                      [](Recording& r) { r.segment_events.push_back(r.segment_events.front()); }},
        Falsification{"peak", [](Recording& r) { final_value(r, "allocated_bytes.all.peak") += 512; }},
        Falsification{"small_pool",
                      [](Recording& r) { final_value(r, "requested_bytes.small_pool.freed") += 1; }},
        Falsification{"retries", [](Recording& r) { final_value(r, "num_alloc_retries") += 1; }},
        Falsification{"unknown_statistic",
                      [](Recording& r) { r.final.emplace_back("num_of_something", 3); }}),
    [](const auto& test) { return std::string(test.param.name); });

// One field of each kind, anywhere in any recording.
using Change = bool (*)(Recording&, std::mt19937&);  // false: this recording has no such field

RecordedEvent* any_event(Recording& r, std::mt19937& random, RecordedEvent::Kind kind) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < r.events.size(); ++i)
    if (r.events[i].kind == kind && (kind != RecordedEvent::Kind::allocate || r.rows[i].segment >= 0))
      found.push_back(i);
  return found.empty() ? nullptr : &r.events[found[random() % found.size()]];
}
RecordedRow& any_row(Recording& r, std::mt19937& random) {
  return r.rows[random() % r.rows.size()];
}
RecordedRow& row_of(Recording& r, const RecordedEvent* event) {
  return r.rows[static_cast<std::size_t>(event - r.events.data())];
}
RecordedSegmentEvent& any_segment_event(Recording& r, std::mt19937& random) {
  return r.segment_events[random() % r.segment_events.size()];
}
std::int64_t any_difference(std::mt19937& random) {
  const auto size = static_cast<std::int64_t>(random() % 2000 + 1);
  return random() % 2 == 0 ? size : -size;
}

const std::map<std::string, Change>& changes() {
  using Kind = RecordedEvent::Kind;
  static const std::map<std::string, Change> all = {
      {"size",
       [](Recording& r, std::mt19937& random) {
         any_event(r, random, Kind::allocate)->bytes += static_cast<Bytes>(random() % 4096 + 1);
         return true;
       }},
      {"stream",
       [](Recording& r, std::mt19937& random) {
         RecordedEvent* event = any_event(r, random, Kind::allocate);
         event->stream = event->stream == 0 ? 1 : 0;
         return true;
       }},
      {"tensor freed",
       [](Recording& r, std::mt19937& random) {
         RecordedEvent* event = any_event(r, random, Kind::free);
         event->id = -1;
         return true;
       }},
      {"ordinal",
       [](Recording& r, std::mt19937& random) {
         row_of(r, any_event(r, random, Kind::allocate)).segment += random() % 2 == 0 ? 1 : -1;
         return true;
       }},
      {"offset",
       [](Recording& r, std::mt19937& random) {
         row_of(r, any_event(r, random, Kind::allocate)).offset += any_difference(random);
         return true;
       }},
      {"allocated",
       [](Recording& r, std::mt19937& random) {
         any_row(r, random).allocated += any_difference(random);
         return true;
       }},
      {"reserved",
       [](Recording& r, std::mt19937& random) {
         any_row(r, random).reserved += any_difference(random);
         return true;
       }},
      {"active",
       [](Recording& r, std::mt19937& random) {
         any_row(r, random).active += any_difference(random);
         return true;
       }},
      {"inactive split",
       [](Recording& r, std::mt19937& random) {
         any_row(r, random).inactive_split += any_difference(random);
         return true;
       }},
      {"segment action",
       [](Recording& r, std::mt19937& random) {
         auto& action = any_segment_event(r, random).action;
         action = static_cast<RecordedSegmentEvent::Action>(
             (static_cast<unsigned>(action) + 1 + random() % 4) % 5);
         return true;
       }},
      {"segment size",
       [](Recording& r, std::mt19937& random) {
         any_segment_event(r, random).bytes += any_difference(random);
         return true;
       }},
      {"segment stream",
       [](Recording& r, std::mt19937& random) {
         any_segment_event(r, random).other_stream ^= true;
         return true;
       }},
      {"segment address",
       [](Recording& r, std::mt19937& random) {
         auto& event = any_segment_event(r, random);
         if (!event.address || event.action == RecordedSegmentEvent::Action::oom) return false;
         *event.address += any_difference(random);
         return true;
       }},
      {"segment event removed",
       [](Recording& r, std::mt19937& random) {
         r.segment_events.erase(r.segment_events.begin() +
                                static_cast<std::ptrdiff_t>(random() % r.segment_events.size()));
         return true;
       }},
      {"segment events swapped",
       [](Recording& r, std::mt19937& random) {
         if (r.segment_events.size() < 2) return false;
         const std::size_t i = random() % (r.segment_events.size() - 1);
         auto &a = r.segment_events[i], &b = r.segment_events[i + 1];
         if (a.action == b.action && a.bytes == b.bytes && a.other_stream == b.other_stream) return false;
         std::swap(a, b);
         return true;
       }},
      {"final",
       [](Recording& r, std::mt19937& random) {
         r.final[random() % r.final.size()].second += any_difference(random);
         return true;
       }},
      {"final removed",
       [](Recording& r, std::mt19937& random) {
         const auto entry = r.final.begin() + static_cast<std::ptrdiff_t>(random() % r.final.size());
         if (entry->second == 0) return false;  // the same as left out
         r.final.erase(entry);
         return true;
       }},
  };
  return all;
}

TEST(FalsifiedAnywhere, IsNoticed) {
  std::mt19937 random(7);
  const std::vector<const char*> files = {kPlain, kAddressed, kLater, kAfterKernel};
  for (const auto& [field, change] : changes()) {
    int falsified = 0;
    for (int i = 0; i < 24; ++i) {
      const std::vector<Recording>& all = recordings(files[random() % files.size()]);
      Recording recording = all[random() % all.size()];
      if (!change(recording, random)) continue;
      ++falsified;
      EXPECT_FALSE(compare(recording, Comparison::verify).matched)
          << field << " of " << recording.name << ", " << i;
    }
    EXPECT_GT(falsified, 4) << field;
  }
}

TEST(FalsifiedAddress, IsNoticed) {
  using Action = RecordedSegmentEvent::Action;
  for (const char* name : {"default mixed/3", "expandable streams/3"}) {
    for (const auto& [action, shift] :
         {std::pair{Action::segment_free, 2 * kMiB}, std::pair{Action::segment_unmap, 2 * kMiB},
          std::pair{Action::segment_map, 20 * kMiB}, std::pair{Action::segment_alloc, 20 * kMiB},
          std::pair{Action::segment_alloc, Bytes{16}}}) {
      Recording recording = named(kAddressed, name);
      const auto last = std::find_if(recording.segment_events.rbegin() + 3, recording.segment_events.rend(),
                                     [&](const auto& event) { return event.action == action; });
      if (last == recording.segment_events.rend()) continue;
      last->address.value() += shift;
      EXPECT_FALSE(compare(recording, Comparison::verify).matched)
          << name << " " << replay::name(action) << shift;
    }
  }
}

// Equal free blocks of two segments; the recorded choices say that each segment lies below the other.
TEST(RecordedChoices, MustNotContradictEachOther) {
  const auto text = [](int third, int fourth) {
    std::string events, results;
    const auto add = [&](const std::string& event, const std::string& row) {
      events += (events.empty() ? "" : ",") + event;
      results += (results.empty() ? "" : ",") + row;
    };
    const std::string m20 = "20971520", m40 = "41943040";
    add("[\"a\",0," + m20 + ",0]", "[" + m20 + "," + m20 + "," + m20 + ",0,0,0]");
    add("[\"a\",1," + m20 + ",0]", "[" + m40 + "," + m40 + "," + m40 + ",0,1,0]");
    add("[\"f\",0]", "[" + m20 + "," + m40 + "," + m20 + ",0]");
    add("[\"f\",1]", "[0," + m40 + ",0,0]");
    for (const int choice : {third, fourth}) {
      add("[\"a\",2," + m20 + ",0]",
          "[" + m20 + "," + m40 + "," + m20 + ",0," + std::to_string(choice) + ",0]");
      add("[\"f\",2]", "[0," + m40 + ",0,0]");
    }
    return "{\"case\":\"tie\",\"kind\":\"mixed\",\"seed\":0,\"settings\":\"\",\"fraction\":0,\"total_"
           "memory\":85017493504,"
           "\"events\":[" +
           events + "],\"results\":[" + results + "],\"segment_events\":[[\"segment_alloc\"," + m20 +
           ",0],[\"segment_alloc\"," + m20 + ",0]],\"final\":{}}\n";
  };
  const auto difference = [&](int third, int fourth) {
    return compare(parse_recordings(text(third, fourth), "tie.jsonl").value().front(), Comparison::verify)
        .difference;
  };
  // A consistent choice passes every event (and then differs in the statistics, which the text leaves out).
  EXPECT_THAT(difference(1, 1), HasSubstr("final "));
  EXPECT_THAT(difference(0, 0), HasSubstr("final "));
  EXPECT_THAT(difference(0, 1), HasSubstr("event 6: segments"));
}

struct Malformed {
  const char* from;
  const char* to;
  const char* key;
};

TEST(RecordingFile, WhatIsMalformedIsNamed) {
  const std::string good =
      R"({"case":"c","kind":"k","seed":0,"settings":"","fraction":0.5,"total_memory":85017493504,)"
      R"("events":[["a",0,5,0],["r",0,1],["f",0],["s"],["e"]],)"
      R"("results":[[0,0,0,0,0,0],[0,0,0,0],[0,0,0,0],[0,0,0,0],[0,0,0,0]],)"
      R"("segment_events":[["segment_alloc",2097152,0,0]],"final":{"num_ooms":0}})";
  ASSERT_TRUE(parse_recordings(good, "x").has_value());
  for (const Malformed& m :
       {Malformed{R"("seed":0)", R"("seed":"zero")", "seed"},
        Malformed{R"("fraction":0.5)", R"("fraction":1.5)", "fraction"},
        Malformed{"85017493504", "-1", "total_memory"},
        Malformed{R"(["a",0,5,0])", R"(["a",0,5])", "events.0"},
        Malformed{R"(["a",0,5,0])", R"(["a",0,18446744073709551615,0])", "events.0"},
        Malformed{R"(["a",0,5,0])", R"(["a",0,5,100000])", "events.0"},
        Malformed{R"(["r",0,1])", R"(["r",0,-1])", "events.1"}, Malformed{R"(["s"])", R"(["x"])", "events.3"},
        Malformed{"[[0,0,0,0,0,0]", "[[0,0,0,0]", "results.0"},
        Malformed{"segment_alloc", "segment_grow", "segment_events.0"},
        Malformed{R"("num_ooms":0)", R"("num_ooms":0.5)", "final.num_ooms"},
        Malformed{"{\"case\"", "[\"case\"", ""}}) {
    std::string bad = good;
    bad.replace(bad.find(m.from), std::string_view(m.from).size(), m.to);
    const auto result = parse_recordings("\n" + bad, "x.jsonl");
    ASSERT_FALSE(result.has_value()) << m.to;
    EXPECT_EQ(result.error().key, m.key) << m.to;
    EXPECT_EQ(result.error().line, 2);
    EXPECT_EQ(result.error().file, "x.jsonl");
  }
  EXPECT_FALSE(parse_recordings("", "empty").has_value());
  EXPECT_THAT(parse_recordings("\x80\x04}.", "s").error().message, HasSubstr("found a pickle"));
  EXPECT_THAT(parse_recordings(R"({"format":3,"events":[]})", "s").error().message,
              HasSubstr("a stream alone"));
}

// The file is a recording; that its parts do not go together is this case's difference.
TEST(RecordingFile, WhatCannotHaveHappenedFailsItsCase) {
  const auto difference = [](auto change) {
    Recording recording = named(kAddressed, "default mixed/3");
    change(recording);
    return compare(recording, Comparison::verify).difference;
  };
  EXPECT_EQ(difference([](Recording&) {}), "");
  EXPECT_EQ(difference([](Recording& r) { r.contradiction = "no run"; }), "no run");
  const std::string text =
      R"({"case":"c","kind":"k","seed":0,"settings":"","fraction":0,"total_memory":85017493504,"events":[["e"],["e"]],)"
      R"("results":[[0,0,0,0]],"segment_events":[],"final":{}})";
  EXPECT_THAT(parse_recordings(text, "x").value()[0].contradiction,
              HasSubstr("expected one row for each of 2 events, found 1"));
  for (const char* events :
       {R"([["segment_alloc",2097152,0,4096]])", R"([["segment_map",2097152,0,2097152],["oom",512,0,0]])"}) {
    std::string bad = std::string(text).replace(text.find("[],\"final\""), 2, events);
    bad.replace(bad.find("[[0,0,0,0]]"), 11, "[[0,0,0,0],[0,0,0,0]]");
    EXPECT_THAT(parse_recordings(bad, "x").value()[0].contradiction, HasSubstr("addresses above the lowest"))
        << events;
  }
  const std::string oom = std::string(text).replace(text.find("[],\"final\""), 2, R"([["oom",512,0,7]])");
  EXPECT_THAT(parse_recordings(oom, "x").value()[0].contradiction, HasSubstr("oom without address, found 7"));
  for (const char* address : {"-9223372036854775808", "9223372036854775807"}) {
    const std::string far = std::string(text).replace(
        text.find("[],\"final\""), 2, fmt::format(R"([["segment_alloc",2097152,0,{}]])", address));
    EXPECT_THAT(parse_recordings(far, "x").value()[0].contradiction, HasSubstr(address));
  }
}

TEST(TextFile, ReadsPlainAndCompressedAndRefusesDamage) {
  EXPECT_THAT(read_text_file(test::data("allocator").string()).error().message,
              HasSubstr("found a directory"));
  EXPECT_THAT(read_text_file("/nonexistent").error().message, HasSubstr("could not be opened"));
  EXPECT_THAT(read_text_file(test::data(kPlain).string(), 1000).error().message, HasSubstr("at most"));
  const std::string plain = read_text_file(test::source(".clang-format").string()).value();
  EXPECT_THAT(plain, testing::StartsWith("BasedOnStyle"));
}

}  // namespace
}  // namespace headroom::replay
