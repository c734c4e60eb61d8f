#include "planner/frameworks/shell/interpreter.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/base/pattern.h"
#include "planner/frameworks/shell/arithmetic.h"
#include "planner/frameworks/shell/model_word.h"
#include "planner/frameworks/shell/slurm.h"

namespace headroom::shell {
namespace {

constexpr std::int64_t kMostSteps = 1'000'000;
constexpr std::size_t kMostText = 64 << 20, kLargestValue = 1 << 20;
constexpr int kDeepestCall = 60, kMostRounds = 1000, kMostRemarks = 50;
constexpr std::size_t kMostLaunches = 200, kMostItems = 100'000;

bool same(const Word& a, const Word& b) {
  return a.text == b.text && a.unknown.size() == b.unknown.size();
}

bool same(const Variable& a, const Variable& b) {
  if (a.items.size() != b.items.size() || a.array != b.array) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i)
    if (a.items[i].first != b.items[i].first || !same(a.items[i].second, b.items[i].second)) return false;
  return true;
}

/// Whether both are one known model: a copy of it in a folder, and its name for where the folder is not there.
bool same_model(const Variable& a, const Variable& b) {
  if (a.array || b.array || a.items.size() != 1 || b.items.size() != 1) return false;
  return name_one_model(a.items.front().second, b.items.front().second);
}

bool equal(const Launch& a, const Launch& b) {
  if (a.program != b.program || a.words.size() != b.words.size() || a.place.line != b.place.line ||
      a.place.file != b.place.file)
    return false;
  for (std::size_t i = 0; i < a.words.size(); ++i)
    if (!same(a.words[i], b.words[i])) return false;
  return true;
}

}  // namespace

Interpreter::Interpreter(const Context& context, std::set<std::string> given)
    : context_(context), given_(std::move(given)) {
  state_.directory = context.directory;
  int number = 0;
  for (const std::string& word : context.words)
    state_.positional.push_back(
        {.text = word, .unknown = {}, .place = {fmt::format("word {} after --", ++number), 0, 0, 0}});
}

Status Interpreter::run(const Program& program, const std::string& file, std::string_view text) {
  script_ = file;
  job_ = slurm_variables(text);
  node(*program);
  if (error_) return tl::unexpected<Error>(std::move(*error_));
  if (!context_.words.empty() && !takes_arguments_)
    remark({.file = file, .line = 1},
           "the script takes no arguments, so that words behind -- change nothing; give --set KEY=VALUE");
  return {};
}

Status Interpreter::run_words(std::vector<Word> words) {
  Node none;
  none.place = words.empty() ? Place{} : words.front().place;
  command(std::move(words), none, nullptr, {});
  if (error_) return tl::unexpected<Error>(std::move(*error_));
  return {};
}

std::set<std::string> Interpreter::missing() const {
  return gave_up_ && reading_.launches.empty() ? empty_in_tests_ : std::set<std::string>{};
}

Reading Interpreter::take() {
  std::vector<Launch> kept;
  for (Launch& launch : reading_.launches)
    if (std::none_of(kept.begin(), kept.end(), [&](const Launch& other) { return equal(launch, other); }))
      kept.push_back(std::move(launch));
  reading_.launches = std::move(kept);
  if (counts_gpus_ && !reading_.launches.empty())
    remark(*counts_gpus_, fmt::format("asks the machine for the number of its GPUs: taken as {}; --gpus-per-node says otherwise",
                                      kUsualGpus));
  return std::move(reading_);
}

void Interpreter::fail_at(const Place& place, std::string message) {
  if (!error_)
    error_ = Error{.message = std::move(message), .file = place.file, .line = place.line, .key = {}};
}

void Interpreter::remark(const Place& place, std::string message) {
  for (const Remark& other : reading_.remarks)
    if (other.line == place.line && other.message == message) return;
  if (reading_.remarks.size() < kMostRemarks)
    reading_.remarks.push_back({place.file, place.line, std::move(message)});
}

bool Interpreter::step(const Place& place) {
  if (++steps_ > kMostSteps) fail_at(place, "expected a script that ends within 1,000,000 steps");
  return !error_;
}

void Interpreter::spend(std::size_t bytes, const Place& place) {
  spent_ += bytes;
  if (spent_ > kMostText || bytes > kLargestValue)
    fail_at(place, "expected less text: a value or their sum is too large");
}

// --- Nodes

