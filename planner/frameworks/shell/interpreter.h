#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/frameworks/shell/launch.h"
#include "planner/frameworks/shell/syntax.h"
#include "planner/frameworks/shell/truth.h"

namespace headroom::shell {

/// GPUs of a machine that nobody describes.
inline constexpr std::int64_t kUsualGpus = 8;

/// How a command ended. Other programs are taken to succeed, except where a test asks for it.
struct Ended {
  Truth success = Truth::yes;
  bool assumed = false;

  Truth asked() const { return assumed ? Truth::unknown : success; }
};

struct Variable {
  std::vector<std::pair<std::string, Word>> items;  ///< by index; a plain variable has "0"
  bool array = false, associative = false, exported = false;
};

/// What an operand of a test is: its value, the same as a pattern, and the operator that it may be.
struct Operand {
  Word value;
  std::string pattern, mark;
};

/// Follows a script (syntax.h) without running anything.
class Interpreter {
 public:
  /// `given`: variables that stand for something although nobody says what.
  explicit Interpreter(const Context& context, std::set<std::string> given = {});

  /// `text`: what `program` was parsed from.
  Status run(const Program& program, const std::string& file, std::string_view text);
  /// One command, already in words.
  Status run_words(std::vector<Word> words);
  Reading take();
  /// Variables that nothing sets and that a test asked for, of a script that ended on an error before it started
  /// anything: whoever runs it sets them.
  std::set<std::string> missing() const;

 private:
  enum class Flow { none, next, leave, back, exit };  // continue, break, return, exit

  struct State {
    std::map<std::string, Variable, std::less<>> variables;
    std::map<std::string, Program, std::less<>> functions;
    std::vector<Word> positional;
    std::vector<std::vector<std::pair<std::string, std::optional<Variable>>>> locals;  ///< one a call
    Word output;  ///< what was printed so far
    std::string directory;
  };

  // --- Nodes: interpreter.cc

  Ended node(const Node& node);
  Ended sequence(const Node& node);
  Ended pipeline(const Node& node);
  Ended condition(const Node& node);
  Ended loop(const Node& node);
  Ended each(const Node& node);
  Ended counted(const Node& node);
  Ended choose(const Node& node);
  Ended simple(const Node& node);
  Ended subshell(const Node& node);
  Ended call(const Program& body, std::vector<Word> words);
  Ended text(const std::string& text, const Place& place);
  /// Each way from the same state; afterwards what differs is unknown.
  void both_ways(const Place& place, const std::vector<std::function<void()>>& ways);
  void merge(State& into, const State& other, const Place& place) const;
  bool stopped() const { return flow_ != Flow::none || error_.has_value(); }
  bool step(const Place& place);
  void fail_at(const Place& place, std::string message);
  void remark(const Place& place, std::string message);
  void spend(std::size_t bytes, const Place& place);
  bool loop_goes_on();

  // --- Words: expand.cc

  std::vector<Word> fields(const RawWord& word);
  std::vector<Word> fields(const std::vector<RawWord>& words);
  Word joined(const RawWord& word);
  /// A pattern: quoted text is escaped.
  std::string pattern(const RawWord& word);
  Word part(const Part& part, const Place& place);
  /// The items of `$@`, `${A[@]}`; nothing for anything else.
  std::optional<std::vector<Word>> list(const Part& part, const Place& place);
  Word parameter(const Part& part, const Place& place);
  void note_if_empty(const std::string& name, const std::optional<Word>& value);
  std::optional<Word> value(const std::string& name, const std::string& index, const Place& place);
  Word changed(const Part& part, const Word& value, const Place& place);
  Word slice(const Part& part, const Word& value, const Place& place);
  Word printed(const Part& part, const Place& place);
  std::optional<std::int64_t> number(const RawWord& expression, const Place& place, std::string* missing);
  std::optional<std::int64_t> number(const Word& expression, const Place& place, std::string* missing);
  std::string index_of(const Variable* variable, const std::string& index, const Place& place);

  // --- Variables: interpreter.cc

  const Variable* find(std::string_view name) const;
  void assign(const Assignment& assignment, bool exported);
  void set(const std::string& name, Word value, bool exported = false);
  void make_local(const std::string& name);

  // --- Tests: conditions.cc

  Truth test(const Node& node);
  Truth test(std::vector<Word> words, const Place& place);
  Truth judge(const std::vector<Operand>& operands, const Place& place, bool double_brackets);
  Truth file_test(const Word& path) const;

  // --- Commands: commands.cc

  Ended command(std::vector<Word> words, const Node& node, const Word* input,
                const std::map<std::string, Word>& prefix);
  Ended declare(const std::vector<Word>& words, const Node& node);
  std::optional<Ended> control(const std::vector<Word>& words, const Node& node);
  std::optional<Ended> builtin(const std::vector<Word>& words, const Node& node, const Word* input);
  /// A program whose output is known from its words.
  std::optional<Word> output_of(const std::vector<Word>& words, const Word* input, const Place& place);
  std::vector<std::string> places_of(const std::string& script) const;
  Ended source(const std::vector<Word>& words, const Place& place);
  /// What a program on the machine that it will run on would count.
  std::int64_t gpus_of_machine(const std::vector<Word>& words, const Place& place);
  std::optional<Ended> shell(const std::vector<Word>& words, const Place& place);
  Ended read_variables(const std::vector<Word>& words, const Word* input, const Place& place);
  void start(std::vector<Word> words, const Place& place, const std::map<std::string, Word>& prefix,
             std::vector<Word> wrappers);
  void print(const Word& word);

  friend class Conditions;

  const Context& context_;
  State state_;
  Reading reading_;
  std::string script_;
  std::set<std::string> given_;
  std::map<std::string, std::string> job_;  ///< what Slurm sets, by the script's own directives
  bool testing_ = false;                    ///< words of a test are expanded
  bool gave_up_ = false;                    ///< it ended on an error
  std::set<std::string> empty_in_tests_;    ///< variables
  bool takes_arguments_ = false;  ///< outside of functions
  Flow flow_ = Flow::none;
  int levels_ = 0;                            ///< of break and continue
  bool may_leave_ = false;                    ///< a way that can't be ruled out leaves the loop
  std::vector<std::vector<State>> returned_;  ///< one a call: where such ways left the function
  int depth_ = 0;                             ///< calls and sourced files
  int unsure_ = 0;                            ///< tests that can't be followed around this place
  int printing_ = 0;                          ///< inside $( … )
  bool asking_ = false;                       ///< unset variables are empty here
  std::int64_t steps_ = 0;
  std::size_t spent_ = 0;
  const Word* input_ = nullptr;
  std::optional<Place> counts_gpus_;  ///< where the script first asks how many there are, and nobody says
  std::optional<Error> error_;
};

/// Takes wrappers off a command: `nohup`, `env A=1`, `srun …`, `uv run`, `ray job submit … --`. What was
/// taken is appended to `wrappers`, variables to `environment`.
std::vector<Word> unwrapped(std::vector<Word> words, std::vector<Word>& wrappers,
                            std::map<std::string, Word>& environment);

/// The launch that a command is, when it starts a Python program.
std::optional<Launch> recognise(std::vector<Word> words);

}  // namespace headroom::shell
