#pragma once

#include <string>

namespace headroom {

/// Why something could not be done, as a value. Printed by the command line as
/// `headroom: FILE:LINE: KEY: MESSAGE`, leaving out what is empty.
struct Error {
  /// What kind decides the exit code.
  enum class Kind {
    input,       ///< the user's files, flags or environment: exit 2
    incomplete,  ///< could not finish: output not written, interrupted, internal: exit 1
  };

  std::string message;  ///< what was expected, what was found, what to do
  std::string file;     ///< path as the user gave it
  int line = 0;         ///< from 1; 0 when unknown
  std::string key;      ///< dotted key inside the file
  Kind kind = Kind::input;

  /// `FILE:LINE: KEY: MESSAGE` without the parts that are unknown.
  std::string text() const;

  friend bool operator==(const Error&, const Error&) = default;
};

}  // namespace headroom