Ended Interpreter::node(const Node& node) {
  if (stopped() || !step(node.place)) return {};
  if (++depth_ > 400) {
    fail_at(node.place, "expected at most 100 levels of nesting");
    --depth_;
    return {};
  }
  const Word* const outer = input_;
  Word input;
  if (node.input && node.kind != Node::Kind::simple) {
    input = joined(*node.input);
    input_ = &input;
  }
  Ended ended;
  switch (node.kind) {
    case Node::Kind::simple:
      ended = simple(node);
      break;
    case Node::Kind::sequence:
    case Node::Kind::group:
      ended = sequence(node);
      break;
    case Node::Kind::both:
    case Node::Kind::either: {
      ended = this->node(*node.children[0]);
      const Truth wanted = as_truth(node.kind == Node::Kind::both);
      if (ended.success == wanted) {
        ended = this->node(*node.children[1]);
      } else if (ended.success == Truth::unknown && !stopped()) {
        std::vector<std::function<void()>> ways{[&] { this->node(*node.children[1]); }, [] {}};
        both_ways(node.place, ways);
        ended = {Truth::unknown, false};
      }
      break;
    }
    case Node::Kind::negated:
      ended = this->node(*node.children[0]);
      ended = {opposite(ended.asked()), false};
      break;
    case Node::Kind::pipeline:
      ended = pipeline(node);
      break;
    case Node::Kind::condition:
      ended = condition(node);
      break;
    case Node::Kind::loop:
      ended = loop(node);
      break;
    case Node::Kind::each:
      ended = each(node);
      break;
    case Node::Kind::counted:
      ended = counted(node);
      break;
    case Node::Kind::choose:
      ended = choose(node);
      break;
    case Node::Kind::subshell:
      ended = subshell(node);
      break;
    case Node::Kind::test:
      ended = {test(node), false};
      break;
    case Node::Kind::arithmetic: {
      const auto result = number(node.words[0], node.place, nullptr);
      ended = {result ? as_truth(*result != 0) : Truth::unknown, false};
      break;
    }
    case Node::Kind::function:
      state_.functions[node.text] = node.children[0];
      break;
  }
  input_ = outer;
  --depth_;
  return ended;
}

Ended Interpreter::sequence(const Node& node) {
  Ended ended;
  for (const Program& child : node.children) {
    if (stopped()) break;
    ended = this->node(*child);
  }
  return ended;
}

/// Each part sees the variables as they were: what it sets is lost, as in the subshells that the parts are.
Ended Interpreter::pipeline(const Node& node) {
  const Word before = state_.output;
  const Word* const outer = input_;
  Word passed;
  Ended ended;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const bool last = i + 1 == node.children.size();
    const State state = state_;
    state_.output = last ? before : Word{};
    ended = this->node(*node.children[i]);
    Word printed = std::move(state_.output);
    state_ = state;
    if (flow_ == Flow::exit) flow_ = Flow::none;
    passed = std::move(printed);
    spend(passed.text.size(), node.place);
    input_ = &passed;
  }
  input_ = outer;
  state_.output = std::move(passed);
  return ended;
}

void Interpreter::both_ways(const Place& place, const std::vector<std::function<void()>>& ways) {
  const State before = state_;
  const Flow flow = flow_;
  std::optional<State> after;
  Flow ended = Flow::none;
  ++unsure_;
  for (const auto& way : ways) {
    state_ = before;
    flow_ = flow;
    for (const auto& [name, variable] : before.variables)
      for (const auto& item : variable.items) spent_ += item.second.text.size();
    spend(0, place);
    way();
    if (error_) break;
    if (flow_ == Flow::back && !returned_.empty()) returned_.back().push_back(state_);
    may_leave_ = may_leave_ || flow_ == Flow::leave;
    if (flow_ == Flow::exit || flow_ == Flow::back) {
      ended = flow_;  // the script goes on, so this way was not taken
    } else if (after) {
      merge(*after, state_, place);
    } else {
      after = std::move(state_);
    }
  }
  --unsure_;
  if (error_) return;
  flow_ = after ? Flow::none : ended;
  state_ = after ? std::move(*after) : before;
}

void Interpreter::merge(State& into, const State& other, const Place& place) const {
  const auto differs = [&](const std::string& name) {
    return unknown_word(
        "$" + name, name,
        fmt::format("depends on a test that can't be followed ({}:{})", place.file, place.line), place);
  };
  for (auto& [name, variable] : into.variables) {
    const auto found = other.variables.find(name);
    if (found != other.variables.end() && (same(variable, found->second) || same_model(variable, found->second))) continue;
    variable.items = {{"0", differs(name)}};
  }
  for (const auto& [name, variable] : other.variables)
    if (into.variables.find(name) == into.variables.end()) {
      Variable& made = into.variables[name];
      made = variable;
      made.items = {{"0", differs(name)}};
    }
  for (const auto& [name, body] : other.functions) into.functions.emplace(name, body);
  if (!same(into.output, other.output))
    into.output = unknown_word("$(…)", "", "depends on a test that can't be followed", place);
}

