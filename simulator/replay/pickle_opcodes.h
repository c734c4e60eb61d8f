#pragma once

#include <cstdint>
#include <string_view>

namespace headroom::replay {

/// The opcodes that the reader executes. Snapshots are written with protocol 2 (PyTorch's C++ writer), 4 or 5
/// (Python's pickle module); a snapshot holds numbers, strings, lists, tuples and dicts only.
enum class PickleOp : std::uint8_t {
  mark = '(',
  stop = '.',
  pop = '0',
  pop_mark = '1',
  binget = 'h',
  long_binget = 'j',
  binput = 'q',
  long_binput = 'r',
  memoize = 0x94,
  none = 'N',
  newtrue = 0x88,
  newfalse = 0x89,
  binint = 'J',
  binint1 = 'K',
  binint2 = 'M',
  long1 = 0x8a,
  long4 = 0x8b,
  binfloat = 'G',
  short_binunicode = 0x8c,
  binunicode = 'X',
  binunicode8 = 0x8d,
  empty_list = ']',
  append = 'a',
  appends = 'e',
  list = 'l',
  empty_tuple = ')',
  tuple1 = 0x85,
  tuple2 = 0x86,
  tuple3 = 0x87,
  tuple = 't',
  empty_dict = '}',
  setitem = 's',
  setitems = 'u',
  dict = 'd',
  proto = 0x80,
  frame = 0x95,
};

/// What is known of an opcode that is not executed.
struct PickleOpcodeInfo {
  std::string_view name;
  /// It would import a name or call something. Nothing is ever imported or called: such a file is refused.
  bool executes = false;
};

/// The name of any opcode of protocols 0 to 5; empty name for a byte that is none.
PickleOpcodeInfo pickle_opcode(std::uint8_t byte);

}  // namespace headroom::replay
