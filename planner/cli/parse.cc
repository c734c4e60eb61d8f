#include "planner/cli/parse.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <deque>

#include "models/base/nearest.h"
#include "planner/cli/output_names.h"

namespace headroom::cli {
namespace {

std::string did_you_mean(const std::string& text, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string found = nearest(text, views);
  return found.empty() ? "" : fmt::format("; did you mean '{}'?", found);
}

/// The command's options as the parser knows them, with the place each value goes to.
class CommandParser {
 public:
  explicit CommandParser(const Command& command) : app_("headroom " + command.name) {
    app_.set_help_flag();
    app_.allow_extras();
    for (const OptionGroup& group : option_groups(command))
      for (const Option& option : group.options) add(option);
  }

  /// `launch`: a command behind `--` may stand for CONFIG.
  Status parse(const std::vector<std::string>& words, bool launch) {
    launch_ = launch;
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    try {
      app_.parse(reversed);
    } catch (const CLI::Error& error) {
      return fail(error.what());
    }
    return check();
  }

  /// The options of all groups, with their values' uses.
  std::vector<Option> options() const {
    std::vector<Option> all;
    for (const Slot& slot : slots_) all.push_back(*slot.option);
    return all;
  }

  Arguments take() const {
    Arguments arguments;
    for (const Slot& slot : slots_) {
      if (slot.parsed->count() == 0) continue;
      if (slot.option->value.empty() && slot.option->name.starts_with("-")) {
        arguments.mark(slot.option->name);
      } else {
        for (const std::string& value : slot.values) arguments.add(slot.option->name, value);
      }
    }
    return arguments;
  }

 private:
  struct Slot {
    std::shared_ptr<Option> option;
    CLI::Option* parsed = nullptr;
    std::vector<std::string> values;
  };

  void add(const Option& option) {
    Slot& slot = slots_.emplace_back();
    slot.option = std::make_shared<Option>(option);
    if (option.value.empty() && option.name.starts_with("-")) {
      slot.parsed = app_.add_flag(option.name);
      return;
    }
    slot.parsed = app_.add_option(option.name, slot.values);
    // One value each time the flag is given; positional ones take what there is.
    const bool many = option.repeated && !option.name.starts_with("-");
    slot.parsed->expected(many ? -1 : 1);
    slot.parsed->allow_extra_args(many);
    slot.parsed->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  Status check() const {
    std::vector<std::string> flags;
    for (const Slot& slot : slots_)
      if (slot.option->name.starts_with("-")) flags.push_back(slot.option->name);
    for (const std::string& word : app_.remaining()) {
      if (word.starts_with("-") && word.size() > 1) {
        const std::string flag = word.substr(0, word.find('='));
        return fail(Error{.message = "unknown flag" + did_you_mean(flag, flags), .file = {}, .key = flag});
      }
      return fail(fmt::format("unexpected argument '{}'", word));
    }
    const bool help = app_.get_option("--help")->count() > 0;
    for (const Slot& slot : slots_) {
      const std::size_t given = slot.parsed->count();
      const bool named = given > 0 || help || (launch_ && slot.option->name == "CONFIG");
      if (slot.option->required && !named)
        return fail(fmt::format("expected {}, found none; see `{} --help`", slot.option->name,
                                app_.get_description()));
      for (const std::string& value : slot.values)
        if (value.starts_with("--"))
          return fail(Error{.message = fmt::format("expected {}, found the flag {}; write ./{} for a file of that name",
                                                   slot.option->value, value, value),
                            .file = {},
                            .key = slot.option->name});
      if (!slot.option->repeated && !slot.option->value.empty() && slot.values.size() > 1)
        return fail(Error{.message = fmt::format("expected once, found {} times", slot.values.size()),
                          .file = {},
                          .key = slot.option->name});
    }
    return {};
  }

  CLI::App app_;
  bool launch_ = false;
  std::deque<Slot> slots_;  // stable addresses: the parser writes into the values
};

}  // namespace

Result<Invocation> parse(std::span<const Command> table, const std::vector<std::string>& words) {
  Invocation invocation;
  if (words.size() == 2 && words[0] == "help") return parse(table, {words[1], "--help"});
  if (words.empty() || words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    invocation.help = true;
    return invocation;
  }
  if (words[0] == "--version") {
    invocation.version = true;
    return invocation;
  }
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Command& command) { return command.name == words[0]; });
  if (found == table.end()) {
    std::vector<std::string> names;
    for (const Command& command : table) names.push_back(command.name);
    const std::string what =
        words[0].starts_with("-") ? "expected a command before flags" : "unknown command";
    return fail(Error{.message = what + did_you_mean(words[0], names) + "; see `headroom --help`",
                      .file = {},
                      .key = words[0]});
  }
  // Behind `--` stands a launch: a script's words, or the command itself where no CONFIG is named.
  const bool takes_launch = std::any_of(found->options.begin(), found->options.end(),
                                        [](const Option& option) { return option.name == "CONFIG"; });
  const auto launch = takes_launch ? std::find(words.begin() + 1, words.end(), "--") : words.end();
  CommandParser parser(*found);
  HEADROOM_TRY(parser.parse({words.begin() + 1, launch}, launch != words.end()));
  invocation.command = &*found;
  invocation.arguments = parser.take();
  if (launch != words.end()) {
    for (auto word = launch + 1; word != words.end(); ++word) invocation.arguments.add("--", *word);
    if (!invocation.arguments.has("CONFIG")) invocation.arguments.add("CONFIG", "--");
  }
  invocation.help = invocation.arguments.has("--help");
  if (!invocation.help) {
    HEADROOM_TRY(check_output_names(parser.options(), invocation.arguments));
    HEADROOM_ASSIGN(invocation.arguments.common, read_common(invocation.arguments));
  }
  return invocation;
}

}  // namespace headroom::cli