Ended Interpreter::condition(const Node& node) {
  const Truth truth = this->node(*node.children[0]).asked();
  if (stopped()) return {};
  if (truth == Truth::yes) return this->node(*node.children[1]);
  if (truth == Truth::no) return node.other ? this->node(*node.other) : Ended{};
  std::vector<std::function<void()>> ways{[&] { this->node(*node.children[1]); },
                                          [&] {
                                            if (node.other) this->node(*node.other);
                                          }};
  both_ways(node.place, ways);
  return {};
}

/// After a round of a loop: whether there is another one.
bool Interpreter::loop_goes_on() {
  if (error_ || flow_ == Flow::back || flow_ == Flow::exit) return false;
  if (flow_ == Flow::none) return true;
  if (levels_ > 1) {
    --levels_;
    return false;
  }
  const bool goes_on = flow_ == Flow::next;
  flow_ = Flow::none;
  return goes_on;
}

Ended Interpreter::loop(const Node& node) {
  for (int round = 0; !error_; ++round) {
    Truth truth = this->node(*node.children[0]).asked();
    if (node.negate) truth = opposite(truth);
    if (truth == Truth::no || stopped()) break;
    if (truth == Truth::unknown) {
      std::vector<std::function<void()>> ways{[&] {
                                                this->node(*node.children[1]);
                                                loop_goes_on();
                                              },
                                              [] {}};
      both_ways(node.place, ways);
      break;
    }
    if (round == kMostRounds) {
      remark(node.place, "the loop has not ended after 1,000 rounds; what follows it is read as if it had");
      break;
    }
    may_leave_ = false;
    this->node(*node.children[1]);
    if (!loop_goes_on() || std::exchange(may_leave_, false)) break;
  }
  return {};
}

Ended Interpreter::each(const Node& node) {
  std::vector<Word> words = node.has_words ? fields(node.words) : state_.positional;
  for (Word& word : words) {
    if (stopped()) break;
    set(node.text, std::move(word));
    this->node(*node.children[0]);
    if (!loop_goes_on()) break;
  }
  return {};
}

Ended Interpreter::counted(const Node& node) {
  number(node.words[0], node.place, nullptr);
  while (!stopped() && step(node.place)) {
    const bool always =
        node.words[1].parts.empty() || joined(node.words[1]).text.find_first_not_of(' ') == std::string::npos;
    const auto goes_on = always ? std::optional<std::int64_t>(1) : number(node.words[1], node.place, nullptr);
    if (!goes_on) {
      std::vector<std::function<void()>> ways{[&] {
                                                this->node(*node.children[0]);
                                                loop_goes_on();
                                              },
                                              [] {}};
      both_ways(node.place, ways);
      break;
    }
    if (*goes_on == 0) break;
    this->node(*node.children[0]);
    if (!loop_goes_on()) break;
    number(node.words[2], node.place, nullptr);
  }
  return {};
}

Ended Interpreter::choose(const Node& node) {
  const bool before = std::exchange(asking_, true);
  const Word subject = joined(node.words[0]);
  asking_ = before;
  if (!subject.known()) {
    std::vector<std::function<void()>> ways{[] {}};
    for (const Node::Case& one : node.cases) ways.emplace_back([&] { this->node(*one.body); });
    both_ways(node.place, ways);
    return {};
  }
  bool running = false;
  for (const Node::Case& one : node.cases) {
    for (const RawWord& each : one.patterns)
      running = running || matches(pattern(each), subject.text, PatternOf::text);
    if (!running) continue;
    const Ended ended = this->node(*one.body);
    if (!one.falls_through) return ended;
  }
  return {};
}

Ended Interpreter::subshell(const Node& node) {
  State state = state_;
  const Ended ended = sequence(node);
  state.output = std::move(state_.output);
  state_ = std::move(state);
  flow_ = Flow::none;
  return ended;
}

Ended Interpreter::simple(const Node& node) {
  Word input;
  const Word* const outer = input_;
  if (node.input) {
    input = joined(*node.input);
    input_ = &input;
  }
  const std::string_view first = node.words.empty() || node.words[0].parts.size() != 1 ? std::string_view()
                                                                                       : node.words[0].parts[0].text;
  const bool outer_test = std::exchange(testing_, first == "[" || first == "test");
  std::vector<Word> words = fields(node.words);
  testing_ = outer_test;
  Ended ended;
  if (stopped()) {
    input_ = outer;
    return ended;
  }
  const bool declares =
      !node.words.empty() && !words.empty() &&
      (words[0].text == "export" || words[0].text == "local" || words[0].text == "declare" ||
       words[0].text == "typeset" || words[0].text == "readonly");
  if (words.empty()) {
    for (const Assignment& one : node.assignments) assign(one, false);
  } else if (declares) {
    ended = declare(words, node);
  } else {
    std::map<std::string, Word> prefix;
    for (const Assignment& one : node.assignments)
      if (!one.array) prefix[one.name] = joined(one.value);
    ended = command(std::move(words), node, input_, prefix);
  }
  input_ = outer;
  return ended;
}

