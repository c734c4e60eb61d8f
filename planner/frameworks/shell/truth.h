#pragma once

namespace headroom::shell {

/// The outcome of a test or command that is followed without being run.
enum class Truth { no, yes, unknown };

inline Truth opposite(Truth truth) {
  return truth == Truth::unknown ? truth : truth == Truth::yes ? Truth::no : Truth::yes;
}
inline Truth as_truth(bool value) {
  return value ? Truth::yes : Truth::no;
}

}  // namespace headroom::shell
