#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/base/result.h"
#include "planner/frameworks/shell/syntax.h"

namespace headroom::shell {

/// The characters of a script: position, line, places; words with their quotes and expansions. What commands
/// are made of words is the parser's (parse.cc). Errors are kept, the first one counts, and reading goes to
/// the end of the text then, so that every loop ends.
class Scanner {
 public:
  /// `base`: where `text` starts in its file; none when it stands there in another form.
  Scanner(std::string_view text, std::string file, int line, int depth, std::optional<std::size_t> base)
      : text_(text), file_(std::move(file)), base_(base), line_(line), depth_(depth) {}

  bool failed() const { return error_.has_value(); }
  Error take_error() { return std::move(*error_); }
  void fail_here(std::string message);

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }
  char take();
  void skip(std::size_t count) {
    while (count-- > 0) take();
  }
  std::size_t position() const { return at_; }
  Place here() const {
    const std::size_t at = base_ ? *base_ + at_ : 0;
    return {file_, line_, at, at};
  }
  Place since(const Place& start) const { return {start.file, start.line, start.begin, here().end}; }

  /// Spaces, joined lines and comments; not the end of a line.
  void blanks();
  /// The same and line ends, with the bodies of here-documents.
  void lines();
  /// The end of a line: reads the here-documents that it opened.
  void end_line();

  bool at_word() const;
  /// A word; empty parts when there is none.
  RawWord word();
  /// The next word as text when it is unquoted literal text only; the scanner does not move.
  std::string ahead();
  /// The raw text up to the matching `))`, as a word with expansions.
  RawWord arithmetic_text();
  void open_document(std::shared_ptr<RawWord> into, std::string mark, bool literal, bool tabs);

  std::string_view text() const { return text_; }
  const std::string& file() const { return file_; }
  int depth() const { return depth_; }

 private:
  struct Document {
    std::shared_ptr<RawWord> into;
    std::string mark;
    bool literal, tabs;
  };

  void double_quoted(RawWord& into);
  void single_quoted(RawWord& into, bool ansi);
  void dollar(RawWord& into, bool quoted);
  /// Whether the `((` here is closed by a `))` of its own.
  bool closes_doubly() const;
  void braced(RawWord& into, bool quoted);
  void command(RawWord& into, bool quoted, std::size_t start);
  void backquoted(RawWord& into, bool quoted);
  /// A word inside ${…}: up to one of `stops` at this level.
  std::shared_ptr<RawWord> inside(std::string_view stops, bool quoted);
  /// Text with expansions, quotes being plain characters: bodies of here-documents.
  RawWord body(std::string_view text, int line);
  static void text(RawWord& into, std::string_view more, bool quoted);

  std::string_view text_;
  std::string file_;
  std::optional<std::size_t> base_;
  std::size_t at_ = 0;
  int line_;
  int depth_;
  std::vector<Document> documents_;
  std::optional<Error> error_;
};

}  // namespace headroom::shell