Ended Interpreter::call(const Program& body, std::vector<Word> words) {
  if (state_.locals.size() >= kDeepestCall) {
    fail_at(body->place, fmt::format("expected at most {} nested calls", kDeepestCall));
    return {};
  }
  std::vector<Word> positional(std::make_move_iterator(words.begin() + 1),
                               std::make_move_iterator(words.end()));
  std::swap(positional, state_.positional);
  state_.locals.emplace_back();
  const std::size_t frames = state_.locals.size();
  returned_.emplace_back();
  Ended ended = node(*body);
  if (flow_ == Flow::back) flow_ = Flow::none;
  std::vector<State> ways = std::move(returned_.back());
  returned_.pop_back();
  for (State& way : ways) {
    if (flow_ == Flow::exit) {  // the script goes on, so one of these ways was taken
      state_ = std::move(way);
      flow_ = Flow::none;
    } else {
      merge(state_, way, body->place);
    }
    ended = {Truth::unknown, true};
  }
  if (state_.locals.size() == frames) {
    for (auto& [name, old] : state_.locals.back()) {
      if (old) {
        state_.variables[name] = std::move(*old);
      } else {
        state_.variables.erase(name);
      }
    }
    state_.locals.pop_back();
  }
  std::swap(positional, state_.positional);
  return ended;
}

// --- Variables

const Variable* Interpreter::find(std::string_view name) const {
  const auto found = state_.variables.find(name);
  return found == state_.variables.end() ? nullptr : &found->second;
}

void Interpreter::set(const std::string& name, Word value, bool exported) {
  Variable& variable = state_.variables[name];
  spend(value.text.size(), value.place);
  if (variable.items.empty()) variable.items.emplace_back("0", Word{});
  variable.items.front().second = std::move(value);
  variable.exported = variable.exported || exported;
}

void Interpreter::make_local(const std::string& name) {
  if (state_.locals.empty()) return;
  const Variable* old = find(name);
  state_.locals.back().emplace_back(name, old == nullptr ? std::nullopt : std::optional<Variable>(*old));
  state_.variables.erase(name);
}

void Interpreter::assign(const Assignment& one, bool exported) {
  if (one.array) {
    std::vector<std::pair<std::string, Word>> items;
    const Variable* old = find(one.name);
    if (one.append && old != nullptr) items = old->items;
    const bool associative = old != nullptr && old->associative;
    std::int64_t next = static_cast<std::int64_t>(items.size());
    for (const RawWord& raw : one.items) {
      // [key]=value
      if (!raw.parts.empty() && raw.parts[0].kind == Part::Kind::text && !raw.parts[0].quoted &&
          raw.parts[0].text.starts_with('[')) {
        const Word whole = joined(raw);
        const std::size_t close = whole.text.find("]=");
        if (close != std::string::npos) {
          std::string key = whole.text.substr(1, close - 1);
          Word value = part_of(whole, close + 2, whole.text.size());
          value.place = raw.place;
          const auto at =
              std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == key; });
          if (at != items.end()) {
            at->second = std::move(value);
          } else {
            items.emplace_back(std::move(key), std::move(value));
          }
          continue;
        }
      }
      for (Word& word : fields(raw)) items.emplace_back(std::to_string(next++), std::move(word));
      if (items.size() > kMostItems) return fail_at(one.place, "expected at most 100,000 items of an array");
    }
    Variable& target = state_.variables[one.name];
    target.items = std::move(items);
    target.array = true;
    target.associative = associative;
    return;
  }
  Word value = joined(one.value);
  if (!one.index.empty()) {
    const std::string key = index_of(find(one.name), one.index, one.place);
    Variable& variable = state_.variables[one.name];
    variable.array = true;
    const auto at = std::find_if(variable.items.begin(), variable.items.end(),
                                 [&](const auto& item) { return item.first == key; });
    if (at != variable.items.end()) {
      at->second = std::move(value);
    } else if (variable.items.size() < kMostItems) {
      variable.items.emplace_back(key, std::move(value));
    }
    return;
  }
  if (one.append)
    if (const auto old = this->value(one.name, "", one.place)) {
      Word whole = *old;
      whole.append(value);
      value = std::move(whole);
    }
  set(one.name, std::move(value), exported);
}

}  // namespace headroom::shell
