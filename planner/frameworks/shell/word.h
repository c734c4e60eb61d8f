#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace headroom::shell {

/// Where something stands: a file with its line, and the bytes it takes there.
struct Place {
  std::string file;
  int line = 0;
  std::size_t begin = 0, end = 0;  ///< [begin, end) in the file's text; equal: nowhere (a command line)
};

/// A stretch of a text that nobody knows before the run: an unset variable, the date, a host's name.
struct Unknown {
  std::size_t at = 0, size = 0;  ///< bytes of the text that stand for it (how it was written)
  std::string name;              ///< the variable that would tell (`--env NAME=VALUE`); empty: none
  std::string why;               ///< "nothing sets it", "a command's output", "depends on a test" …
  std::string file;              ///< where it comes from
  int line = 0;
  bool unset = false;  ///< nothing sets it: empty in tests and defaults
};

/// A text as the shell would pass it on, with what is not known of it and where it was written. Used for
/// variables, words of a command and outputs alike.
struct Word {
  std::string text;  ///< unknown stretches as they were written: `$NAME`, `$(command)`
  std::vector<Unknown> unknown;
  Place place;

  bool known() const { return unknown.empty(); }
  void append(std::string_view more) { text += more; }
  void append(const Word& more);
};

/// A word that is one unknown stretch.
Word unknown_word(std::string text, std::string name, std::string why, const Place& place);

/// The value of a variable that nothing sets.
Word unset_word(std::string text, std::string name, std::string why, const Place& place);

/// Bytes [begin, end) of a word; unknown stretches that are cut become whole again.
Word part_of(const Word& word, std::size_t begin, std::size_t end);

/// What to do about the first unknown stretch: "$NNODES: nothing sets it; give --env NNODES=VALUE".
std::string what_is_missing(const Word& word);

}  // namespace headroom::shell
